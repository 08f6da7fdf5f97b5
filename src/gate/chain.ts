import { findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import { readNameHeader } from './mcp.js';
import { methodOf, shorten, type GateRequest, type Opening } from './request.js';
import { denier, openCall, passesMcpHttp } from './rpc-gate.js';

/**
 * Opens a request whose body the proxy cannot send. Every POST counts as a call, whatever its headers say. If there
 * is an `Mcp-Name` header, it names the tool. The arguments are not checked, so operators must enable this
 * explicitly. Denials have the form of MCP.
 *
 * @example openChain({ method: 'POST', headers: headersOf(headers), body: { kind: 'unread' } });
 */
export function openChain(request: GateRequest): Opening {
  const { headers } = request;
  const method = methodOf(request);
  if (passesMcpHttp(method, headers)) return { kind: 'pass' };
  const name = readNameHeader(headers);
  const tool = name === null || name === 'unreadable' ? null : name.tool;
  const requested = shorten(tool);
  const deny = denier('mcp', null, requested);
  if (method !== 'POST') {
    const message = `the HTTP method is ${shorten(method)}, expected POST`;
    return deny(gateFailure('METHOD_NOT_ALLOWED', 'mcp', message));
  }
  if (name === 'unreadable') {
    return deny(
      gateFailure('HEADER_MISMATCH', 'mcp', 'the header Mcp-Name is not one name, expected one or none'),
    );
  }
  const encoded = findBundle('mcp', headers, undefined);
  if (typeof encoded !== 'string') return deny(encoded);
  return openCall('mcp', {
    id: null,
    requested,
    encoded,
    body: { kind: 'unread' },
    expected: { command: null, orBelow: false, tool },
  });
}
