import { bodyOfValue } from './call-body.js';
import { BUNDLE_HEADER, decodeCarried, findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import type { Denial, Expectation, GateRequest, PendingCall, RequestBody } from './request.js';

/** What an HTTP route is for: what the operator says, or `null` for any. */
export type RouteExpectation = Pick<Expectation, 'command' | 'tool'>;

/**
 * Opens a plain HTTP request: each one is checked, and its body is what was signed.
 *
 * A transport may hand in the body as `unread` and put it in with {@link withHttpBody}, so that it reads no body of a
 * request without a bundle.
 */
export function openHttp(request: GateRequest, { command, tool }: RouteExpectation): PendingCall | Denial {
  const encoded = findBundle('http', request.headers, undefined, {
    message: `no ${BUNDLE_HEADER} header`,
  });
  if (typeof encoded !== 'string') return deny(encoded, tool);
  const decoded = decodeCarried('http', encoded);
  if ('code' in decoded) return deny(decoded, tool);
  const call: PendingCall = {
    kind: 'check',
    protocol: 'http',
    id: null,
    bundle: decoded.bundle,
    encoded,
    body: { kind: 'unread' },
    requested: tool,
    expected: { command, orBelow: true, tool },
  };
  return withHttpBody(call, request.body);
}

/** Puts the body into a call that was opened without. */
export function withHttpBody(call: PendingCall, body: RequestBody): PendingCall | Denial {
  if (body.kind === 'too large') {
    return deny(gateFailure('BODY_TOO_LARGE', 'http', body.reason), call.requested);
  }
  return { ...call, body: body.kind === 'value' ? bodyOfValue(body.value) : body };
}

function deny(failure: Denial['failure'], requested: string | null): Denial {
  return { kind: 'deny', protocol: 'http', id: null, requested, failure };
}
