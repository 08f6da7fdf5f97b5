import { randomBytes } from 'node:crypto';

// What proxies and frameworks send: UUIDs, hex digits, base64 in both alphabets.
const FORM = /^[\w.:@+/=-]{1,128}$/;
// trace-id and parent-id of W3C Trace Context; version ff and ids of zeros only are not valid.
const TRACEPARENT =
  /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:$|-(?!.*[^!-~]).{0,100}$)/;

const instance = randomBytes(6).toString('hex');
let requests = 0;

/**
 * The request id that a caller has sent, if it is one that may be logged and sent back: 1 to 128 letters, digits and
 * `_ . : @ + / = -`. Anything else counts as none.
 */
export function readRequestId(text: string | null): string | null {
  return text !== null && FORM.test(text) ? text : null;
}

/** A request id of our own: unique among all instances. */
export function newRequestId(): string {
  return `${instance}-${(++requests).toString(36)}`;
}

/**
 * The trace that a request belongs to, from its `traceparent` header (W3C Trace Context).
 *
 * @returns 32 hex digits; `null` where the header does not follow the standard, which then counts as absent
 * @example traceIdOf('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'); // '0af7651916cd43dd8448eb211c80319c'
 */
export function traceIdOf(traceparent: string | null): string | null {
  return (traceparent !== null && TRACEPARENT.exec(traceparent)?.[1]) || null;
}
