import { findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import { readNameHeader } from './mcp.js';
import { isCommandPath } from '../protocol/claims.js';
import { methodOf, shorten, type GateRequest, type Opening } from './request.js';
import { denier, openCall, passesMcpHttp } from './json-rpc.js';

const PREFIX = '/mcp/';

/** Whether a text can be the command of {@link openChain}: one of MCP, whose method the header `Mcp-Method` names. */
export function isChainCommand(command: unknown): command is string {
  return isCommandPath(command) && command.startsWith(PREFIX);
}

/**
 * Opens a request whose body the proxy cannot send. Every POST counts as a call of one command, and its headers name the
 * method and the tool. The arguments are not checked, so operators must enable this explicitly. Denials have the form of
 * MCP.
 *
 * @param command the only command that is accepted, such as `/mcp/tools/call`
 * @example openChain({ method: 'POST', path: null, headers, body: { kind: 'unread' } }, '/mcp/tools/call');
 */
export function openChain(request: GateRequest, command: string): Opening {
  const { headers } = request;
  const method = methodOf(request);
  if (passesMcpHttp(request)) return { kind: 'pass' };
  const name = readNameHeader(headers);
  const tool = name === null || name === 'unreadable' ? null : name.name;
  const requested = shorten(tool);
  const deny = denier('mcp', null, requested);
  if (method !== 'POST') {
    const message = `the HTTP method is ${shorten(method)}, expected POST`;
    return deny(gateFailure('METHOD_NOT_ALLOWED', 'mcp', message));
  }
  const mismatch = (message: string) =>
    deny(gateFailure('HEADER_MISMATCH', 'mcp', message, { suggestion: SUGGESTION }));
  const wanted = command.slice(PREFIX.length);
  const methods = headers('mcp-method');
  if (methods.length !== 1 || methods[0] !== wanted)
    return mismatch(`the header Mcp-Method is not ${JSON.stringify(wanted)}, the only method here`);
  if (tool === null) return mismatch('the header Mcp-Name is not one name, expected the tool that is called');
  const encoded = findBundle('mcp', headers, undefined);
  if (typeof encoded !== 'string') return deny(encoded);
  return openCall('mcp', {
    id: null,
    requested,
    encoded,
    body: { kind: 'unread' },
    expected: { command, orBelow: false, tool },
  });
}

const SUGGESTION = 'Send Mcp-Method and Mcp-Name, set to the method and the tool of the body.';
