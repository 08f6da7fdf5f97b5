import { bodyOfValue } from './call-body.js';
import { decodeCarried, findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import {
  methodOf,
  shorten,
  type Denial,
  type Expectation,
  type GateRequest,
  type PendingCall,
  type RequestBody,
} from './request.js';

/** The command and the tool that an HTTP route accepts; `null` for any. */
export type RouteExpectation = Pick<Expectation, 'command' | 'tool'>;

/**
 * Opens a plain HTTP request. Every request is checked, and its body is compared with the signed arguments.
 *
 * A transport can pass the body as `unread` first and add it with {@link withHttpBody}. Then it need not read the
 * body of a request that has no bundle.
 */
export function openHttp(request: GateRequest, { command, tool }: RouteExpectation): PendingCall | Denial {
  const method = methodOf(request);
  if (method !== request.method) {
    const message = `the HTTP method is ${shorten(method)}, expected one`;
    return deny(gateFailure('METHOD_NOT_ALLOWED', 'http', message), tool);
  }
  const encoded = findBundle('http', request.headers, undefined);
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

/** Adds the body to a call that was opened without one. */
export function withHttpBody(call: PendingCall, body: RequestBody): PendingCall | Denial {
  if (body.kind === 'too large') {
    return deny(gateFailure('BODY_TOO_LARGE', 'http', body.reason), call.requested);
  }
  return { ...call, body: body.kind === 'value' ? bodyOfValue(body.value) : body };
}

function deny(failure: Denial['failure'], requested: string | null): Denial {
  return { kind: 'deny', protocol: 'http', id: null, requested, failure };
}
