import { readInvocation, stringOf } from './claims.js';
import { fromBase64url } from './encoding.js';
import { textOf } from './jwt.js';
import { faithful, toDouble } from './jcs.js';
import { depthOf, hasDuplicateNames, member, readJson, type Json, type JsonObject } from './json.js';
import { Ledger } from './limits.js';
import { SKEW_SECS, verify, type Answer, type Question } from './oracle.js';

/** The rules of docs/spec/gate.md and docs/spec/usage.md, without the texts of messages. */

export type Protocol = 'http' | 'mcp' | 'a2a';

/**
 * The body of a request: its text, a value that another parser made, bytes that are not JSON in UTF-8, or none, where the
 * transport knows it.
 */
export type GateBody = { readonly text: string } | { readonly value: Json } | 'unusable' | 'none';

/** A row of the table of routes. */
export interface Route {
  readonly method: string;
  readonly path: string;
  readonly tool: string;
  readonly command?: string;
  readonly query?: readonly string[];
  readonly body?: 'json' | 'none';
}

/** What a framework has found, and takes from path and query for its handler; without `parameters` it takes nothing. */
export interface Found {
  readonly tool?: string;
  readonly command?: string;
  readonly parameters?: Readonly<Record<string, string>>;
}

export interface GateQuestion extends Omit<Question, 'bundle' | 'body' | 'details'> {
  readonly protocol: Protocol;
  readonly method: string;
  /** With its query; absent if it is not known. */
  readonly path?: string | undefined;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: GateBody;
  /** Over `http`: the table of routes, what a framework has found, or `any`, which is also meant if it is absent. */
  readonly routes?: 'any' | readonly Route[] | Found | undefined;
  /** Of middleware: what a verifier refuses comes first. */
  readonly asksVerifier?: boolean;
  /** The record of used invocations; absent if replays may pass. */
  readonly replays?: Replays;
}

type Valid = Extract<Answer, { readonly valid: true }>;

export type GateAnswer =
  | { readonly decision: 'pass' }
  | { readonly decision: 'deny'; readonly status: number; readonly code: string }
  | { readonly decision: 'allow'; readonly context: Readonly<Record<string, unknown>> };

const WINDOW_SECS = 900;
/** Used invocations. None is ever forgotten, but {@link isLost} says what a gate may have forgotten. */
export class Replays {
  readonly #ledger: Ledger | undefined;
  readonly #recorded = new Map<string, number>();
  readonly #leeway: number;
  #latest = 0;
  /**
   * Whether a gate may refuse the last call as lost, since the clock has gone back behind records that have run out
   * (docs/spec/loss.md, "Clocks"): those of calls that are stale at the latest time.
   */
  isLost = false;

  /** @param counts whether the limits of receipts are enforced */
  constructor(clockSkewSecs = SKEW_SECS, counts = true) {
    this.#leeway = clockSkewSecs;
    this.#ledger = counts ? new Ledger() : undefined;
  }

