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

/** All headers `Mcp-Param-…`, which repeat arguments of a call of MCP; what follows is the tool's choice. */
const PARAMETERS = 'mcp-param-*';

/** The headers that the gate reads, in lower case. */
export const GATE_HEADERS = [
  'x-drs-bundle',
  'mcp-protocol-version',
  'mcp-method',
  'mcp-name',
  'mcp-session-id',
  PARAMETERS,
  'accept',
  'content-type',
  'content-encoding',
  'connection',
  'upgrade',
  'traceparent',
  'tracestate',
  'baggage',
  ...NAMING_HEADERS,
] as const;

/** A header of {@link GATE_HEADERS}. */
export type GateHeader = (typeof GATE_HEADERS)[number];

/** Returns all values of a header, in the order in which they came; empty if there are none. */
export type HeaderLookup = (name: GateHeader) => readonly string[];

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
export interface GateRequest {
  /** The HTTP method in upper case. */
  readonly method: string;
  /** The path with its query, as the caller sent it; `null` if the transport does not know it. */
  readonly path: string | null;
  readonly headers: HeaderLookup;
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
export function methodOf({
  method,
  path,
  headers,
}: Pick<GateRequest, 'method' | 'path' | 'headers'>): string {
  let all = method;
  for (const name of NAMING_METHODS) {
    for (const other of headers(name)) if (other !== method) all += ` or ${other}`;
  }
  for (const name of NAMING_PATHS) {
    for (const other of headers(name)) if (other !== path) all += ` with ${name}: ${other}`;
  }
  for (const name of NAMING_MOUNTS) {
    for (const mount of headers(name)) all += ` with ${name}: ${mount}`;
  }
  return all;
}

/** The body to compare with the signed arguments. */
export type CallBody = Exclude<RequestBody, { readonly kind: 'too large' | 'none' }>;

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

const READ: ReadonlySet<string> = new Set(GATE_HEADERS);
const LONGEST_NAME = Math.max(...GATE_HEADERS.map((name) => name.length));

/**
 * Makes a lookup from headers, whose names may have any case. Only headers that the gate reads are kept.
 *
 * @param headers a value or an array of values, by name; or pairs
 * @example headersOf({ 'X-DRS-Bundle': 'e30' })('x-drs-bundle'); // ['e30']
 */
export function headersOf(
  headers: Readonly<Record<string, unknown>> | Iterable<readonly [name: string, value: unknown]>,
): HeaderLookup {
  const found = new Map<string, string[]>();
  const pairs = Symbol.iterator in headers ? headers : Object.entries(headers);
  for (const [name, value] of pairs as Iterable<readonly [string, unknown]>) {
    // Lower-casing a long name takes time.
    if (name.length > LONGEST_NAME && !PARAMETER.test(name)) continue;
    const read = headerName(name);
    if (!READ.has(read)) continue;
    let values = found.get(read);
    if (values === undefined) found.set(read, (values = []));
    // One by one: a copy for each of a name's spellings would take seconds.
    for (const item of Array.isArray(value) ? (value as unknown[]) : [value])
      if (typeof item === 'string') values.push(headerValue(item));
  }
  return (name) => found.get(name) ?? [];
}

/**
 * The name of a header as servers may read it: in lower case, and CGI and its heirs take `_` for `-`. One name stands for
 * all headers `Mcp-Param-…`.
 */
export function headerName(name: string): string {
  return PARAMETER.test(name) ? PARAMETERS : name.toLowerCase().replaceAll('_', '-');
}

const PARAMETER = /^mcp[-_]param[-_]/i;

/**
 * A header's value without the spaces and tabs around it, which are no part of it (RFC 9110, section 5.5). A described
 * request may have them. Not a regular expression: one would try again at each space inside.
 */
export function headerValue(value: string): string {
  let [start, end] = [0, value.length];
  while (isSpace(value, start)) start++;
  while (isSpace(value, end - 1)) end--;
  return value.slice(start, end);
}

function isSpace(text: string, at: number): boolean {
  return text[at] === ' ' || text[at] === '\t';
}
