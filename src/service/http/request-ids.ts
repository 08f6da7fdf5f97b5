import { randomBytes } from 'node:crypto';

// Covers what proxies and frameworks send: UUIDs, hex digits, base64 in both alphabets.
const FORM = /^[\w.:@+/=-]{1,128}$/;
// trace-id and parent-id of W3C Trace Context. Version ff and all-zero ids are invalid.
const TRACEPARENT =
  /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:$|-(?!.*[^!-~]).{0,100}$)/;

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
 * The trace that a request belongs to, from its `traceparent` header (W3C Trace Context).
 *
 * @returns 32 hex digits; `null` if the header is absent or malformed
 * @example traceIdOf('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'); // '0af7651916cd43dd8448eb211c80319c'
 */
export function traceIdOf(traceparent: string | null): string | null {
  return (traceparent !== null && TRACEPARENT.exec(traceparent)?.[1]) || null;
}
