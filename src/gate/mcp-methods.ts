import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import type { GateCode } from './codes.js';
import { own } from './json-rpc.js';
import { shown } from './request.js';

export const TOOLS_CALL = 'tools/call';

/** The method that opens a stream of changes. It is gated if it names a resource. */
export const LISTEN = 'subscriptions/listen';

/**
 * The methods that pass, of clients of the versions 2024-11-05 to 2026-07-28: handshakes, lists, and notifications.
 * `subscriptions/listen` is not among them: see {@link listensToLists}.
 */
// prettier-ignore
export const PASSING: ReadonlySet<string> = new Set([
  'initialize', 'notifications/initialized', 'ping', 'server/discover', 'logging/setLevel',
  'tools/list', 'resources/list', 'resources/templates/list', 'prompts/list', 'tasks/list',
  'resources/unsubscribe', 'notifications/cancelled', 'notifications/progress',
  'notifications/roots/list_changed', 'notifications/tasks/status',
]);

/** The versions of MCP whose methods these tables have, in their order. */
export const MCP_VERSIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;

/** The first version in which each request stands for itself, and its headers must repeat what it is. */
export const STATELESS_VERSION = '2026-07-28';

/** The member of `_meta` by which requests from {@link STATELESS_VERSION} on name the version of the protocol. */
export const VERSION_META = 'io.modelcontextprotocol/protocolVersion';

/** The member by which they say what their client can do. */
export const CAPABILITIES_META = 'io.modelcontextprotocol/clientCapabilities';

/** All that a client of {@link STATELESS_VERSION} sends: ClientRequest and ClientNotification of its schema, and SEP-2663. */
// prettier-ignore
export const STATELESS_METHODS: ReadonlySet<string> = new Set([
  'server/discover', 'tools/list', 'resources/list', 'resources/templates/list', 'prompts/list',
  TOOLS_CALL, 'resources/read', 'prompts/get', 'completion/complete', LISTEN,
  'tasks/get', 'tasks/update', 'tasks/cancel', 'notifications/cancelled',
]);

/** The methods whose answer can ask something, after which the client sends the call again. */
export const ASKING_METHODS: readonly string[] = [TOOLS_CALL, 'resources/read', 'prompts/get'];

/** Names what a gate asks in its own answer. */
export const APPROVAL_INPUT = 'xyz.okeyamy.drs/approval';

/** What is signed of the `params` of a gated method. */
interface GatedMethod {
  /** What is called. The header `Mcp-Name` repeats it. */
  readonly subject?: Subject;
  /** Whether the members of `params.arguments` are signed arguments. */
  readonly hasArguments?: true;
  /** Members that are required, and signed under their own names. */
  readonly signed?: readonly string[];
  /** Members that are signed under their own names if they are given. */
  readonly optional?: readonly string[];
  /** Members that are signed together if they are given, in {@link SIGNED_PARAMS}. */
  readonly together?: readonly string[];
  /** Members that are not signed, besides `_meta`. */
  readonly unsigned?: readonly string[];
}

/** A method, and all members that its `params` may have. */
interface GatedRow extends GatedMethod {
  readonly known: readonly string[];
}

/** The member that says what is called, and its name in the signed arguments. There `tool` takes the method's place. */
interface Subject {
  readonly member: 'name' | 'uri' | 'taskId';
  readonly signedAs: 'tool' | 'resource_uri' | 'prompt' | 'task';
}

/** What a client sends again with an answer that the server asked for. */
const CONTINUED = ['inputResponses', 'requestState'];
const TOOL: Subject = { member: 'name', signedAs: 'tool' };
const PROMPT: Subject = { member: 'name', signedAs: 'prompt' };
const RESOURCE: Subject = { member: 'uri', signedAs: 'resource_uri' };
const TASK: Subject = { member: 'taskId', signedAs: 'task' };
// The client of SDK 1.x repeats the member `task` of a call when it asks for the task.
const TASK_METHOD: GatedMethod = { subject: TASK, unsigned: ['task'] };

