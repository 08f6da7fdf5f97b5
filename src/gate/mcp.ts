import { isJsonObject, type JsonValue } from '../protocol/json.js';
import { signedArgumentsOf } from './call-body.js';
import { BUNDLE_HEADER, findBundle } from './carriers.js';
import { gateFailure } from './codes.js';
import { decodeHeaderText } from './header-text.js';
import { findLookalike, own, type RpcMessage } from './json-rpc.js';
import { shorten, type GateRequest, type HeaderLookup, type Opening } from './request.js';
import { answerId, bodyOfMessage, denier, openCall, openRpc } from './rpc-gate.js';

/** The only method that is checked. */
export const TOOLS_CALL = 'tools/call';

/**
 * The methods that pass, of clients of the versions 2024-11-05 to 2025-11-25 and of the draft after them: handshakes,
 * lists, resources, prompts, tasks, and notifications.
 */
const PASSING: ReadonlySet<string> = new Set([
  ...['initialize', 'notifications/initialized', 'ping', 'server/discover', 'subscriptions/listen'],
  ...['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list', 'tasks/list'],
  ...['resources/read', 'resources/subscribe', 'resources/unsubscribe', 'prompts/get', 'completion/complete'],
  ...['tasks/get', 'tasks/result', 'tasks/update', 'tasks/cancel', 'logging/setLevel'],
  ...['notifications/cancelled', 'notifications/progress', 'notifications/roots/list_changed'],
  ...['notifications/tasks/status'],
]);

/** The command of a tool call. */
export const MCP_COMMAND = '/mcp/tools/call';

/** The operator's settings for the tools of an MCP server. */
export interface McpRules {
  /** Methods that pass besides those of the protocol, such as those of an extension. Nothing about them is checked. */
  readonly passMethods?: ReadonlySet<string>;
  /** Whether calls of a tool are checked. If left out, all are. */
  readonly protect?: (name: string) => boolean;
  /** The tool server's name, which error messages show to agents; `null` if it has none. */
  readonly serverIdentity?: string | null;
}

/** Whether an operator can let a method pass: one name, and not a spelling of `tools/call`. */
export function isPassMethod(method: unknown): method is string {
  return typeof method === 'string' && /^[!-+.-~-]+$/.test(method) && method.toLowerCase() !== TOOLS_CALL;
}

/** Whether messages of a method pass unchecked. */
export function passesMcp(method: string, { passMethods }: McpRules): boolean {
  return method !== TOOLS_CALL && (PASSING.has(method) || passMethods?.has(method) === true);
}

/**
 * Opens a request to an MCP server. `tools/call` is checked. Other methods of the protocol pass, and so do answers.
 * Methods that are unknown here are denied.
 *
 * @example openMcp({ method: 'POST', headers: headersOf(headers), body: { kind: 'text', text } });
 */
export function openMcp(request: GateRequest, rules: McpRules = {}): Opening {
  const opened = openRpc('mcp', request);
  return opened.kind === 'message' ? openMcpMessage(opened.message, request.headers, rules) : opened;
}

const PARAMS: ReadonlySet<string> = new Set(['name', 'arguments', '_meta']);

function openMcpMessage(message: RpcMessage, headers: HeaderLookup, rules: McpRules): Opening {
  const { method, id } = message;
  const params = isJsonObject(message.params) ? message.params : null;
  const name = params === null ? undefined : own(params, 'name');
  const requested = method === TOOLS_CALL ? shorten(name) : null;
  const deny = denier('mcp', answerId(message), requested);
  const mismatch = findHeaderMismatch(method, name, headers);
  if (mismatch !== null) return deny(gateFailure('HEADER_MISMATCH', 'mcp', mismatch));
  if (method === undefined || passesMcp(method, rules)) return { kind: 'pass' };
  if (method !== TOOLS_CALL) {
    const found = `the method ${JSON.stringify(shorten(method))} is none that the gate knows`;
    return deny(gateFailure('UNKNOWN_METHOD', 'mcp', found));
  }
  if (typeof name === 'string' && rules.protect?.(name) === false) return { kind: 'pass' };

  const meta = params === null ? undefined : own(params, '_meta');
  const encoded = findBundle('mcp', headers, meta, () =>
    missingBundle(requested, rules.serverIdentity ?? null),
  );
  if (typeof encoded !== 'string') return deny(encoded);
  if (typeof id !== 'string' && typeof id !== 'number') {
    const what =
      id === undefined ? 'is a notification, which has no answer' : 'has no id that is a string or a number';
    return deny(gateFailure('INVALID_TOOL_CALL', 'mcp', `the tools/call ${what}`));
  }
  if (params === null || typeof name !== 'string' || name === '') {
    return deny(
      gateFailure(
        'INVALID_TOOL_CALL',
        'mcp',
        'the call names no tool: params.name is not a non-empty string',
      ),
    );
  }
  const lookalike = findLookalike(params, PARAMS);
  if (lookalike !== null) {
    const reason = `parsers that ignore case take the parameter ${JSON.stringify(lookalike)} for another one`;
    return deny(gateFailure('INVALID_TOOL_CALL', 'mcp', reason));
  }
  const args = signedArgumentsOf(name, own(params, 'arguments'));
  if (args === 'not an object') {
    return deny(gateFailure('INVALID_PARAMS', 'mcp', 'params.arguments is not an object'));
  }
  if (args === 'reserved') {
    return deny(gateFailure('RESERVED_ARGUMENT', 'mcp', 'params.arguments has a member named "tool"'));
  }
  return openCall('mcp', {
    id: answerId(message),
    requested,
    encoded,
    body: bodyOfMessage(message, args),
    expected: { command: MCP_COMMAND, orBelow: false, tool: null },
  });
}

/** Tells an agent without a bundle what to do. The agent reads this error, not a person. */
function missingBundle(tool: string | null, server: string | null): { message: string; suggestion: string } {
  const what = tool === null ? 'this tool' : `the tool ${JSON.stringify(tool)}`;
  const whom = server === null ? '' : ` for the tool server ${JSON.stringify(server)}`;
  return {
    message: `no bundle in params._meta[${JSON.stringify(BUNDLE_HEADER)}], nor a header of that name`,
    suggestion: `Ask the person you act for to delegate ${what} to you under the command ${MCP_COMMAND}. Then sign an invocation of this very call${whom}, and send delegation and invocation as a bundle (drs-verify/mcp: signToolCalls).`,
  };
}

/** Servers and proxies may route by these headers, so they must agree with the body. */
function findHeaderMismatch(
  method: string | undefined,
  name: JsonValue | undefined,
  headers: HeaderLookup,
): string | null {
  const methods = headers('mcp-method');
  if (methods.length > 1 || (methods.length === 1 && methods[0] !== method)) {
    return 'the header Mcp-Method is not the method of the body';
  }
  if (method !== TOOLS_CALL) return null;
  const named = readNameHeader(headers);
  if (named === null || (named !== 'unreadable' && named.tool === name)) return null;
  return 'the header Mcp-Name is not params.name of the body';
}

/** The tool in the header `Mcp-Name`; `null` if there is no such header, `unreadable` if it is not a single name. */
export function readNameHeader(headers: HeaderLookup): { readonly tool: string } | 'unreadable' | null {
  const [value, ...others] = headers('mcp-name');
  if (value === undefined) return null;
  const tool = others.length === 0 ? decodeHeaderText(value) : null;
  return tool === null ? 'unreadable' : { tool };
}
