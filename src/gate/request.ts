import type { JsonValue } from '../protocol/json.js';
import type { GateFailure, Protocol } from './codes.js';

/** The headers that can name another method than that of the request. */
const NAMING_METHODS = [
  'x-forwarded-method',
  'x-original-method',
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
] as const;

/** The headers that can name another path. Frameworks take it for that of the request. */
const NAMING_PATHS = ['x-original-url', 'x-rewrite-url'] as const;

/**
 * The headers that can name where an application is mounted. WSGI servers and their middleware take that off the path, so
 * that another handler runs: also where it is the whole path.
 */
const NAMING_MOUNTS = ['script-name', 'x-script-name', 'path-info'] as const;

/** The headers that an application could take for another method or path than those that are checked. */
export const NAMING_HEADERS = [...NAMING_METHODS, ...NAMING_PATHS, ...NAMING_MOUNTS] as const;

/** Stands for all headers `Mcp-Param-…`, which repeat arguments of a call of MCP; what follows is the tool's choice. */
const PARAMETERS = 'mcp-param-*';

/** The headers with which a proxy says the path of its caller; {@link NAMING_PATHS} and others say more. */
export const PROXY_PATHS = ['x-forwarded-uri', 'x-original-uri'] as const;

/** The headers that the gate reads. Whoever writes for CGI may spell them with `_`. */
// prettier-ignore
export const GATE_HEADERS = [
  'x-drs-bundle', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id', PARAMETERS, 'accept',
  'content-type', 'content-encoding', 'connection', 'upgrade', 'traceparent', 'tracestate', 'baggage',
  'x-envoy-auth-partial-body', ...PROXY_PATHS, ...NAMING_HEADERS,
] as const;

/** The headers that a service reads besides, in no other spelling: whoever could choose one would be another client. */
// prettier-ignore
const OF_CONNECTIONS = [
  'content-length', 'transfer-encoding', 'origin', 'sec-fetch-site', 'x-request-id', 'x-forwarded-for', 'authorization',
  'host', 'x-a2a-extensions',
] as const;

/** A header that is read, in lower case. */
export type HeaderName = (typeof GATE_HEADERS)[number] | (typeof OF_CONNECTIONS)[number];

/**
 * The headers of a request that are read. The values of one name are joined by a line feed, which no header has: V8 comes to
 * allocate arrays of them in the old generation, where dead ones keep bundles alive.
 */
export type HeaderMap = ReadonlyMap<HeaderName, string>;

/** The head of a request, from any transport. Nothing in it has been checked. */
export interface RequestHead {
  /** The HTTP method, as it was sent. */
  readonly method: string;
  /** The path with its query, as the caller sent it; `null` if the transport does not know it. */
  readonly target: string | null;
  readonly headers: HeaderMap;
}

/** The body of a request, in the form in which the transport has it. */
export type RequestBody =
  /** Text that should be JSON; what was parsed of it, once it was. */
  | { readonly kind: 'text'; readonly text: string; parsed?: unknown }
  /** A parsed value whose text is not available. Numbers beyond 2^53 in it match nothing, since they may be rounded. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** Bytes that are not UTF-8 JSON: compressed, a form, another charset. */
  | {
      readonly kind: 'unusable';
      readonly reason: string;
      /** The text, if it came as an envelope: routes that take envelopes open it. */
      readonly envelope?: string;
    }
  /** Larger than the limit, or incomplete. */
  | { readonly kind: 'too large'; readonly reason: string }
  /** There is none, and the transport knows it. */
  | { readonly kind: 'none' }
  /** Not read yet, or never read. */
  | { readonly kind: 'unread' };

/** A protocol request. Nothing in it has been checked. */
export interface GateRequest extends RequestHead {
  /** Whether the transport has no headers, as stdio, or may not pass on all: then none is missed. */
  readonly mayLackHeaders?: boolean;
  readonly body: RequestBody;
  /** The bundle of the envelope from which this request was taken. */
  readonly carried?: string;
}

/**
 * The method that a request is checked as. If a header names another one, or another path, an application behind the gate
 * may use that: then the result names both, which is no method that passes or that a route has.
 */
export function methodOf({ method, target, headers }: RequestHead): string {
  let all = method;
  for (const name of NAMING_METHODS) {
    for (const other of valuesOf(headers, name)) if (other !== method) all += ` or ${other}`;
  }
  for (const name of NAMING_PATHS) {
    for (const other of valuesOf(headers, name)) if (other !== target) all += ` with ${name}: ${other}`;
  }
  for (const name of NAMING_MOUNTS) {
    for (const mount of valuesOf(headers, name)) all += ` with ${name}: ${mount}`;
  }
  return all;
}

/** The body to compare with the signed arguments; `uncompared`: the operator of the tool wants no comparison. */
export type CallBody =
  Exclude<RequestBody, { readonly kind: 'too large' | 'none' }> | { readonly kind: 'uncompared' };

/** A call. The next step is to verify its chain. */
export interface PendingCall {
  readonly kind: 'check';
  readonly protocol: Protocol;
  /** The JSON-RPC id to answer with; `null` on `http`. */
  readonly id: JsonValue;
  /** The form of a denial, if it is not that of the protocol: A2A over REST. */
  readonly form?: 'http' | undefined;
  /** The decoded bundle. It is strict JSON; nothing else about it has been checked. */
  readonly bundle: JsonValue;
  /** The bundle as it was sent: base64url text. */
  readonly encoded: string;
  readonly body: CallBody;
  /** The requested tool (`mcp`) or method (`a2a`), shortened and unchecked: for logs and messages only. */
  readonly requested: string | null;
  readonly expected: Expectation;
  /** Whether its route needs a person's yes. */
  readonly approve?: boolean | undefined;
  /** Asked of a call that waits for a yes: whether its client opens links. */
  readonly elicits?: (() => Elicitation | undefined) | undefined;
}

