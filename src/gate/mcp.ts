import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { BUNDLE_HEADER, findBundle } from './carriers.js';
import { gateFailure, type GateFailure } from './codes.js';
import { decodeHeaderText } from './context.js';
import { own, type RpcMessage, answerId, bodyOfMessage, denier, openCall, openRpc } from './json-rpc.js';
import {
  APPROVAL_INPUT,
  ASKING_METHODS,
  hasSubject,
  isGated,
  LISTEN,
  listensToLists,
  mcpArgumentsOf,
  MCP_COMMAND_PREFIX,
  MCP_VERSIONS,
  PASSING,
  STATELESS_METHODS,
  STATELESS_VERSION,
  CAPABILITIES_META,
  VERSION_META,
  subjectOf,
  TOOLS_CALL,
} from './mcp-methods.js';
import {
  shorten,
  shown,
  valuesOf,
  type Elicitation,
  type GateRequest,
  type HeaderMap,
  type Opening,
} from './request.js';

/** The operator's settings for an MCP server. */
export interface McpRules {
  /** Methods that pass besides {@link PASSING}, such as those of an extension. Nothing about them is checked. */
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

/**
 * Opens a request to an MCP server: its method is one that passes, one that is checked, or denied because it is
 * unknown. Answers pass.
 */
export function openMcp(request: GateRequest, rules: McpRules = {}): OpenedRequest {
  const opened = openRpc('mcp', request);
  if (opened.kind !== 'message') return opened;
  const { message } = opened;
  return { message, ...openMcpMessage(message, request, rules) };
}

/** An opened request, and the message of MCP that was read from it. */
export type OpenedRequest = Opening & { readonly message?: RpcMessage };

function openMcpMessage(message: RpcMessage, request: GateRequest, rules: McpRules): Opening {
  const { method } = message;
  const { headers } = request;
  const params = isJsonObject(message.params) ? message.params : null;
  const meta = own(params, '_meta');
  // What a client asks for there, the body negotiates: a server may answer with an older version.
  const version = method === 'initialize' ? null : readVersion(meta, request);
  const isStateless = version === STATELESS_VERSION;
  const isPassing = method === undefined || passes(message, method, isStateless, rules);
  const called = !isPassing && isGated(method) && knows(method, isStateless, rules) ? method : null;
  const subject = called === null ? undefined : subjectOf(called, params);
  const requested = called === TOOLS_CALL ? shorten(subject) : called;
  const deny = denier('mcp', answerId(message), requested);
  if (typeof version === 'object' && version !== null) return deny(version);
  const missed = isStateless && request.mayLackHeaders !== true;
  const mismatch = findHeaderMismatch(
    method,
    called === null ? null : { subject, args: own(params, 'arguments') },
    headers,
    missed,
  );
  if (mismatch !== null) return deny(gateFailure('HEADER_MISMATCH', 'mcp', mismatch));
  if (isPassing) return { kind: 'pass' };
  if (called === null) return deny(unknownMethod(method, isStateless));
  if (called === TOOLS_CALL && typeof subject === 'string' && rules.protect?.(subject) === false)
    return { kind: 'pass' };
  return openMcpCall(called, message, { params, subject, requested, headers, rules });
}

/** Whether the client of a call says that it opens links. */
function elicitationIn(method: string, params: JsonObject | null): Elicitation | undefined {
  const inside = (names: readonly string[]) =>
    names.reduce<JsonValue | undefined>(
      (found, name) => (isJsonObject(found) ? own(found, name) : undefined),
      params ?? undefined,
    );
  if (inside(['_meta', VERSION_META]) !== STATELESS_VERSION || !ASKING_METHODS.includes(method))
    return undefined;
  if (!isJsonObject(inside(['_meta', CAPABILITIES_META, 'elicitation', 'url']))) return undefined;
  const requestState = own(params, 'requestState');
  return {
    requestState: typeof requestState === 'string' ? requestState : null,
    wasTold: inside(['inputResponses', APPROVAL_INPUT]) !== undefined,
  };
}

/** Whether a method is one of the version by which its message is read. */
function knows(method: string, isStateless: boolean, rules: McpRules): boolean {
  return !isStateless || STATELESS_METHODS.has(method) || rules.passMethods?.has(method) === true;
}

function unknownMethod(method: string, isStateless: boolean): GateFailure {
  const found = `the method ${shown(method)} is none that the gate knows`;
  if (!isStateless) return gateFailure('UNKNOWN_METHOD', 'mcp', found);
  // Clients of earlier versions take a 404 for the end of their session.
  return { ...gateFailure('UNKNOWN_METHOD', 'mcp', `${found} of MCP ${STATELESS_VERSION}`), status: 404 };
}

/** Opens a call: its bundle, and the arguments that must have been signed. */
function openMcpCall(
  method: string,
  message: RpcMessage,
  { params, subject, requested, headers, rules }: GatedCall,
): Opening {
  const { id } = message;
  const deny = denier('mcp', answerId(message), requested);
  const meta = own(params, '_meta');
  const encoded = findBundle('mcp', headers, meta, () =>
    missingBundle(method, shorten(subject), rules.serverIdentity ?? null),
  );
  if (typeof encoded !== 'string') return deny(encoded);
  if (typeof id !== 'string' && typeof id !== 'number') {
    const what =
      id === undefined ? 'is a notification, which has no answer' : 'has no id that is a string or a number';
    return deny(gateFailure('INVALID_TOOL_CALL', 'mcp', `the ${method} ${what}`));
  }
  const bound = mcpArgumentsOf(method, params);
  if ('code' in bound) return deny(gateFailure(bound.code, 'mcp', bound.message));
  return openCall('mcp', {
    id: answerId(message),
    requested,
    encoded,
    body: bodyOfMessage(message, bound.args),
    expected: { command: `${MCP_COMMAND_PREFIX}${method}`, orBelow: false, tool: null },
    elicits: () => elicitationIn(method, params),
  });
}

interface GatedCall {
  readonly params: JsonObject | null;
  readonly subject: JsonValue | undefined;
  readonly requested: string | null;
  readonly headers: HeaderMap;
  readonly rules: McpRules;
}

/** The version of MCP by which a message is read; `null` if it does not say, as those of early versions. */
function readVersion(
  meta: JsonValue | undefined,
  { headers, mayLackHeaders = false }: GateRequest,
): string | GateFailure | null {
  const named = isJsonObject(meta) ? own(meta, VERSION_META) : undefined;
  const [version = named, ...others] = valuesOf(headers, 'mcp-protocol-version');
  if (version === undefined) return null;
  const isMissing = !mayLackHeaders && !headers.has('mcp-protocol-version');
  if (isMissing || others.length > 0 || (named !== undefined && named !== version)) {
    const found = `the header MCP-Protocol-Version is ${isMissing ? 'missing' : 'not the protocolVersion of params._meta'}`;
    return gateFailure('HEADER_MISMATCH', 'mcp', found);
  }
  if (MCP_VERSIONS.some((known) => known === version)) return version as string;
  const requested = shorten(version) ?? '';
  // A copy: receivers may change it. Only the newest is named in `_meta`.
  const supported = named === undefined ? [...MCP_VERSIONS] : [STATELESS_VERSION];
  const message = `the version ${JSON.stringify(requested)} of MCP is none of ${supported.join(', ')}`;
  return { ...gateFailure('UNSUPPORTED_VERSION', 'mcp', message), version: { supported, requested } };
}

/** Whether a message passes unchecked, whatever its headers say. */
function passes(message: RpcMessage, method: string, isStateless: boolean, rules: McpRules): boolean {
  if (method === TOOLS_CALL || !knows(method, isStateless, rules)) return false;
  if (PASSING.has(method) || rules.passMethods?.has(method) === true) return true;
  // If `params` has a member twice, another parser could find a resource in it.
  return method === LISTEN && message.defect === null && listensToLists(message.params);
}

/** Tells an agent without a bundle what to do. The agent reads this error, not a person. */
function missingBundle(
  method: string,
  subject: string | null,
  server: string | null,
): { message: string; suggestion: string } {
  const whom = server === null ? '' : ` for the tool server ${JSON.stringify(server)}`;
  return {
    message: `no bundle in params._meta[${JSON.stringify(BUNDLE_HEADER)}], nor a header of that name`,
    suggestion: `Ask the person you act for to delegate ${nameOf(method, subject)} to you under the command ${MCP_COMMAND_PREFIX}${method}. Then sign an invocation of this very call${whom}, and send delegation and invocation as a bundle (drs-verify/mcp: signCalls).`,
  };
}

/** What a message with a gated method asks for, in words. */
export function nameOf(method: string, subject: string | null): string {
  const name = subject === null ? '' : JSON.stringify(subject);
  if (method === TOOLS_CALL) return name === '' ? 'this tool' : `the tool ${name}`;
  return name === '' ? method : `${method} of ${name}`;
}

/**
 * Servers and proxies may route by these headers, so they must agree with the body.
 *
 * @param call what a gated message calls; `null` for others
 * @param isRequired whether they must come
 */
function findHeaderMismatch(
  method: string | undefined,
  call: { readonly subject: JsonValue | undefined; readonly args: JsonValue | undefined } | null,
  headers: HeaderMap,
  isRequired: boolean,
): string | null {
  const methods = valuesOf(headers, 'mcp-method');
  if (isRequired && method !== undefined && methods.length === 0)
    return `the header Mcp-Method is missing, which MCP ${STATELESS_VERSION} requires`;
  if (methods.length > 1 || methods.some((value) => value !== method || !isAscii(value))) {
    return 'the header Mcp-Method is not the method of the body';
  }
  if (call === null) return null;
  const named = readNameHeader(headers);
  if (named === null && isRequired && method !== undefined && hasSubject(method))
    return `the header Mcp-Name is missing, which MCP ${STATELESS_VERSION} requires`;
  if (named !== null && (named === 'unreadable' || named.name !== call.subject))
    return 'the header Mcp-Name is not params.name (or uri, or taskId) of the body';
  const repeated = valuesOf(headers, 'mcp-param-*');
  if (repeated.length === 0 || areArguments(repeated, call.args)) return null;
  return 'a header Mcp-Param-… is none of params.arguments of the body';
}

/** Whether each of these headers has the value of an argument; of which one, only the schema of the tool says. */
function areArguments(values: readonly string[], args: JsonValue | undefined): boolean {
  const wanted = values.map((value) => (isAscii(value) ? meaningsOf(decodeHeaderText(value)) : []));
  // Of the arguments, only those that are wanted are put into a set: there are many, and nobody need have signed them.
  const all: ReadonlySet<unknown> = new Set(wanted.flat());
  const found = new Set<unknown>();
  // Without recursion: nothing has bounded the depth yet.
  const left: object[] = [[args]];
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    for (const value of Object.values(part) as readonly unknown[]) {
      if (typeof value === 'object' && value !== null) left.push(value);
      else if (all.has(value)) found.add(value);
    }
  }
  return wanted.every((alternatives) => alternatives.some((value) => found.has(value)));
}

/** The values that a header can stand for. A number may be written in another way than in the body: 42.0. */
function meaningsOf(text: string | null): readonly unknown[] {
  if (text === null) return [];
  const number = Number(text);
  if (DECIMAL.test(text) || String(number) === text) return [text, number];
  return text === 'true' || text === 'false' ? [text, text === 'true'] : [text];
}

const DECIMAL = /^-?\d{1,15}(?:\.\d{1,15})?$/;

/** The name in the header `Mcp-Name`; `null` if there is no such header, `unreadable` if it is not a single name. */
export function readNameHeader(headers: HeaderMap): { readonly name: string } | 'unreadable' | null {
  const [value, ...others] = valuesOf(headers, 'mcp-name');
  if (value === undefined) return null;
  const name = others.length === 0 && isAscii(value) ? decodeHeaderText(value) : null;
  return name === null ? 'unreadable' : { name };
}

/** Servers decode other text as UTF-8 or as Latin-1. */
function isAscii(value: string): boolean {
  return !/[^\x00-\x7f]/.test(value);
}
