import { signedArgumentsOf } from './call-body.js';
import { findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import { shorten, type GateRequest, type Opening } from './request.js';
import { answerId, bodyOfMessage, denier, openCall, openRpc } from './rpc-gate.js';

/** The command above all A2A methods. */
export const A2A_COMMAND = '/a2a';

/**
 * Opens a request to an A2A agent over JSON-RPC: every method is checked, under the command `/a2a/<method>`.
 *
 * @example openA2a({ method: 'POST', headers: headersOf(headers), body: { kind: 'text', text } });
 */
export function openA2a(request: GateRequest): Opening {
  const opened = openRpc('a2a', request);
  if (opened.kind !== 'message') return opened;
  const { message } = opened;
  const { method, params } = message;
  const id = answerId(message);
  const requested = shorten(method);
  const deny = denier('a2a', id, requested);
  if (method === undefined) return deny(gateFailure('INVALID_JSONRPC', 'a2a', 'the message has no method'));
  const encoded = findBundle('a2a', request.headers, undefined);
  if (typeof encoded !== 'string') return deny(encoded);
  const args = signedArgumentsOf(method, params);
  if (args === 'not an object') return deny(gateFailure('INVALID_PARAMS', 'a2a', 'params is not an object'));
  if (args === 'reserved') {
    return deny(gateFailure('RESERVED_ARGUMENT', 'a2a', 'params has a member named "tool"'));
  }
  return openCall('a2a', {
    id,
    requested,
    encoded,
    body: bodyOfMessage(message, args),
    expected: { command: `${A2A_COMMAND}/${method}`, orBelow: false, tool: null },
  });
}