  /** @returns a code, or what is left of the limits */
  use(
    { iss, jti, iat }: { iss: string; jti: string; iat: number },
    { limits, cost }: Valid['counted'],
    now: number,
  ): string | object[] {
    this.isLost = false;
    if (iat < now - WINDOW_SECS || iat > now + this.#leeway) return 'INVOCATION_STALE';
    this.#latest = Math.max(this.#latest, now);
    this.isLost = iat < this.#latest - WINDOW_SECS;
    const key = JSON.stringify([iss, jti]);
    if (this.#recorded.has(key)) return 'REPLAY_DETECTED';
    const left = this.#ledger === undefined ? [] : this.#ledger.charge(limits, cost);
    if (left === undefined) return 'LIMIT_REACHED';
    this.#recorded.set(key, now);
    return left;
  }

  /** Takes back the last call that it allowed, and a gate did not. */
  takeBack(): void {
    this.#recorded.delete([...this.#recorded.keys()].at(-1) ?? '');
    this.#ledger?.takeBack();
  }
}

/** The decision that a gate must make on a request. */
export function decide(given: GateQuestion): GateAnswer {
  const question = { ...given, method: checkedMethod(given) };
  const { protocol, headers } = question;
  if (changesOnItsWay(headers)) return deny(protocol, 'HOP_BY_HOP_HEADER');
  const opened =
    protocol === 'http' ? openHttp(question) : protocol === 'mcp' ? openRpc(question) : openAgent(question);
  if (opened === 'pass') return { decision: 'pass' };
  if (opened === UNKNOWN_TO_NEWEST) return deny(protocol, 'UNKNOWN_METHOD', 404);
  if (typeof opened === 'string')
    return deny(protocol, opened, STATUS[opened] ?? (opened === 'MALFORMED_BUNDLE' ? 400 : 403));
  const { encoded, body, command, atOrBelow, tool } = opened;
  const bundle = decoded(encoded);
  if (bundle === undefined) return deny(protocol, 'MALFORMED_BUNDLE', 400);
  const answer: Answer = verify({
    ...question,
    bundle,
    body,
    details: true,
    asksLater: question.asksVerifier !== true,
  });
  if (!answer.valid) {
    const isUnbound = answer.code === 'BINDING_REQUIRED';
    return deny(protocol, isUnbound ? 'BINDING_MISMATCH' : answer.code);
  }
  const { details = {} } = answer;
  if (command !== undefined && details['command'] !== command) return deny(protocol, 'COMMAND_MISMATCH');
  const signedFor = String(details['command']);
  if (atOrBelow !== undefined && signedFor !== atOrBelow && !signedFor.startsWith(`${atOrBelow}/`))
    return deny(protocol, 'COMMAND_MISMATCH');
  if (tool !== undefined && details['tool'] !== tool) return deny(protocol, 'TOOL_MISMATCH');
  if (answer.binding !== 'match') return deny(protocol, 'BINDING_MISMATCH');
  if (answer.needsYes) return deny(protocol, 'APPROVAL_REQUIRED');
  const used = question.replays?.use(invocationOf(bundle), answer.counted, question.now);
  if (typeof used === 'string') return deny(protocol, used);
  const context: Record<string, unknown> = { ...answer.context, ...details };
  if (used === undefined || used.length === 0) return { decision: 'allow', context };
  delete context['unenforced'];
  return { decision: 'allow', context: { ...context, limits: used } };
}

const METHODS = 'x-forwarded-method x-original-method x-http-method x-http-method-override x-method-override';

/** The method as which a request is checked: none that a rule knows if a header names another one, or another path. */
function checkedMethod({ method, path, headers }: GateQuestion): string {
  const methods = METHODS.split(' ').flatMap((name) => valuesOf(headers, name));
  const paths = ['x-original-url', 'x-rewrite-url'].flatMap((name) => valuesOf(headers, name));
  const mounts = ['script-name', 'x-script-name', 'path-info'].flatMap((name) => valuesOf(headers, name));
  const isOther =
    methods.some((name) => name !== method) || paths.some((name) => name !== path) || mounts.length > 0;
  return isOther ? 'another' : method;
}

/** Whether a request has no body that a server could read. */
const isBare = ({ body }: GateQuestion) => isNone(body);

function changesOnItsWay(headers: GateQuestion['headers']): boolean {
  const named = valuesOf(headers, 'connection').flatMap((value) => value.toLowerCase().split(','));
  return (
    valuesOf(headers, 'upgrade').length > 0 ||
    named.some((name) => !['close', 'keep-alive', ''].includes(name.trim()))
  );
}

interface Opened {
  readonly encoded: string;
  readonly body: Json | 'unreadable';
  /** The exact command that the invocation must have. */
  readonly command?: string | undefined;
  /** The command that it must have, or a path below it. */
  readonly atOrBelow?: string | undefined;
  /** The tool that it must be for. */
  readonly tool?: string | undefined;
}

/** A string is the code of a denial, or `pass`. */
type Opening = Opened | string;

/** A request over HTTP, by its route. */
function openHttp({ method, path, headers, body, routes = 'any' }: GateQuestion): Opening {
  const row = isTable(routes) ? findRoute(routes, method, path) : undefined;
  if (isTable(routes) && row === undefined) return 'UNKNOWN_ROUTE';
  if (method === 'another') return 'METHOD_NOT_ALLOWED';
  const encoded = carried(headers, undefined);
  if ('code' in encoded) return encoded.code;
  if (routes === 'any') return { ...encoded, body: bodyAlone(body) };
  // Order: the bundle is decoded before the parameters and the body are read.
  if (decoded(encoded.encoded) === undefined) return 'MALFORMED_BUNDLE';
  const { tool, command, parameters, hasBody } = isTable(routes)
    ? { ...row?.route, ...row }
    : { ...routes, hasBody: true };
  if (parameters === 'INVALID_PARAMS') return parameters;
  // A framework has found the route: its handler may take nothing else from the query.
  const query = /\?(.*)$/s.exec(path ?? '')?.[1] ?? '';
  if (!isTable(routes) && readQuery(query, Object.keys(parameters ?? {})) === undefined)
    return 'INVALID_PARAMS';
  const call = { ...encoded, atOrBelow: command, tool: tool === 'any' ? undefined : tool };
  if (parameters === undefined) return { ...call, body: bodyAlone(body) };
  const members = hasBody === true ? membersOf(body) : isNone(body) ? NO_MEMBERS : undefined;
  if (members === undefined) return { ...call, body: 'unreadable' };
  const given = Object.entries(parameters);
  if (given.some(([name]) => member(members, name) !== undefined)) return 'RESERVED_ARGUMENT';
  const named = member(members, 'tool') !== undefined || call.tool === undefined ? [] : [call.tool];
  const texts = [...named.map((name) => ['tool', name] as const), ...given];
  return {
    ...call,
    body: {
      kind: 'object',
      members: [...texts.map(([name, text]) => [name, toString(text)] as const), ...members.members],
    },
  };
}

const isTable = (routes: GateQuestion['routes']): routes is readonly Route[] => Array.isArray(routes);

function bodyAlone(body: GateBody): Json | 'unreadable' {
  if (body === 'unusable') return 'unreadable';
  if (body === 'none') return NO_MEMBERS;
  if ('value' in body) return isInexact(body.value) ? 'unreadable' : body.value;
  return readJson(body.text) ?? 'unreadable';
}

const isNone = (body: GateBody) =>
  body === 'none' || (typeof body === 'object' && 'text' in body && body.text === '');

/** The members of a body that must be an object in strict JSON. */
function membersOf(body: GateBody): JsonObject | undefined {
  const read = bodyAlone(body);
  if (read === 'unreadable' || read.kind !== 'object') return undefined;
  return isStrictJson(read) ? read : undefined;
}

interface FoundRow {
  readonly route: Route;
  readonly parameters: Readonly<Record<string, string>> | 'INVALID_PARAMS';
  readonly hasBody: boolean;
}

/** The first route with this method and path, and the arguments in path and query. */
export function findRoute(
  routes: readonly Route[],
  method: string,
  sent: string | undefined,
): FoundRow | undefined {
  if (sent === undefined || sent.length > 65_536) return undefined;
  const [, path = '', query = ''] = /^([^?]*)(?:\?(.*))?$/s.exec(sent) ?? [];
  if (!isPlain(path)) return undefined;
  const segments = path.split('/').slice(1);
  const texts = segments.map(percentDecoded);
  if (texts.some((text) => text === undefined || text === '.' || text === '..')) return undefined;
  for (const route of routes) {
    const template = route.path.split('/').slice(1);
    if (route.method !== method || template.length !== segments.length) continue;
    const names = template.map((part) => /^\{(.*)\}$/.exec(part)?.[1]);
    if (template.some((part, at) => (names[at] === undefined ? part !== segments[at] : segments[at] === '')))
      continue;
    const inQuery = readQuery(query, route.query ?? []);
    const inPath = names.flatMap((name, at) =>
      name === undefined ? [] : [[name, texts[at] ?? ''] as const],
    );
    return {
      route,
      parameters: inQuery === undefined ? 'INVALID_PARAMS' : Object.fromEntries([...inPath, ...inQuery]),
      hasBody: (route.body ?? (/^(?:GET|HEAD)$/.test(method) ? 'none' : 'json')) === 'json',
    };
  }
  return undefined;
}

/** A path of RFC 3986 without ";", without encoded "/", "\\", "#", "%", ";", "?" and control characters. */
const isPlain = (path: string) =>
  /^(?:\/(?:[\w.~!$&'()*+,=:@-]|%(?!2[Ff35]|5[Cc]|3[BbFf]|[01]|7[Ff])[\dA-Fa-f]{2})*)+$/.test(path);

/** The parameters of a query, decoded; `undefined` if one has another name, comes twice, or has no readable value. */
function readQuery(
  query: string,
  names: readonly string[] | undefined,
): (readonly [name: string, text: string])[] | undefined {
  const given: (readonly [string, string])[] = [];
  if (names === undefined && query.split('&').length > 256) return undefined;
  for (const part of query === '' ? [] : query.split('&')) {
    const [, name = '', text = ''] = /^([A-Za-z_][\w-]{0,63})=([\w.~%!$'()*+,=:@/?-]*)$/.exec(part) ?? [];
    const read = percentDecoded(text.replaceAll('+', ' '));
    if (name === '' || read === undefined || given.some(([other]) => other === name)) return undefined;
    if (names?.includes(name) === false) return undefined;
    given.push([name, read]);
  }
  return given;
}

const ENVELOPE = ['jsonrpc', 'id', 'method', 'params', 'result', 'error'];

/** The tables of docs/spec/gate.md. */
const PASSING =
  'initialize notifications/initialized ping server/discover logging/setLevel tools/list resources/list ' +
  'resources/templates/list prompts/list tasks/list resources/unsubscribe notifications/cancelled ' +
  'notifications/progress notifications/roots/list_changed notifications/tasks/status';

const VERSIONS: readonly string[] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'];
/** Earlier versions take a 404 for the end of a session. */
const UNKNOWN_TO_NEWEST = 'UNKNOWN_METHOD with 404';
const OF_NEWEST =
  'server/discover tools/list resources/list resources/templates/list prompts/list tools/call resources/read ' +
  'prompts/get completion/complete subscriptions/listen tasks/get tasks/update tasks/cancel notifications/cancelled';

/** For each gated method, its parameters: what is called, and the others in the way in which they are signed. */
const GATED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'tools/call': { name: 'as tool', arguments: 'spread', task: 'unsigned', ...retried() },
  'resources/read': { uri: 'as resource_uri', ...retried() },
  'resources/subscribe': { uri: 'as resource_uri' },
  'subscriptions/listen': { notifications: 'resource' },
  'prompts/get': { name: 'as prompt', arguments: 'spread', ...retried() },
  'completion/complete': { ref: 'required', argument: 'required', context: 'optional' },
  'tasks/get': { taskId: 'as task', task: 'unsigned' },
  'tasks/result': { taskId: 'as task', task: 'unsigned' },
  'tasks/cancel': { taskId: 'as task', task: 'unsigned' },
  'tasks/update': { taskId: 'as task', ...retried() },
};
const TOGETHER = 'xyz.okeyamy.drs/params';
const CHANGES = ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged'];

function retried() {
  return { inputResponses: 'together', requestState: 'together' };
}

const NO_MEMBERS: JsonObject = { kind: 'object', members: [] };

const WORDS = /^(?:tasks|pushNotificationConfigs|extendedAgentCard)$/i;

/** The ends of paths over REST, in the order of the specification. */
const REST = `
  POST message:send              SendMessage                        body
  POST message:stream            SendStreamingMessage               body
  GET  tasks                     ListTasks
  GET  tasks/{id}                GetTask
  POST tasks/{id}:cancel         CancelTask
  GET  tasks/{id}:subscribe      SubscribeToTask
  POST tasks/{id}:subscribe      SubscribeToTask
  POST tasks/{taskId}/pushNotificationConfigs         CreateTaskPushNotificationConfig  body
  GET  tasks/{taskId}/pushNotificationConfigs         ListTaskPushNotificationConfigs
  GET  tasks/{taskId}/pushNotificationConfigs/{id}    GetTaskPushNotificationConfig
  DELETE tasks/{taskId}/pushNotificationConfigs/{id}  DeleteTaskPushNotificationConfig
  GET  extendedAgentCard         GetExtendedAgentCard
  GET  v1/card                   GetExtendedAgentCard`
  .trim()
  .split('\n')
  .map((line) => line.trim().split(/ +/) as [verb: string, end: string, name: string, needs?: string])
  .map(([verb, end, name, needs]) => ({
    ...{ verb, name, needsBody: needs !== undefined },
    path: new RegExp(`^(.*)/${end.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/:]+)')}$`),
    words: end.split('/').filter((part) => WORDS.test(part)).length,
  }));

/** A request to an A2A agent, over JSON-RPC or REST. */
function openAgent(question: GateQuestion): Opening {
  const { method, path: sent } = question;
  if (method === 'OPTIONS' && isBare(question)) return 'pass';
  if (sent === undefined) return 'INVALID_PATH';
  const [, path = '', query] = /^([^?]*)(?:\?(.*))?$/s.exec(sent) ?? [];
  const parts = path.split('/').slice(1).map(percentDecoded);
  if (!isPlain(path) || parts.some((part) => part === undefined || part === '.' || part === '..'))
    return 'INVALID_PATH';
  if (parts.slice(0, -1).includes('')) return 'INVALID_PATH';
  const isCard = /\/\.well-known\/(?:agent-card|agent)\.json$/.test(path) && query === undefined;
  if (isCard && (method === 'GET' || method === 'HEAD'))
    return isBare(question) ? 'pass' : 'METHOD_NOT_ALLOWED';
  const words = parts.filter((part = '') => WORDS.test(part.toUpperCase().toLowerCase())).length;
  for (const row of REST) {
    const found = row.verb === method && row.words === words ? row.path.exec(path) : null;
    if (found === null) continue;
    const parameters = Object.entries(found.groups ?? {}).map(
      ([name, value]) => [name, percentDecoded(value) ?? ''] as const,
    );
    if (parameters.some(([, value]) => value.includes(':'))) return 'METHOD_NOT_ALLOWED';
    return openRest(question, row, found[1] ?? '', parameters, query ?? '');
  }
  const last = parts.findLast((part) => part !== '') ?? '';
  if (words > 0 || last.includes(':') || method !== 'POST') return 'METHOD_NOT_ALLOWED';
  return query === undefined ? openRpc(question) : 'INVALID_PATH';
}

function openRest(
  { headers, body }: GateQuestion,
  { name: tool, needsBody }: { readonly name: string; readonly needsBody: boolean },
  prefix: string,
  parameters: readonly (readonly [string, string])[],
  query: string,
): Opening {
  const encoded = carried(headers, undefined);
  if ('code' in encoded) return encoded.code;
  const command = `/a2a/${tool}`;
  const unreadable = { ...encoded, command, body: 'unreadable' } as const;
  let value: Json | undefined;
  if (body === 'unusable') return unreadable;
  if (body === 'none' || ('text' in body && body.text === '' && !needsBody)) value = NO_MEMBERS;
  else if ('value' in body) ({ value } = body);
  else {
    value = readJson(body.text);
    if (value === undefined || !isStrictJson(value)) return unreadable;
  }
  if (value.kind === 'null') value = NO_MEMBERS;
  if (value.kind !== 'object') return 'INVALID_PARAMS';
  const members = new Map<string, Json>(parameters.map(([name, text]) => [name, toString(text)]));
  const given = readQuery(query, undefined);
  if (given === undefined) return 'INVALID_PARAMS';
  for (const [name, one] of [
    ...given.map(([name, text]) => [name, toString(text)] as const),
    ...value.members,
  ]) {
    const known = members.get(name);
    if (
      known !== undefined &&
      !(known.kind === 'string' && one.kind === 'string' && known.value === one.value)
    )
      return 'RESERVED_ARGUMENT';
    members.set(name, one);
  }
  if (members.has('tool') || members.has('path')) return 'RESERVED_ARGUMENT';
  members.set('tool', toString(tool));
  if (prefix !== '') members.set('path', toString(prefix));
  const args: JsonObject = { kind: 'object', members: [...members] };
  const isExact = typeof body !== 'object' || 'text' in body || !isInexact(args);
  return { ...encoded, command, body: isExact ? args : 'unreadable' };
}

const toString = (value: string): Json => ({ kind: 'string', value });

/** The text that percent-encoded UTF-8 stands for. */
function percentDecoded(text: string): string | undefined {
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at++) {
    if (text[at] !== '%') {
      bytes.push(...Buffer.from(String.fromCodePoint(text.codePointAt(at) ?? 0)));
      if ((text.codePointAt(at) ?? 0) > 0xffff) at++;
      continue;
    }
    const pair = text.slice(at + 1, at + 3);
    if (!/^[\dA-Fa-f]{2}$/.test(pair)) return undefined;
    bytes.push(parseInt(pair, 16));
    at += 2;
  }
  return textOf(Buffer.from(bytes));
}

function openRpc(question: GateQuestion): Opening {
  const { protocol, method, path, headers, body } = question;
  if (protocol === 'mcp' && path !== undefined) {
    const texts = path.split('/').slice(1).map(percentDecoded);
    if (
      !isPlain(path) ||
      path.length > 65_536 ||
      texts.some((text) => text === undefined || /^\.\.?$/.test(text))
    )
      return 'INVALID_PATH';
  }
  if (['GET', 'HEAD', 'DELETE', 'OPTIONS'].includes(method) && !isBare(question)) return 'METHOD_NOT_ALLOWED';
  if (protocol === 'mcp' && (method === 'GET' || method === 'HEAD'))
    return /^\/\.well-known\/oauth-protected-resource(?:\/|$)/.test(path ?? '') ||
      valuesOf(headers, 'accept').length === 0 ||
      valuesOf(headers, 'accept').some((value) => /(?:^|,)\s*text\/event-stream\s*(?:$|[,;])/i.test(value))
      ? 'pass'
      : 'METHOD_NOT_ALLOWED';
  if (protocol === 'mcp' && (method === 'DELETE' || method === 'OPTIONS')) return 'pass';
  if (method !== 'POST') return 'METHOD_NOT_ALLOWED';
  if (body === 'unusable') {
    const encoded = carried(headers, undefined);
    return 'code' in encoded ? encoded.code : { ...encoded, body: 'unreadable' };
  }
  if (body === 'none') return 'INVALID_JSONRPC';
  const message = 'value' in body ? body.value : readJson(body.text);
  if (message === undefined) return 'INVALID_JSONRPC';
  if (message.kind === 'array') return 'BATCH_NOT_SUPPORTED';
  if (message.kind !== 'object') return 'INVALID_JSONRPC';
  if (isAmbiguous(message)) return 'INVALID_JSONRPC';
  const id = member(message, 'id');
  const name = member(message, 'method');
  const isResponse = ['result', 'error'].some((one) => member(message, one) !== undefined);
  if (stringOf(message, 'jsonrpc') !== '2.0') return 'INVALID_JSONRPC';
  if (id !== undefined && !['null', 'string', 'number'].includes(id.kind)) return 'INVALID_JSONRPC';
  if (name === undefined ? !isResponse : isResponse || name.kind !== 'string') return 'INVALID_JSONRPC';
  const wanted = stringOf(message, 'method');
  const isStrict = 'value' in body ? !isInexact(message) : isStrictJson(message);
  return protocol === 'mcp'
    ? openMcp(message, wanted, headers, isStrict, 'value' in body)
    : openA2a(message, wanted, headers, isStrict, 'value' in body);
}

function openMcp(
  message: JsonObject,
  method: string | undefined,
  headers: GateQuestion['headers'],
  isStrict: boolean,
  isValue: boolean,
): Opening {
  const params = objectOf(member(message, 'params'));
  const meta = objectOf(params && member(params, '_meta'));
  const negotiates = method === 'initialize';
  const said = meta && !negotiates ? member(meta, 'io.modelcontextprotocol/protocolVersion') : undefined;
  const sent = negotiates ? [] : valuesOf(headers, 'mcp-protocol-version');
  // What comes over stdio has no headers at all.
  const isHttp = headers.length > 0;
  const versions = sent.length === 0 && said?.kind === 'string' && !isHttp ? [said.value] : sent;
  if (versions.length > 1 || (said !== undefined && versions.length === 0)) return 'HEADER_MISMATCH';
  if (said !== undefined && (said.kind !== 'string' || said.value !== versions[0])) return 'HEADER_MISMATCH';
  if (versions.length === 1 && !VERSIONS.includes(versions[0] ?? '')) return 'UNSUPPORTED_VERSION';
  const isNewest = versions[0] === VERSIONS.at(-1);
  const methods = valuesOf(headers, 'mcp-method');
  if (isNewest && isHttp && method !== undefined && methods.length === 0) return 'HEADER_MISMATCH';
  const named = [...methods, ...valuesOf(headers, 'mcp-name')];
  const isAscii = (value: string) => Buffer.byteLength(value) === value.length;
  if (!methods.every(isAscii)) return 'HEADER_MISMATCH';
  if (methods.length > 1 || (methods.length === 1 && methods[0] !== method)) return 'HEADER_MISMATCH';
  if (isNewest && method !== undefined && !OF_NEWEST.split(' ').includes(method)) return UNKNOWN_TO_NEWEST;
  if (method === undefined || PASSING.split(' ').includes(method)) return 'pass';
  if (method === 'subscriptions/listen' && (isValue || isStrict) && isOfLists(message)) return 'pass';
  const rules = Object.hasOwn(GATED, method) ? GATED[method] : undefined;
  if (rules === undefined) return isNewest ? UNKNOWN_TO_NEWEST : 'UNKNOWN_METHOD';
  const [subject] = Object.entries(rules).flatMap(([name, how]) => (how.startsWith('as ') ? [name] : []));
  const called = params && subject !== undefined ? member(params, subject) : undefined;
  const names = valuesOf(headers, 'mcp-name').map(headerText);
  if (names.length > 1 || !named.every(isAscii)) return 'HEADER_MISMATCH';
  if (isNewest && isHttp && subject !== undefined && names.length === 0) return 'HEADER_MISMATCH';
  if (names.length === 1 && (called?.kind !== 'string' || names[0] !== called.value))
    return 'HEADER_MISMATCH';
  const given = headers.flatMap(([name, value]) =>
    /^mcp[-_]param[-_]/i.test(name) ? [/^[ \t]*(.*?)[ \t]*$/s.exec(value)?.[1] ?? value] : [],
  );
  const inCall = params && member(params, 'arguments');
  if (!given.every((value) => isAscii(value) && inCall !== undefined && holds(inCall, headerText(value))))
    return 'HEADER_MISMATCH';
  const encoded = carried(headers, objectOf(params && member(params, '_meta')));
  if ('code' in encoded) return encoded.code;
  const id = member(message, 'id');
  if (id?.kind !== 'string' && id?.kind !== 'number') return 'INVALID_TOOL_CALL';
  const args = params === undefined ? 'INVALID_TOOL_CALL' : signedParams(method, params, rules);
  if (typeof args === 'string') return args;
  const isBound = isValue ? !isInexact(args) : isStrict;
  return { ...encoded, body: isBound ? args : 'unreadable', command: `/mcp/${method}` };
}

/** Whether a text is a primitive value anywhere in a value. */
function holds(json: Json, text: string | undefined): boolean {
  if (json.kind === 'array') return json.items.some((item) => holds(item, text));
  if (json.kind === 'object') return [...new Map(json.members).values()].some((value) => holds(value, text));
  if (json.kind === 'null' || text === undefined) return false;
  if (json.kind === 'string') return json.value === text;
  if (json.kind === 'boolean') return String(json.value) === text;
  const value = toDouble(json.text);
  return String(value) === text || (/^-?\d{1,15}(\.\d{1,15})?$/.test(text) && Number(text) === value);
}

/** Whether a `subscriptions/listen` names no resource, and nothing that is unknown. */
function isOfLists(message: JsonObject): boolean {
  const given = member(message, 'params');
  if (given === undefined) return true;
  if (given.kind !== 'object' || given.members.some(([name]) => !['_meta', 'notifications'].includes(name)))
    return false;
  const filter = member(given, 'notifications');
  if (filter === undefined) return true;
  return (
    filter.kind === 'object' &&
    filter.members.every(
      ([name, value]) =>
        CHANGES.includes(name) ||
        (name === 'resourceSubscriptions' && value.kind === 'array' && value.items.length === 0),
    )
  );
}

/** The signed arguments of a gated method, or the code of a denial. */
function signedParams(
  method: string,
  params: JsonObject,
  rules: Readonly<Record<string, string>>,
): JsonObject | string {
  if (params.members.some(([name]) => name !== '_meta' && !Object.hasOwn(rules, name)))
    return 'INVALID_TOOL_CALL';
  const meta = objectOf(member(params, '_meta'));
  if (meta !== undefined && member(meta, 'io.modelcontextprotocol/related-task') !== undefined)
    return 'INVALID_TOOL_CALL';
  const args: [string, Json][] = [];
  const together: [string, Json][] = [];
  for (const [name, how] of Object.entries(rules)) {
    const value = member(params, name);
    if (how.startsWith('as ')) {
      if (value?.kind !== 'string' || value.value === '') return 'INVALID_TOOL_CALL';
      args.push([how.slice(3), value]);
    } else if (how === 'resource') {
      const uri = onlyResource(value);
      if (uri === undefined) return 'INVALID_TOOL_CALL';
      args.push(['resource_uri', uri]);
    } else if (how === 'required' && value === undefined) return 'INVALID_TOOL_CALL';
    else if ((how === 'required' || how === 'optional') && value !== undefined) args.push([name, value]);
    else if (how === 'together' && value !== undefined) together.push([name, value]);
  }
  if (together.length > 0) args.push([TOGETHER, { kind: 'object', members: together }]);
  if (!args.some(([name]) => name === 'tool')) args.unshift(['tool', { kind: 'string', value: method }]);
  const given = member(params, 'arguments');
  if (given !== undefined && given.kind !== 'object') return 'INVALID_PARAMS';
  const reserved = ['tool', TOGETHER, ...(method === 'prompts/get' ? ['prompt'] : [])];
  if (given?.members.some(([name]) => reserved.includes(name))) return 'RESERVED_ARGUMENT';
  return { kind: 'object', members: [...args, ...(given?.members ?? [])] };
}

/** The one resource of a `subscriptions/listen`. */
function onlyResource(filter: Json | undefined): Json | undefined {
  if (filter?.kind !== 'object') return undefined;
  if (filter.members.some(([name]) => name !== 'resourceSubscriptions' && !CHANGES.includes(name)))
    return undefined;
  const uris = member(filter, 'resourceSubscriptions');
  const [uri, ...others] = uris?.kind === 'array' ? uris.items : [];
  return uri?.kind === 'string' && uri.value !== '' && others.length === 0 ? uri : undefined;
}

function openA2a(
  message: JsonObject,
  method: string | undefined,
  headers: GateQuestion['headers'],
  isStrict: boolean,
  isValue: boolean,
): Opening {
  if (method === undefined) return 'INVALID_JSONRPC';
  const encoded = carried(headers, undefined);
  if ('code' in encoded) return encoded.code;
  const args = signed(method, member(message, 'params'));
  if (typeof args === 'string') return args;
  const isBound = isValue ? !isInexact(args) : isStrict;
  return { ...encoded, body: isBound ? args : 'unreadable', command: `/a2a/${method}` };
}

/** The arguments in the form that is signed: with the tool's name. */
function signed(tool: string, args: Json | undefined): JsonObject | string {
  if (args !== undefined && args.kind !== 'object') return 'INVALID_PARAMS';
  if (args?.members.some(([name]) => name === 'tool' || name === 'path')) return 'RESERVED_ARGUMENT';
  return { kind: 'object', members: [['tool', { kind: 'string', value: tool }], ...(args?.members ?? [])] };
}

/** Finds the bundle of a request: in the header, in `_meta`, or in both if they are the same. */
function carried(
  headers: GateQuestion['headers'],
  meta: JsonObject | undefined,
): { readonly encoded: string } | { readonly code: string } {
  const inHeader = valuesOf(headers, 'x-drs-bundle');
  if (inHeader.length > 1 || inHeader.some((value) => value.includes(',') && !value.startsWith('{')))
    return { code: 'MULTIPLE_BUNDLES' };
  const all: Json[] = inHeader.map((value) => ({ kind: 'string', value }));
  for (const name of ['X-DRS-Bundle', 'xyz.okeyamy.drs/bundle']) {
    const value = meta && member(meta, name);
    if (value !== undefined) all.push(value);
  }
  const texts = all.flatMap((value) => (value.kind === 'string' ? [value.value] : []));
  const [first] = texts;
  if (all.length === 0) return { code: 'MISSING_BUNDLE' };
  if (first === undefined || texts.length < all.length) return { code: 'MALFORMED_BUNDLE' };
  return texts.every((text) => text === first) ? { encoded: first } : { code: 'MULTIPLE_BUNDLES' };
}

/** The last bundle: a run asks about each of them many times in a row. */
let last: { readonly encoded: string; readonly bundle: Json | undefined } | undefined;

function decoded(encoded: string): Json | undefined {
  if (last?.encoded !== encoded) last = { encoded, bundle: decode(encoded) };
  return last.bundle;
}

function decode(encoded: string): Json | undefined {
  const padding = encoded.length % 4 === 0 ? (/={1,2}$/.exec(encoded)?.[0].length ?? 0) : 0;
  const bytes = fromBase64url(encoded.slice(0, encoded.length - padding));
  if (bytes === undefined) return undefined;
  const text = textOf(bytes);
  const json = text === undefined ? undefined : readJson(text);
  return json !== undefined && isStrictJson(json) ? json : undefined;
}

const MAX_DEPTH = 64;
const isStrictJson = (json: Json) =>
  !hasDuplicateNames(json) && depthOf(json) <= MAX_DEPTH && faithful(json) !== undefined;

/** Whether a value holds a number that may have been rounded; its text is no longer known. */
function isInexact(json: Json): boolean {
  if (json.kind === 'number') return Math.abs(toDouble(json.text)) > Number.MAX_SAFE_INTEGER;
  if (json.kind === 'array') return json.items.some(isInexact);
  return json.kind === 'object' && json.members.some(([, value]) => isInexact(value));
}

/** Whether two parsers could read different messages. */
function isAmbiguous(message: JsonObject): boolean {
  const names = message.members
    .map(([name]) => name)
    .filter((name) => name === 'method' || name === 'jsonrpc');
  return new Set(names).size < names.length || message.members.some(([name]) => !ENVELOPE.includes(name));
}

const objectOf = (json: Json | undefined) => (json?.kind === 'object' ? json : undefined);
const valuesOf = (headers: GateQuestion['headers'], name: string) =>
  headers
    .filter(([other]) => other.toLowerCase().replaceAll('_', '-') === name)
    .map(([, value]) => /^[ \t]*(.*?)[ \t]*$/s.exec(value)?.[1] ?? value);

/** The value of a header, which may be base64 of UTF-8; `undefined` if its base64 is malformed. */
function headerText(value: string): string | undefined {
  const base64 = /^=\?base64\?(.*)\?=$/s.exec(value)?.[1];
  if (base64 === undefined) return value;
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function invocationOf(bundle: Json): { iss: string; jti: string; iat: number } {
  const text = bundle.kind === 'object' ? (stringOf(bundle, 'invocation') ?? '') : '';
  const read = readInvocation(text);
  if (typeof read === 'string') throw new Error('a valid bundle has an invocation');
  const iat = member(read.jwt.payload, 'iat');
  return { iss: read.iss, jti: read.jti, iat: iat?.kind === 'number' ? toDouble(iat.text) : NaN };
}

/** The HTTP statuses of docs/codes.md, section "Gate". */
const STATUS: Readonly<Record<string, number>> = {
  HOP_BY_HOP_HEADER: 400,
  METHOD_NOT_ALLOWED: 405,
  INVALID_PATH: 400,
  BODY_TOO_LARGE: 413,
  INVALID_JSONRPC: 400,
  BATCH_NOT_SUPPORTED: 400,
  HEADER_MISMATCH: 400,
  UNSUPPORTED_VERSION: 400,
  UNKNOWN_METHOD: 403,
  MULTIPLE_BUNDLES: 400,
  INVALID_TOOL_CALL: 400,
  INVALID_PARAMS: 400,
  RESERVED_ARGUMENT: 400,
  INVOCATION_STALE: 409,
  REPLAY_DETECTED: 409,
  REPLAY_STORE_UNAVAILABLE: 503,
};

/** Denies a request. MALFORMED_BUNDLE is 400 if the bundle cannot be decoded, but 403 as a verdict on other JSON. */
function deny(protocol: Protocol, code: string, status = STATUS[code] ?? 403): GateAnswer {
  const isUnauthorized = code === 'MISSING_BUNDLE' && protocol === 'http';
  return { decision: 'deny', code, status: isUnauthorized ? 401 : status };
}
