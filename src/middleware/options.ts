import type { BindingMode, ChainVerdict } from '../gate/decide.js';
import type { ReplayStore } from '../usage/usage-store.js';
import type { EventOptions } from './events.js';

/** A verifier: a `Verifier` in this process, or a `DrsClient` of a service. */
export interface CallVerifier {
  verify(
    bundle: unknown,
    call?: { readonly body?: unknown; readonly bodyText?: string; readonly details?: boolean },
  ): Promise<ChainVerdict>;
}

/** Where verdicts come from: one of the two. */
export type VerdictSource =
  | { readonly verifier: CallVerifier; readonly verifyUrl?: never }
  /** The address of a verification service. Whoever answers there decides on every call. */
  | { readonly verifyUrl: string | URL; readonly verifier?: never };

/** The common options for protecting a tool server. Whatever lets more calls pass must be set explicitly. */
export type ProtectionOptions = VerdictSource &
  EventOptions & {
    /**
     * The principals (`did:key`) whose delegations count. `'any'`: all that the verifier trusts. Unless it has trusted
     * roots of its own, that is anyone, and the handler must check `root_principal`.
     */
    readonly trustedRoots: readonly string[] | 'any';
    /** This server's `did:key` or URL, for which calls must be signed. `'any'`: calls for other servers pass too. */
    readonly serverIdentity: string;
    /** Remembers used invocations. `'none'`: a call can be repeated until its delegation expires. */
    readonly replayStore: ReplayStore | 'none';
    /**
     * The name of this check in the replay store; default: the protocol (`http`, `mcp`, `a2a`). If a call passes two
     * checks that share a store, give them different scopes; otherwise the second check takes the call for a replay.
     * All instances of one server must use the same scope.
     */
    readonly replayScope?: string;
    /** Maximum age of an invocation in seconds, if there is a replay store; default 900. */
    readonly replayWindowSecs?: number;
    /** The clock tolerance for the age of an invocation in seconds; default 0. For times ahead it is at least 60. */
    readonly clockSkewSecs?: number;
    /** Lets requests without a bundle pass, without a context. A bad bundle is still refused. Default false. */
    readonly optional?: boolean;
  };

/** Which tool and command a route serves: at least one of them, or `tool: 'any'`. */
export type RouteOptions<R> = {
  /**
   * The arguments that the handler takes from path and query, by name; those that are `undefined` are left out. They are
   * compared with the signed arguments together with the members of the body. A request whose query has another name is
   * refused; without this, so is one with any query, or with parameters that the framework has found in the path. `() => ({})`: none of them is an argument.
   */
  readonly parameters?: (request: R) => Readonly<Record<string, string | undefined>>;
} & (
  | {
      /** The required `args.tool` of the invocation. `'any'`: the handler checks the signed tool itself. */
      readonly tool: string | ((request: R) => string);
      /** The required command of the invocation, which may also be a path below it; default: what the chain allows. */
      readonly command?: string | ((request: R) => string);
    }
  | { readonly tool?: never; readonly command: string | ((request: R) => string) }
);

/** How the body of a request is checked. */
export interface BodyOptions {
  /** Default `enforced`. */
  readonly bindingMode?: BindingMode;
  /** The largest request body, in bytes; default 1 MiB. */
  readonly maxBodyBytes?: number;
}

/** Options of the HTTP middleware. */
export type MiddlewareOptions<R = Request> = ProtectionOptions & RouteOptions<R> & BodyOptions;

/** The default of `maxBodyBytes`. */
export const DEFAULT_MAX_BODY_BYTES = 1024 * 1024;
