import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ApprovalEvent, YesProof } from '../approval/events.js';
import type { ChainVerdict, GateParts } from '../gate/decide.js';
import type { Denial } from '../gate/request.js';
import { isCommandPath } from '../protocol/claims.js';
import { anyDid } from '../protocol/key-resolver.js';
import {
  callback,
  count,
  flag,
  having,
  kindOf,
  listOf,
  oneOf,
  readOptions,
  text,
  type FilledOptions,
  type GivenOptions,
  type Kind,
  type Table,
} from '../protocol/options.js';
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

/** With what the middleware asks persons. No other code has it. */
export const ASKER: unique symbol = Symbol('asker');

export interface Asker {
  /** Knows who may say yes. */
  readonly verifier: CallVerifier;
  readonly ask: NonNullable<GateParts['ask']>;
  /** Holds a refused call for a while, if it may: whether its question is answered meanwhile. */
  answered(denial: Denial, mayHold: (() => boolean) | undefined): Promise<boolean>;
}

/** Asks persons for their yes to calls; `openApprovals` makes it. */
export interface Approvals {
  /**
   * Serves the page below `/approve/`, and passes other requests on: for `node:http` and frameworks with this signature. Put it in front
   * of every body parser.
   */
  readonly page: (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void;
  /** The same for web-standard requests; others get 404. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Releases what it holds. */
  readonly close: () => void;
  /** @internal */
  readonly [ASKER]: Asker;
}

/** What happened to a question, for whoever keeps it. */
export interface ApprovalRecord {
  readonly event: ApprovalEvent['kind'];
  /** DIDs of the root principal and of the agent; the command. */
  readonly root: string;
  readonly agent: string;
  readonly command: string;
  /** `handle` ends the link, `requested_at` is in Unix seconds. Of `approved` also what proves it. */
  readonly approval: { readonly handle: string; readonly requested_at: number } & Partial<YesProof>;
}

/** An http or https URL, as text or as an object. */
export const httpUrl: Kind<string | URL> = kindOf('an http or https URL', (value) => {
  // A URL of any realm: tests and pages have their own.
  const href =
    typeof value === 'string' ? value : (value as { readonly href?: unknown } | null | undefined)?.href;
  return typeof href === 'string' && URL.canParse(href) && /^https?:$/.test(new URL(href).protocol);
});

const isFunction = (value: unknown) => typeof value === 'function';

/** What every protection is told besides where verdicts come from. */
const COMMON = {
  /**
   * The principals (`did:key`, `did:web`) whose delegations count. `'any'`: all that the verifier trusts. Unless it has trusted
   * roots of its own, that is anyone, and the handler must check `root_principal`.
   */
  trustedRoots: {
    kind: kindOf<readonly string[] | 'any'>(
      "a list of did:keys of Ed25519 keys, or 'any' to trust everybody",
      (value) => value === 'any' || 'value' in listOf(anyDid).check(value),
    ),
    required: true,
  },
  /** This server's `did:key` or URL, for which calls must be signed. `'any'`: calls for other servers pass too. */
  serverIdentity: {
    kind: text(
      "this server's did:key or URL as callers sign for it, or 'any' to take calls for other servers too",
    ),
    required: true,
  },
  /** Remembers used invocations. `'none'`: a call can be repeated until its delegation expires. */
  replayStore: {
    kind: kindOf<ReplayStore | 'none'>(
      "a store such as createMemoryReplayStore() returns, or 'none' to let calls be repeated",
      (value) => value === 'none' || 'value' in having('use', '').check(value),
    ),
    required: true,
  },
  /**
   * The name of this check in the replay store; default: the protocol (`http`, `mcp`, `a2a`). If a call passes two
   * checks that share a store, give them different scopes; otherwise the second check takes the call for a replay.
   * All instances of one server must use the same scope.
   */
  replayScope: { kind: text('a text') },
  /** Maximum age of an invocation in seconds, if there is a replay store; default 900. */
  replayWindowSecs: { kind: count(0, undefined, 'seconds') },
  /** Seconds that an invocation may be issued in the future, if there is a replay store; default 30. */
  clockSkewSecs: { kind: count(0, undefined, 'seconds') },
  /**
   * `'observe'`: the gate is on trial. What it would refuse reaches the handler, without a context, and goes to `onRefused` as
   * `observed`; nobody is protected. Default `'enforce'`.
   */
  mode: { kind: oneOf('enforce', 'observe'), default: 'enforce' },
  /**
   * Asks persons for their yes to calls that need one. Default: such calls are refused. Only with a verifier in this process.
   */
  approvals: {
    kind: kindOf<Approvals>(
      'what openApprovals() returns',
      (value) => typeof value === 'object' && value !== null && ASKER in value,
    ),
  },
  /** Lets requests without a bundle pass, without a context. A bad bundle is still refused. Default false. */
  optional: { kind: flag, default: false },
} satisfies Table;

export const PROTECTION = {
  verifier: { kind: having<CallVerifier>('verify', 'what createVerifier() or new DrsClient() returns') },
  verifyUrl: { kind: httpUrl },
  ...COMMON,
  onToolCall: { kind: callback() },
  onRefused: { kind: callback() },
  eventSink: { kind: having('write', 'a stream, or an object with a function write') },
  onError: { kind: callback<(error: Error) => void>() },
} satisfies Table;

/** What a protection knows of its server. Whatever lets more calls pass must be set explicitly. */
export interface ServerOptions extends GivenOptions<typeof COMMON> {}

/** The common options for protecting a tool server. */
export type ProtectionOptions = VerdictSource & EventOptions & ServerOptions;

export const BODY = {
  /** The largest request body, in bytes; default 1 MiB. */
  maxBodyBytes: { kind: count(1, undefined, 'bytes'), default: 1024 * 1024 },
} satisfies Table;

/** What becomes of a call whose body is not what was signed: `enforced` denies it, `off` does not read the body. */
export type BindingMode = 'enforced' | 'off';

const BOUND_BODY = {
  ...BODY,
  /** Default `enforced`. */
  bindingMode: { kind: oneOf('enforced', 'off'), default: 'enforced' },
} satisfies Table;

/** How the body of a request is checked. */
export interface BodyOptions extends GivenOptions<typeof BOUND_BODY> {}

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

export type CheckedRoute<R> = ProtectionOptions & RouteOptions<R> & FilledOptions<typeof BOUND_BODY>;

/** Options of the HTTP middleware. */
export type MiddlewareOptions<R = Request> = ProtectionOptions & RouteOptions<R> & BodyOptions;

export const ROUTE = {
  ...PROTECTION,
  ...BOUND_BODY,
  tool: {
    kind: kindOf(
      "the name of the tool that this route serves, a function of the request, or 'any'",
      (value) => (typeof value === 'string' && value !== '') || isFunction(value),
    ),
  },
  command: {
    kind: kindOf(
      'a path such as "/tools/weather" without a slash at its end, or a function of the request',
      (value) => isCommandPath(value) || isFunction(value),
    ),
  },
  parameters: { kind: callback('a function of the request that gives an object of strings') },
} satisfies Table;

/** The options of a protected route whose framework takes errors. */
export const ROUTE_OR_NEXT = {
  ...ROUTE,
  errors: { kind: oneOf('answer', 'next'), default: 'answer' },
} satisfies Table;

/**
 * Checks the options that a user of this library passes.
 *
 * @returns a copy of the own members
 * @throws TypeError with all problems, one per line
 */
export function checkProtection<T extends object, Rows extends Table>(
  given: T,
  table: Rows,
): T & FilledOptions<Rows> {
  const { options, problems } = readOptions(given, table);
  const faults = [...problems];
  if ('verifier' in options === 'verifyUrl' in options)
    faults.push(
      'give exactly one of verifier (createVerifier() or a DrsClient) and verifyUrl (the address of a service)',
    );
  const { approvals, verifier } = options as Partial<ProtectionOptions>;
  if (approvals !== undefined && approvals[ASKER].verifier !== verifier)
    faults.push(
      'approvals was opened with another verifier, which may know other approvers: give both the same one in this process, not verifyUrl',
    );
  if ('tool' in table && !('tool' in options) && !('command' in options))
    faults.push(
      "say which calls this route serves: tool, command, or both; tool: 'any' leaves it to the handler",
    );
  if (faults.length > 0) throw new TypeError(faults.join('\n'));
  return options as T & FilledOptions<Rows>;
}
