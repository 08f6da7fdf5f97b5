import type { BindingMode, ChainVerdict } from '../gate/index.js';
import type { ReplayStore } from '../replay/replay-store.js';
import type { EventOptions } from './events.js';

/** What verifies: a `Verifier` of this process, or a `DrsClient` of a service. */
export interface CallVerifier {
  verify(
    bundle: unknown,
    call?: { readonly body?: unknown; readonly bodyText?: string },
  ): Promise<ChainVerdict>;
}

/** Where verdicts come from: one of the two. */
export type VerdictSource =
  | { readonly verifier: CallVerifier; readonly verifyUrl?: never }
  /** The address of a verification service. Whoever answers there decides on every call. */
  | { readonly verifyUrl: string | URL; readonly verifier?: never };

/** What all that protects a tool server is told. Whatever opens something must be said in so many words. */
export type ProtectionOptions = VerdictSource &
  EventOptions & {
    /** The principals (`did:key`) whose delegations count; `'any'`: anyone's, and the handler checks `root_principal`. */
    readonly trustedRoots: readonly string[] | 'any';
    /** What calls must be signed for: this server's `did:key` or URL. `'any'`: a call for another server passes too. */
    readonly serverIdentity: string;
    /** Remembers used invocations. `'none'`: a call can be repeated for as long as its delegation lives. */
    readonly replayStore: ReplayStore | 'none';
    /**
     * Names this place in the replay store; default: the protocol (`http`, `mcp`, `a2a`). Places with one store and
     * different scopes do not take a call that passes both for its own replay. All instances of one place need the same.
     */
    readonly replayScope?: string;
    /** How old an invocation may be, in seconds, where there is a replay store; default 900. */
    readonly replayWindowSecs?: number;
    /** The clock tolerance for the age of an invocation, in seconds; default 0, and never less than 60 ahead. */
    readonly clockSkewSecs?: number;
    /** Lets requests without a bundle pass, with no context. One with a bad bundle is still refused. Default false. */
    readonly optional?: boolean;
  };

/** Which tool and command a route serves: at least one of them, or `tool: 'any'`. */
export type RouteOptions<R> =
  | {
      /** What `args.tool` of the invocation must be. `'any'`: the handler looks at the signed tool itself. */
      readonly tool: string | ((request: R) => string);
      /** What the invocation's command must be, or lie below; default: whatever the chain allows. */
      readonly command?: string | ((request: R) => string);
    }
  | { readonly tool?: never; readonly command: string | ((request: R) => string) };

/** How a body is treated. */
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
