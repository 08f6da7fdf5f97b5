import type { JsonValue } from '../protocol/json.js';
import type { GateFailure, Protocol } from './codes.js';

/** The headers that the gate reads, in lower case. */
export type GateHeader = 'x-drs-bundle' | 'mcp-method' | 'mcp-name';

/** All values of a header, in the order in which they came; empty where there is none. */
export type HeaderLookup = (name: GateHeader) => readonly string[];

/** The body of a request, as far as its transport could read it. */
export type RequestBody =
  /** JSON text, which may still turn out to be none. */
  | { readonly kind: 'text'; readonly text: string }
  /** What a parser made of the text, which is not at hand: numbers beyond 2^53 then bind to nothing. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** Bytes that are not UTF-8 JSON, whatever they are: compressed, a form, another charset. */
  | { readonly kind: 'unusable'; readonly reason: string }
  /** More than is read, or a part only. */
  | { readonly kind: 'too large'; readonly reason: string }
  /** Not read yet, or not to be looked at. */
  | { readonly kind: 'unread' };

/** A protocol request, before anything of it is checked. */
export interface GateRequest {
  /** The HTTP method, in capitals. */
  readonly method: string;
  readonly headers: HeaderLookup;
  readonly body: RequestBody;
}

/** What is compared with the signed arguments. */
export type CallBody = Exclude<RequestBody, { readonly kind: 'too large' }>;

/** Nothing to check: the request goes on as it came. */
export interface Pass {
  readonly kind: 'pass';
}

/** A call whose chain is to be verified next. */
export interface PendingCall {
  readonly kind: 'check';
  readonly protocol: Protocol;
  /** The JSON-RPC id to answer with; `null` on `http`. */
  readonly id: JsonValue;
  /** As it came, parsed strictly and otherwise trusted in nothing. */
  readonly bundle: JsonValue;
  /** The same as it was carried: base64url text. */
  readonly encoded: string;
  readonly body: CallBody;
  /** What the request asks for: the tool (`mcp`) or the method (`a2a`); bounded, and trusted in nothing. */
  readonly requested: string | null;
  readonly expected: Expectation;
}

/** What the invocation has to be for, besides the arguments. */
export interface Expectation {
  /** What `cmd` must be; `null` for any. */
  readonly command: string | null;
  /** Whether a command below `command` will do, too. */
  readonly orBelow: boolean;
  /** What `args.tool` must be; `null` where the binding decides, or for any. */
  readonly tool: string | null;
}

/** A request that must not reach its handler. */
export interface Denial {
  readonly kind: 'deny';
  readonly protocol: Protocol;
  readonly id: JsonValue;
  readonly requested: string | null;
  readonly failure: GateFailure;
}

/** What can be told of a request before its chain is verified. */
export type Opening = Pass | PendingCall | Denial;

const MAX_REQUESTED = 200;

/** A name that a caller chose, short enough for a log. */
export function shorten(name: unknown): string | null {
  if (typeof name !== 'string') return null;
  return name.length > MAX_REQUESTED ? `${name.slice(0, MAX_REQUESTED)}…` : name;
}

/**
 * Looks headers up in a map, in any case. Each name of the map is looked at once.
 *
 * @param headers by name: a value, or several
 * @example headersOf({ 'X-DRS-Bundle': 'e30' })('x-drs-bundle'); // ['e30']
 */
export function headersOf(headers: Readonly<Record<string, unknown>>): HeaderLookup {
  const found = new Map<string, string[]>();
  for (const [name, value] of Object.entries(headers)) {
    if (name.length > MAX_NAME) continue;
    const lower = name.toLowerCase();
    const values = (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'string');
    if (values.length > 0) found.set(lower, [...(found.get(lower) ?? []), ...values]);
  }
  return (name) => found.get(name) ?? [];
}

// Longer than any name that is looked up.
const MAX_NAME = 32;
