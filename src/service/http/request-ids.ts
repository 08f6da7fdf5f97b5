import { randomBytes } from 'node:crypto';

// Covers what proxies and frameworks send: UUIDs, hex digits, base64 in both alphabets.
const FORM = /^[\w.:@+/=-]{1,128}$/;
// trace-id and parent-id of W3C Trace Context. Version ff and all-zero ids are invalid, and only later versions than 00 may be longer.
const TRACEPARENT =
  /^(?!ff|00.{54})[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:$|-(?!.*[^!-~]).{0,100}$)/;
/** What W3C Baggage asks everybody to pass on; of a `tracestate` it is 512. */
const MAX_LENGTH = 8192;

/** What a request belongs to, by the names of W3C Trace Context and W3C Baggage: what OpenTelemetry reads. */
export interface TraceParent {
  readonly traceparent: string;
  readonly tracestate?: string;
  readonly baggage?: string;
}

const instance = randomBytes(6).toString('hex');
let requests = 0;

/**
 * Returns the caller's request id if it is safe to log and send back: 1 to 128 letters, digits and `_ . : @ + / = -`.
 * Otherwise returns `null`.
 */
export function readRequestId(text: string | null): string | null {
  return text !== null && FORM.test(text) ? text : null;
}

/** Makes a request id that is unique among all instances. */
export function newRequestId(): string {
  return `${instance}-${(++requests).toString(36)}`;
}

/**
 * What a request belongs to.
 *
 * @param valueOf a header, with its values joined, or a member of `params._meta`, of any type
 * @returns `null` if `traceparent` is absent or malformed: the others mean nothing without it
 */
export function traceParentOf(valueOf: (name: keyof TraceParent) => unknown): TraceParent | null {
  const traceparent = valueOf('traceparent');
  if (typeof traceparent !== 'string' || !TRACEPARENT.test(traceparent)) return null;
  const rest = (['tracestate', 'baggage'] as const).flatMap((name) => {
    const value = valueOf(name);
    return typeof value === 'string' && value.length <= MAX_LENGTH ? [[name, value] as const] : [];
  });
  return { traceparent, ...Object.fromEntries(rest) };
}

/** The id of its trace: 32 hex digits. */
export function traceIdOf(parent: TraceParent | null): string | undefined {
  return parent?.traceparent.slice(3, 35);
}