const METHODS: Readonly<Record<string, GatedMethod>> = {
  [TOOLS_CALL]: { subject: TOOL, hasArguments: true, together: CONTINUED, unsigned: ['task'] },
  'resources/read': { subject: RESOURCE, together: CONTINUED },
  'resources/subscribe': { subject: RESOURCE },
  [LISTEN]: { unsigned: ['notifications'] },
  'prompts/get': { subject: PROMPT, hasArguments: true, together: CONTINUED },
  'completion/complete': { signed: ['ref', 'argument'], optional: ['context'] },
  'tasks/get': TASK_METHOD,
  'tasks/result': TASK_METHOD,
  'tasks/cancel': TASK_METHOD,
  'tasks/update': { subject: TASK, together: CONTINUED },
};

const GATED: ReadonlyMap<string, GatedRow> = new Map(
  Object.entries(METHODS).map(([method, row]) => [method, { ...row, known: knownIn(row) }]),
);

function knownIn({
  subject,
  hasArguments,
  signed = [],
  optional = [],
  together = [],
  unsigned = [],
}: GatedMethod) {
  const named = [...(subject === undefined ? [] : [subject.member]), ...(hasArguments ? ['arguments'] : [])];
  return [...named, ...signed, ...optional, ...together, ...unsigned, '_meta'];
}

export const GATED_METHODS: readonly string[] = [...GATED.keys()];

/** What the command of a gated method begins with; the method follows. */
export const MCP_COMMAND_PREFIX = '/mcp/';

export const MCP_COMMAND = `${MCP_COMMAND_PREFIX}${TOOLS_CALL}`;

/** The signed argument with the members of `params` that the server acts on and that have no place of their own. */
export const SIGNED_PARAMS = 'xyz.okeyamy.drs/params';

const RELATED_TASK = 'io.modelcontextprotocol/related-task';
const LIST_CHANGES: ReadonlySet<string> = new Set([
  'toolsListChanged',
  'promptsListChanged',
  'resourcesListChanged',
]);
const RESOURCES = 'resourceSubscriptions';

export function isGated(method: string): boolean {
  return GATED.has(method);
}

/** Whether a client must sign a request. */
export function needsBundle(method: string, params: JsonObject): boolean {
  const meta = own(params, '_meta');
  const isStateless = isJsonObject(meta) && own(meta, VERSION_META) === STATELESS_VERSION;
  // A gate refuses what its version does not have, whatever it carries.
  if (isStateless && !STATELESS_METHODS.has(method)) return false;
  return isGated(method) && !(method === LISTEN && listensToLists(params));
}

/** Whether a `subscriptions/listen` asks for changes of lists alone, so that it needs no bundle. */
export function listensToLists(params: JsonValue | undefined): boolean {
  if (params === undefined) return true;
  if (!isJsonObject(params)) return false;
  if (!hasOnly(params, (name) => name === '_meta' || name === 'notifications')) return false;
  const filter = own(params, 'notifications');
  if (filter === undefined) return true;
  if (!isJsonObject(filter)) return false;
  const uris = own(filter, RESOURCES);
  const isEmpty = Array.isArray(uris) && uris.length === 0;
  return hasOnly(filter, (name) => LIST_CHANGES.has(name) || (name === RESOURCES && isEmpty));
}

/** Whether messages with a gated method call something by its name, a URI or the id of a task. */
export function hasSubject(method: string): boolean {
  return GATED.get(method)?.subject !== undefined;
}

/** What a message with a gated method calls: a name, a URI or the id of a task; `undefined` if it does not say. */
export function subjectOf(method: string, params: JsonObject | null): JsonValue | undefined {
  const subject = GATED.get(method)?.subject;
  return subject === undefined ? undefined : own(params, subject.member);
}

export interface ParamsDefect {
  readonly code: Extract<GateCode, 'INVALID_TOOL_CALL' | 'INVALID_PARAMS' | 'RESERVED_ARGUMENT'>;
  readonly message: string;
}

/**
 * The signed arguments of a message with a gated method. The gate compares them, and clients sign them.
 *
 * @param params `null` if they are not an object
 * @throws RangeError if the method is not gated
 * @example mcpArgumentsOf('tools/call', { name: 'search', arguments: { query: 'tea' } });
 * // { args: { tool: 'search', query: 'tea' } }
 */