/** Says that the client of a call opens a link for its user, and sends the call again. */
export interface Elicitation {
  /** The tool server's, of a call that goes on; the client gives it back. */
  readonly requestState: string | null;
  /** Whether it was told so before. A call that is sent again at once, and told so again, would never end. */
  readonly wasTold: boolean;
}

/** The command and the tool that the invocation must be for. */
export interface Expectation {
  /** The required `cmd`; `null` for any. */
  readonly command: string | null;
  /** Whether commands below `command` are accepted too. */
  readonly orBelow: boolean;
  /** The required `args.tool`; `null` for any, or if the binding check compares it. */
  readonly tool: string | null;
}

/** A request that must not reach its handler. */
export interface Denial {
  readonly kind: 'deny';
  readonly protocol: Protocol;
  readonly id: JsonValue;
  /** As in `PendingCall`. */
  readonly form?: 'http' | undefined;
  readonly requested: string | null;
  readonly failure: GateFailure;
  /** Of a call that waits for a yes. */
  readonly elicits?: Elicitation | undefined;
}

/** The result of opening a request, before its chain is verified. What passes needs no check, and is sent on unchanged. */
export type Opening = { readonly kind: 'pass' } | PendingCall | Denial;

const MAX_REQUESTED = 200;

/** Shortens a name that a caller chose, for logs and messages; `null` if it is no text. */
export function shorten(name: string): string;
export function shorten(name: unknown): string | null;
export function shorten(name: unknown): string | null {
  if (typeof name !== 'string') return null;
  return name.length > MAX_REQUESTED ? `${name.slice(0, MAX_REQUESTED)}…` : name;
}

/** A shortened name in quotes, for messages. */
export const shown = (name: string): string => JSON.stringify(shorten(name));

/** All values of a header, in the order in which they came; empty if there are none. */
export function valuesOf(headers: HeaderMap, name: HeaderName): readonly string[] {
  return headers.get(name)?.split('\n') ?? NONE;
}

const NONE: readonly string[] = [];

/**
 * Reads headers, whose names may have any case.
 *
 * @param headers a value or an array of values, by name; or pairs
 * @example readHeaders({ 'X-DRS-Bundle': 'e30' }).get('x-drs-bundle'); // 'e30'
 */
export function readHeaders(
  headers: Readonly<Record<string, unknown>> | Iterable<readonly [name: string, value: unknown]>,
): HeaderMap {
  const read = new Map<HeaderName, string>();
  const pairs = Symbol.iterator in headers ? headers : Object.entries(headers);
  for (const [name, value] of pairs as Iterable<readonly [string, unknown]>) {
    // One by one: a copy for each of a name's spellings would take seconds.
    for (const item of Array.isArray(value) ? (value as unknown[]) : [value])
      // A line feed, which only a described request can have, stays within its value, and makes it malformed.
      if (typeof item === 'string') addHeader(read, name, item.replaceAll('\n', '\r'));
  }
  return read;
}

/** Adds a header of a request to those that are read; any other is left out. */
export function addHeader(headers: Map<HeaderName, string>, sentName: string, sentValue: string): void {
  const name = READ.has(sentName as HeaderName) ? (sentName as HeaderName) : spelled(sentName);
  if (name === null) return;
  // A proxy takes such a header off the caller's request, but may leave a spelling of it. That one agrees with nothing.
  const isSpelling = SAID.has(name) && name !== sentName.toLowerCase();
  const value = isSpelling ? `${sentName}: ${sentValue}` : trimmed(sentValue);
  const before = headers.get(name);
  headers.set(name, before === undefined ? value : `${before}\n${value}`);
}

/**
 * The name that servers may read in another spelling: in lower case, and CGI and its heirs take `_` for `-`. One name stands
 * for all headers `Mcp-Param-…`. `null` for a header that is not read.
 */
function spelled(name: string): HeaderName | null {
  // Nearly all that are not read.
  if (!OTHER_SPELLING.test(name)) return null;
  if (PARAMETER.test(name)) return PARAMETERS;
  // Lower-casing a long name takes time.
  if (name.length > LONGEST_NAME) return null;
  const lower = name.toLowerCase() as HeaderName;
  if (READ.has(lower)) return lower;
  const folded = lower.replaceAll('_', '-') as HeaderName;
  return FOLDED.has(folded) ? folded : null;
}

const OTHER_SPELLING = /[A-Z_]|^mcp-param-/;
const PARAMETER = /^mcp[-_]param[-_]/i;
const FOLDED: ReadonlySet<HeaderName> = new Set(GATE_HEADERS);
const READ: ReadonlySet<HeaderName> = new Set([...GATE_HEADERS, ...OF_CONNECTIONS]);
const LONGEST_NAME = Math.max(...[...READ].map(({ length }) => length));
/** The headers with which a proxy says what the caller has sent. */
const SAID: ReadonlySet<HeaderName> = new Set([
  ...PROXY_PATHS,
  'x-original-url',
  'x-forwarded-method',
  'x-original-method',
]);

/**
 * A header's value without the spaces and tabs around it, which are no part of it (RFC 9110, section 5.5). A described
 * request may have them. Not a regular expression: one would try again at each space inside.
 */
function trimmed(value: string): string {
  let [start, end] = [0, value.length];
  while (isSpace(value, start)) start++;
  while (isSpace(value, end - 1)) end--;
  return value.slice(start, end);
}

function isSpace(text: string, at: number): boolean {
  return text[at] === ' ' || text[at] === '\t';
}
