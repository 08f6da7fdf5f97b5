import { findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import { readNameHeader } from './mcp.js';
import { shorten, type GateRequest, type Opening } from './request.js';
import { denier, openCall, PASSING_METHODS } from './rpc-gate.js';

/**
 * Opens a request of which a proxy cannot send the body. Every POST is a call, whatever its headers say of it; the tool
 * comes from `Mcp-Name` where that is there. Nothing ties the call to its arguments, so this is for whoever asks for it
 * by name. Denials have the form of MCP.
 *
 * @example openChain({ method: 'POST', headers: headersOf(headers), body: { kind: 'unread' } });
 */
export function openChain({ method, headers }: GateRequest): Opening {
  if (PASSING_METHODS.has(method)) return { kind: 'pass' };
  const name = readNameHeader(headers);
  const tool = name === null || name === 'unreadable' ? null : name.tool;
  const requested = shorten(tool);
  const deny = denier('mcp', null, requested);
  if (method !== 'POST') {
    const message = `the HTTP method is ${shorten(method) ?? 'missing'}, expected POST`;
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