export function mcpArgumentsOf(
  method: string,
  params: JsonObject | null,
): { readonly args: JsonObject } | ParamsDefect {
  const row = GATED.get(method);
  if (row === undefined) throw new RangeError(`${method} is not a gated method`);
  if (params === null) return invalid('params is not an object');
  const { subject, hasArguments, known } = row;
  const unknown = findOther(params, (name) => known.includes(name));
  if (unknown !== null) {
    const found = shown(unknown);
    return invalid(`params has a member ${found}, expected none but ${known.join(', ')}`);
  }
  const meta = own(params, '_meta');
  if (isJsonObject(meta) && own(meta, RELATED_TASK) !== undefined)
    return invalid(`params._meta has ${RELATED_TASK}: the answer would go into that task`);
  const read = readNamed(method, row, params);
  if ('code' in read) return read;
  const { named } = read;

  const given = hasArguments ? own(params, 'arguments') : undefined;
  if (given !== undefined && !isJsonObject(given))
    return { code: 'INVALID_PARAMS', message: 'params.arguments is not an object' };
  // None of the caller's arguments may have a name that stands for something else.
  const names = ['tool', SIGNED_PARAMS, subject?.signedAs ?? 'tool'];
  const taken = names.find((name) => given !== undefined && Object.hasOwn(given, name));
  if (taken !== undefined)
    return {
      code: 'RESERVED_ARGUMENT',
      message: `params.arguments has a member named "${taken}", which has a meaning of its own in what is signed`,
    };
  // In this form V8 copies once, and fast: there may be 16,000 members. The tool of a tool call takes the method's place.
  return { args: { tool: method, ...given, ...named } };
}

const NONE: readonly string[] = [];

/** What is signed besides the arguments: the members of `params` that the server acts on, by their names there. */
function readNamed(
  method: string,
  { subject, signed = NONE, optional = NONE, together = NONE }: GatedRow,
  params: JsonObject,
): { readonly named: JsonObject } | ParamsDefect {
  const named: Record<string, JsonValue> = {};
  if (subject !== undefined) {
    const value = own(params, subject.member);
    if (typeof value !== 'string' || value === '')
      return invalid(`params.${subject.member} is not a non-empty string`);
    named[subject.signedAs] = value;
  }
  for (const name of signed) if (own(params, name) === undefined) return invalid(`params.${name} is missing`);
  for (const names of [signed, optional]) for (const name of names) copyMember(params, name, named);
  if (method === LISTEN) {
    const uri = resourceIn(own(params, 'notifications'));
    if (typeof uri !== 'string') return uri;
    named['resource_uri'] = uri;
  }
  const continued: Record<string, JsonValue> = {};
  for (const name of together) copyMember(params, name, continued);
  if (Object.keys(continued).length > 0) named[SIGNED_PARAMS] = continued;
  return { named };
}

function copyMember(from: JsonObject, name: string, to: Record<string, JsonValue>): void {
  const value = own(from, name);
  if (value !== undefined) to[name] = value;
}

function resourceIn(filter: JsonValue | undefined): string | ParamsDefect {
  if (!isJsonObject(filter)) return invalid('params.notifications is not an object');
  const unknown = findOther(filter, (name) => LIST_CHANGES.has(name) || name === RESOURCES);
  if (unknown !== null)
    return invalid(`params.notifications has a member ${shown(unknown)}, which is not known`);
  const uris = own(filter, RESOURCES);
  const [uri, ...others] = Array.isArray(uris) ? (uris as readonly JsonValue[]) : [];
  return typeof uri === 'string' && uri !== '' && others.length === 0
    ? uri
    : invalid(`params.notifications.${RESOURCES} is not an array of one URI: a request is for one resource`);
}

function invalid(message: string): ParamsDefect {
  return { code: 'INVALID_TOOL_CALL', message };
}

/** A member without a value is none: values that other code has made can have such members, JSON cannot. */
function findOther(object: JsonObject, isKnown: (name: string) => boolean): string | null {
  return Object.keys(object).find((name) => object[name] !== undefined && !isKnown(name)) ?? null;
}

function hasOnly(object: JsonObject, isKnown: (name: string) => boolean): boolean {
  return findOther(object, isKnown) === null;
}
