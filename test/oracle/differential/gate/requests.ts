import { argEdit, randomBody, randomEdits } from '../../generator/edits.js';
import { Forest, NOW } from '../../generator/forest.js';
import type { Random } from '../../generator/random.js';
import { buildBundle, setMember, toJson, type Link, type Recipe } from '../../generator/recipe.js';
import { ODD } from '../../generator/values.js';
import type { Protocol, Route } from '../../gate.js';
import { fromValue, member, readJson, writeJson, type Json, type JsonObject } from '../../json.js';

/** A whole request for the oracle and for every way to ask a gate. */
export interface GateRequest {
  readonly protocol: Protocol;
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

const COMMANDS: Readonly<Record<Protocol, readonly string[]>> = {
  http: [],
  mcp: ['/mcp', '/mcp/tools', '/mcp/tools/call'],
  a2a: ['/a2a'],
};

const MAX_HEADER_CHARACTERS = 60_000;

/** Makes requests: new ones, repeated ones, and other calls under chains that were sent before. */
export function gateRequests(random: Random, routes?: readonly Route[]): (now: number) => GateRequest {
  const forest = new Forest(random, 5, 60);
  const recent: Recipe[] = [];
  const sent: GateRequest[] = [];
  let before = NOW;
  return (now) => {
    // A gate may have forgotten an invocation of long ago, or not: its name must not come again with another time.
    if (Math.abs(now - before) > 900) recent.length = 0;
    before = now;
    // Repeating the same bytes is a replay.
    if (sent.length > 0 && random.chance(0.12)) return random.pick(sent);
    const protocol = random.pick(['http', 'mcp', 'mcp', 'a2a'] as const);
    const known = recent.length > 0 && random.chance(0.3) ? random.pick(recent) : undefined;
    const recipe =
      known === undefined || known.edits.length > 6
        ? fresh(random, forest)
        : { ...known, edits: [...known.edits, argEdit(random)] };
    if (recent.length < 200) recent.push(recipe);
    else recent[random.below(recent.length)] = recipe;
    const request =
      protocol === 'http' && routes !== undefined && random.chance(0.95)
        ? routedRequest(random, recipe, routes, now)
        : toGateRequest(random, protocol, recipe, now);
    // Past that, the doors refuse by size, whatever it is.
    if (sent.length > 0 && request.headers.join().length > MAX_HEADER_CHARACTERS) return random.pick(sent);
    if (sent.length < 200) sent.push(request);
    else sent[random.below(sent.length)] = request;
    return request;
  };
}

function fresh(random: Random, forest: Forest): Recipe {
  const { links, call } = forest.chain();
  const edits = [];
  for (let count = random.pick([0, 0, 0, 0, 1, 1, 2]); count > 0; count--)
    edits.push(...randomEdits(random, links));
  return { links, call, edits };
}

function toGateRequest(random: Random, protocol: Protocol, given: Recipe, now: number): GateRequest {
  if (protocol === 'a2a' && random.chance(0.5)) return restRequest(random, given, now);
  const method = protocol === 'mcp' && random.chance(0.5) ? random.pick(OTHERS) : 'tools/call';
  const recipe = method === 'tools/call' ? given : forMethod(random, given, method);
  const tool = toolOf(recipe.call);
  const own = protocol === 'a2a' ? `/a2a/${tool ?? ''}` : protocol === 'mcp' ? `/mcp/${method}` : undefined;
  const commands = method === 'tools/call' ? COMMANDS[protocol] : ['/mcp'];
  const cmd = own !== undefined && random.chance(0.95) ? own : undefined;
  const iat = now + random.pick([0, 0, 0, 0, 0, 0, -1, -899, -900, -901, 60, 61]);
  const links = recipe.links.map((link, at) =>
    protocol === 'http' || (at > 0 && random.chance(0.02))
      ? link
      : withClaims(link, { cmd: commands[Math.min(at, commands.length - 1)] ?? '/x' }),
  );
  const call = withClaims(recipe.call, { iat, ...(cmd !== undefined && { cmd }) });
  const bundle = Buffer.from(writeJson(buildBundle({ ...recipe, links, call }))).toString('base64url');
  const args = (random.chance(0.25) ? randomBody(random, call) : undefined) ?? argsOf(call);
  const inMeta = protocol === 'mcp' && random.chance(0.4);
  const body =
    protocol === 'http' ? args : messageOf(random, protocol, method, args, inMeta ? bundle : undefined);
  const headers: [string, string][] = [['Content-Type', 'application/json']];
  if (!inMeta || random.chance(0.4)) headers.push(['X-DRS-Bundle', bundle]);
  const name = method === 'tools/call' ? tool : subjectOf(recipe.call);
  if (protocol === 'mcp' && name !== undefined && /^[a-z*:/-]+$/.test(name) && random.chance(0.1))
    headers.push(['Mcp-Name', name], ['Mcp-Method', method]);
  const request = {
    protocol,
    method: 'POST',
    path: random.pick(['/some/path', '/some/path', '/', '/mcp', '/a%20b']),
    headers,
    body,
  };
  return random.chance(0.25) ? altered(random, request, bundle) : request;
}

type Member = readonly [string, Json];

const OTHERS = [
  ...['resources/read', 'resources/read', 'resources/subscribe', 'subscriptions/listen', 'prompts/get'],
  ...['completion/complete', 'tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update'],
] as const;
const CONTINUED: readonly string[] = ['resources/read', 'prompts/get', 'tasks/update'];
const TOGETHER = 'xyz.okeyamy.drs/params';

/** The same chain for another method: its policies name the method in place of the tool. */
function forMethod(random: Random, { links, call, edits }: Recipe, method: string): Recipe {
  const args = member(call.claims, 'args');
  const [tool, uri] = ['tool', 'resource_uri'].map((name) =>
    args?.kind === 'object' ? member(args, name) : undefined,
  );
  const renamed = links.map((link) => {
    const policy = member(link.claims, 'policy');
    if (policy === undefined || tool === undefined) return link;
    const text = writeJson(policy).replaceAll(writeJson(tool), JSON.stringify(method));
    return { ...link, claims: setMember(link.claims, 'policy', readJson(text) ?? policy) };
  });
  const members: Member[] = [['tool', toJson(method)]];
  if (method.startsWith('resources/') || method === 'subscriptions/listen')
    members.push(['resource_uri', uri ?? toJson('file:///data/a')]);
  else if (method.startsWith('tasks/')) members.push(['task', toJson('task-a')]);
  else if (method === 'prompts/get') {
    members.push(['prompt', toJson('letter')]);
    if (args?.kind === 'object')
      members.push(...args.members.filter(([name]) => !['tool', 'prompt'].includes(name)));
  } else {
    members.push(
      ['ref', fromValue({ type: 'ref/prompt', name: 'letter' })],
      ['argument', fromValue({ name: 'to' })],
    );
    if (random.chance(0.5)) members.push(['context', fromValue({ arguments: {} })]);
  }
  if (CONTINUED.includes(method) && random.chance(0.2))
    members.push([TOGETHER, fromValue(random.pick([{ requestState: 's' }, { inputResponses: { a: 1 } }]))]);
  return {
    links: renamed,
    edits,
    call: { ...call, claims: setMember(call.claims, 'args', { kind: 'object', members }) },
  };
}

/** What a call of {@link forMethod} calls. */
function subjectOf(call: Link): string | undefined {
  const args = member(call.claims, 'args');
  const found = ['prompt', 'resource_uri', 'task'].map((name) =>
    args?.kind === 'object' ? member(args, name) : undefined,
  );
  const subject = found.find((value) => value !== undefined);
  return subject?.kind === 'string' ? subject.value : undefined;
}

/** The parameters of a method that has these signed arguments. */
function paramsOf(method: string, members: readonly (readonly [string, Json])[]): Json {
  const params: Member[] = [];
  const rest: Member[] = [];
  for (const [name, value] of members) {
    if (name === 'tool') continue;
    if (name === TOGETHER && value.kind === 'object') params.push(...value.members);
    else if (name === 'task') params.push(['taskId', value]);
    else if (name === 'prompt') params.push(['name', value]);
    else if (name === 'resource_uri' && method === 'subscriptions/listen') {
      const filter: Member[] = [['resourceSubscriptions', { kind: 'array', items: [value] }]];
      params.push(['notifications', { kind: 'object', members: filter }]);
    } else if (name === 'resource_uri' && method !== 'prompts/get') params.push(['uri', value]);
    else rest.push([name, value]);
  }
  if (method === 'prompts/get' && rest.length > 0)
    params.push(['arguments', { kind: 'object', members: rest }]);
  else params.push(...rest);
  return { kind: 'object', members: params };
}

type RestRow = readonly [verb: string, end: string, method: string, ...parameters: string[]];
const REST: readonly RestRow[] = [
  ['POST', 'message:send', 'SendMessage'],
  ['POST', 'message:stream', 'SendStreamingMessage'],
  ['GET', 'tasks', 'ListTasks'],
  ['GET', 'tasks/{}', 'GetTask', 'id'],
  ['POST', 'tasks/{}:cancel', 'CancelTask', 'id'],
  ['GET', 'tasks/{}:subscribe', 'SubscribeToTask', 'id'],
  ['POST', 'tasks/{}:subscribe', 'SubscribeToTask', 'id'],
  ['POST', 'tasks/{}/pushNotificationConfigs', 'CreateTaskPushNotificationConfig', 'taskId'],
  ['GET', 'tasks/{}/pushNotificationConfigs', 'ListTaskPushNotificationConfigs', 'taskId'],
  ['GET', 'tasks/{}/pushNotificationConfigs/{}', 'GetTaskPushNotificationConfig', 'taskId', 'id'],
  ['DELETE', 'tasks/{}/pushNotificationConfigs/{}', 'DeleteTaskPushNotificationConfig', 'taskId', 'id'],
  ['GET', 'extendedAgentCard', 'GetExtendedAgentCard'],
  ['GET', 'v1/card', 'GetExtendedAgentCard'],
];
const TEXTS = ['7', 'a b', 'ü', 'a+b', 'x=y&z', "(1)*!'", '0', '%', 'a:b', 'tasks', ''];

/** A call over A2A's REST. */
function restRequest(random: Random, recipe: Recipe, now: number): GateRequest {
  const [verb, end, method, ...names] = random.pick(REST);
  const values = names.map(() => random.pick(random.chance(0.9) ? TEXTS.slice(0, 6) : TEXTS));
  const prefix = random.pick(['', '', '/rest', '/v1', '/a/b%20c', '/did:key:z6']);
  const left = [...values];
  const way = `${prefix}/${end.replaceAll('{}', () => encodeURIComponent(left.shift() ?? ''))}`;
  const query = random.chance(0.3)
    ? [...new Set([random.pick(QUERY_NAMES), random.pick(QUERY_NAMES)])].map(
        (name) => [name, random.pick(TEXTS)] as const,
      )
    : [];
  const args = member(recipe.call.claims, 'args');
  const own = args?.kind === 'object' && verb === 'POST' ? args.members : [];
  const taken = new Set([...names, ...query.map(([name]) => name), 'tool', 'path']);
  const rest: Json = { kind: 'object', members: own.filter(([name]) => !taken.has(name)) };
  const texts: readonly (readonly [string, string])[] = [
    ['tool', method],
    ...(prefix === '' ? [] : [['path', prefix] as const]),
    ...names.map((name, at) => [name, values[at] ?? ''] as const),
    ...query,
  ];
  const signed: Json = {
    kind: 'object',
    members: [...texts.map(([name, text]) => [name, toJson(text)] as const), ...rest.members],
  };
  const links = recipe.links.map((link) => withClaims(link, { cmd: '/a2a' }));
  const iat = now + random.pick([0, 0, 0, 0, -899, -901]);
  const named = withClaims(recipe.call, { iat, cmd: `/a2a/${random.chance(0.95) ? method : 'GetTask'}` });
  const call = { ...named, claims: setMember(named.claims, 'args', signed) };
  const bundle = Buffer.from(writeJson(buildBundle({ ...recipe, links, call }))).toString('base64url');
  const search = new URLSearchParams(query.map(([name, text]): [string, string] => [name, text])).toString();
  const request: GateRequest = {
    protocol: 'a2a',
    method: verb,
    path: search === '' ? way : `${way}?${search}`,
    headers: [
      ['Content-Type', 'application/json'],
      ['X-DRS-Bundle', bundle],
    ],
    body: rest.members.length === 0 && !/send|stream|Configs$/.test(end) ? '' : writeJson(rest),
  };
  const body = verb === 'POST' ? request.body : '';
  if (random.chance(0.7)) return { ...request, body };
  return random.chance(0.5)
    ? altered(random, { ...request, body }, bundle)
    : alteredPath(random, { ...request, body });
}

/** A call of a route. */
function routedRequest(random: Random, recipe: Recipe, routes: readonly Route[], now: number): GateRequest {
  const wanted = toolOf(recipe.call);
  const fitting = routes.filter(({ tool }) => tool === wanted || tool === 'any');
  const route = random.pick(random.chance(0.85) && fitting.length > 0 ? fitting : routes);
  const { method, command, tool } = route;
  const args = member(recipe.call.claims, 'args');
  const own = args?.kind === 'object' ? args.members : [];
  const textOf = (name: string) => {
    const value = own.find(([other]) => other === name)?.[1];
    // No path and no query can hold a lone surrogate.
    const text = value?.kind === 'string' && !/\p{Surrogate}/u.test(value.value) ? value.value : '';
    if (text !== '' && random.chance(0.8)) return text;
    return random.pick(random.chance(0.9) ? TEXTS.slice(0, 6) : TEXTS);
  };
  const inPath: [string, string][] = [];
  const way = route.path.replaceAll(/\{([^}]*)\}/g, (_, name: string) => {
    const text = random.chance(0.9) ? textOf(name).replaceAll(/[/\\]/g, '') : textOf(name);
    inPath.push([name, text]);
    return encodeURIComponent(text);
  });
  const inQuery = (route.query ?? [])
    .filter(() => random.chance(0.6))
    .map((name): [string, string] => [name, textOf(name)]);
  const texts = [...inPath, ...inQuery];
  const hasBody = route.body === 'json' || (route.body !== 'none' && !/^(?:GET|HEAD)$/.test(method));
  const taken = new Set(['tool', ...texts.map(([name]) => name)]);
  const rest = hasBody ? own.filter(([name]) => !taken.has(name)) : [];
  const called: Member[] = [['tool', toJson(tool === 'any' || random.chance(0.05) ? (wanted ?? 'x') : tool)]];
  const isInBody = hasBody && (tool === 'any' || random.chance(0.15));
  const bodyMembers = [...(isInBody ? called : []), ...rest];
  const isNamed = tool !== 'any' || isInBody;
  const signed: Json = {
    kind: 'object',
    members: [
      ...(isNamed ? called : []),
      ...texts.map(([name, text]) => [name, toJson(text)] as const),
      ...rest,
    ],
  };
  const iat = now + random.pick([0, 0, 0, 0, 0, -899, -901]);
  const links =
    command === undefined || random.chance(0.05)
      ? recipe.links
      : recipe.links.map((link) => withClaims(link, { cmd: random.chance(0.95) ? '/' : command }));
  const cmd = `${command ?? ''}${random.pick(['', '', '', '/z', 's'])}`;
  const named = withClaims(recipe.call, { iat, ...(command !== undefined && { cmd }) });
  const call = { ...named, claims: setMember(named.claims, 'args', signed) };
  const bundle = Buffer.from(writeJson(buildBundle({ ...recipe, links, call }))).toString('base64url');
  const search = new URLSearchParams(random.chance(0.8) ? inQuery : inQuery.toReversed()).toString();
  const bodyJson: Json = { kind: 'object', members: bodyMembers };
  const spelled = { ...call, claims: setMember(call.claims, 'args', bodyJson) };
  const body = (random.chance(0.15) ? randomBody(random, spelled) : undefined) ?? writeJson(bodyJson);
  const request: GateRequest = {
    protocol: 'http',
    method,
    path: search === '' ? way : `${way}?${search}`,
    headers: [
      ['Content-Type', 'application/json'],
      ['X-DRS-Bundle', bundle],
    ],
    body: hasBody && !(bodyMembers.length === 0 && random.chance(0.5)) ? body : '',
  };
  const change = random.next();
  if (change < 0.7) return request;
  if (change < 0.8) return altered(random, request, bundle);
  if (change < 0.9) return alteredPath(random, request);
  if (change < 0.93) return { ...request, path: request.path.replace(/[^/?]+(?=$|[/?])/, 'other') };
  return { ...request, body: random.pick(['', '{}', 'null', ' ', '{"a":1}', '[]', '{"name":"7"}', '7']) };
}

const QUERY_NAMES = ['historyLength', 'tenant', 'pageToken', 'id'];

/** Changes the path of a call. */
function alteredPath(random: Random, request: GateRequest): GateRequest {
  const { path } = request;
  const [way = '', search] = path.split('?');
  const query = search === undefined ? '' : `?${search}`;
  const changed = random.pick([
    () => way.toUpperCase() + query,
    () => `${way}/${query}`,
    () => `/${way}${query}`,
    () => `/b${path}`,
    () => `/tasks${path}`,
    () => `/extendedAgentCard${path}`,
    () =>
      way.replace('tasks', random.pick(['%74asks', 'Tasks', 'tas%E2%84%AAs', 'task', 'tasks;x', 'tasks/'])) +
      query,
    () => way.replace(':', random.pick(['%3A', '::', ':x', '/'])) + query,
    () =>
      way +
      random.pick([
        ...['%2F', '%2fx', '%5c', '%23', '%3Bx', '%00', '%ff', '%', '%25', '%3f', '|', 'é', '.json'],
        ':x',
      ]) +
      query,
    () => way.replace(/[^/]+$/, random.pick(['..', '.', '%2e%2E', '...', '.x'])) + query,
    () =>
      `${path}${query === '' ? '?' : '&'}${random.pick(['a=1', 'a', '=1', 'id=9', 'tool=x', 'path=x', 'a=1&a=1', 'a=%ff', 'a[]=1', 'a=;', 'a=+%2B', 'a=1#x', 'a=b=c', 'a=%00', 'a=1|', "a='/?:@", ''])}`,
    () => '/.well-known/agent-card.json',
    () => `${prefixOf(way)}/.well-known/agent.json${random.pick(['', '', '?', '?x=1', '/'])}`,
    () => '/some/path',
    () => '/',
  ])();
  return { ...request, path: changed, method: random.chance(0.7) ? request.method : random.pick(METHODS) };
}

const prefixOf = (way: string) => way.slice(0, way.lastIndexOf('/'));
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'HEAD'];

function withClaims(link: Link, claims: Readonly<Record<string, string | number>>): Link {
  const changed = Object.entries(claims).reduce<JsonObject>(
    (object, [name, value]) => setMember(object, name, toJson(value)),
    link.claims,
  );
  return { ...link, claims: changed };
}

const argsOf = (call: Link) => writeJson(member(call.claims, 'args') ?? toJson(null));

function toolOf(call: Link): string | undefined {
  const args = member(call.claims, 'args');
  const tool = args?.kind === 'object' ? member(args, 'tool') : undefined;
  return tool?.kind === 'string' ? tool.value : undefined;
}

/** The JSON-RPC message of a call with these arguments. Arguments that are not an object are used unchanged. */
function messageOf(
  random: Random,
  protocol: 'mcp' | 'a2a',
  method: string,
  args: string,
  bundle: string | undefined,
): string {
  const read = readJson(args);
  const members = read?.kind === 'object' ? read.members : undefined;
  const tool = members?.findLast(([name]) => name === 'tool')?.[1];
  const rest =
    members === undefined
      ? args
      : writeJson({ kind: 'object', members: members.filter(([name]) => name !== 'tool') });
  const name: Json = tool ?? toJson('search');
  const id = random.chance(0.9) ? '7' : random.pick(['"x"', '0', '-1', '1.5', '9007199254740993', '""']);
  const hasNone = rest === '{}' && random.chance(0.5);
  if (protocol === 'a2a')
    return `{"jsonrpc":"2.0","id":${id},"method":${writeJson(name)}${hasNone ? '' : `,"params":${rest}`}}`;
  const meta = bundle === undefined ? '' : `,"_meta":{"${random.pick(META)}":"${bundle}"}`;
  if (method !== 'tools/call') {
    const params = members === undefined ? args : writeJson(paramsOf(method, members));
    const whole = params.startsWith('{')
      ? `{${`${meta.slice(1)},`.replace(/^,$/, '')}${params.slice(1)}`
      : params;
    return `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${whole.replace(',}', '}')}}`;
  }
  const call = `{"name":${writeJson(name)}${hasNone ? '' : `,"arguments":${rest}`}${meta}}`;
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":${call}}`;
}

const META = ['X-DRS-Bundle', 'xyz.okeyamy.drs/bundle'];

/** Changes a part of the request that concerns the gate, but not the chain. */
function altered(random: Random, request: GateRequest, bundle: string): GateRequest {
  const { headers, body, protocol } = request;
  const without = (name: string) => headers.filter(([other]) => other !== name);
  const put = (...more: [string, string][]) => ({ ...request, headers: [...headers, ...more] });
  const put1 = (name: string, value: string) => ({
    ...request,
    headers: [...without(name), [name, value] as const],
  });
  const text = (changed: string) => ({ ...request, body: changed });
  const member2 = (name: string, value: string) =>
    text(body.replace(/\}$/, `,${JSON.stringify(name)}:${value}}`));
  const changes: (() => GateRequest)[] = [
    () => ({ ...request, method: random.pick(METHODS) }),
    () => ({
      ...put([
        'Accept',
        random.pick(['text/event-stream', '*/*', 'a/b, TEXT/event-stream;q=0', 'text/event-streams']),
      ]),
      method: random.pick(['GET', 'GET', 'HEAD', 'POST']),
    }),
    () => ({
      ...request,
      path: `/.well-known/oauth-protected-resource${random.pick(['', '/mcp', 'x', '?a', '/../x', '/'])}`,
      ...{ method: random.pick(['GET', 'HEAD', 'POST']), body: random.pick(['', body]) },
    }),
    () => ({ ...request, headers: without('X-DRS-Bundle') }),
    () => put(['X-DRS-Bundle', bundle]),
    () => put(['x-drs-bundle', 'e30']),
    () =>
      put1(
        'X-DRS-Bundle',
        random.pick(['e30', 'e30=', 'e30==', 'W10', '', '=', 'eyJhIjoxLCJhIjoxfQ', 'bnVsbA', 'é']),
      ),
    () => put1('X-DRS-Bundle', bundle + random.pick(['=', '==', '===', 'A', ',', `, ${bundle}`, '.'])),
    () =>
      put1(
        'X-DRS-Bundle',
        random.pick([` ${bundle}`, `${bundle}\t `, `\t${bundle} `, ' ', `${bundle} ${bundle}`]),
      ),
    () => put1('X-DRS-Bundle', bundle.slice(0, -random.pick([1, 2, 3, 4]))),
    () =>
      put([
        'Mcp-Name',
        random.pick([
          ...['search', 'fetch', '=?base64?c2VhcmNo?=', '=?base64?@?=', '=?base64?/w==?=', ''],
          ...[' search\t', '\u00a0search', 'ü'],
        ]),
      ]),
    () => put(['Mcp-Name', 'search'], ['Mcp-Name', 'search']),
    () =>
      put([
        random.pick(['Mcp-Param-Query', 'MCP_Param-a', 'mcp-param-']),
        random.pick([
          ...['tea', 'x', '7', '7.0', '0', 'true', 'null', 'undefined', '', 'ü', '=?base64?dGVh?='],
          '=?base64?@?=',
        ]),
      ]),
    () => {
      const value = random.pick([...body.matchAll(/:"?([\w./-]+)"?[,}]/g), ['', 'x']]);
      return put(['Mcp-Param-Query', value[1] ?? '']);
    },
    () =>
      put(['Connection', random.pick(['close', ' Keep-Alive, ,', 'X-DRS-Bundle', 'close, te', 'upgrade'])]),
    () => put(['upgrade', random.pick(['websocket', 'h2c', ''])]),
    () => put(['Mcp-Method', random.pick(['tools/call', 'tools/list', '', 'TOOLS/CALL'])]),
    () => put(['MCP-Protocol-Version', random.pick(['2026-07-28', '2025-06-18', '2026-7-28', ''])]),
    () => ({
      ...put(
        ['Mcp-Method', random.pick(['tools/call', 'tools/call', 'resources/read', 'ping'])],
        ['MCP-Protocol-Version', '2026-07-28'],
        ...(random.chance(0.5) ? [['Mcp-Name', 'search'] satisfies [string, string]] : []),
      ),
      body: body.replace(
        '"params":{',
        `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},`,
      ),
    }),
    () => put1('Content-Type', random.pick(TYPES)),
    () => put(['Content_Type', random.pick(TYPES)]),
    () => put(['Content-Type', 'application/json']),
    () => put(['X-HTTP-Method-Override', random.pick(METHODS)]),
    () =>
      put([
        random.pick(['X-Original-URL', 'X_Rewrite_Url', 'SCRIPT_NAME', 'Path-Info']),
        random.pick([request.path, '/some/path', '/']),
      ]),
    () => ({ ...request, path: `${request.path}${random.pick(['?', '?a=1', '#x', '%3F', '%2e', '/x'])}` }),
    () => ({ ...request, method: random.pick(['GET', 'DELETE', 'OPTIONS']), body: '' }),
    () => put(['X_DRS_Bundle', random.pick([bundle, 'e30'])]),
    () => put(['Content-Encoding', random.pick(['gzip', 'identity', ' Identity ', 'br', 'identity, gzip'])]),
    () => text(`[${body}]`),
    () => text(`\ufeff${body}`),
    () => text(`${body}${random.pick([' ', 'x', body, '\u0000'])}`),
    () =>
      text(body.replace('"id":7,', random.pick(['', '"id":null,', '"id":{},', '"id":[7],', '"id":true,']))),
    () => text(body.replace('"2.0"', random.pick(['"1.0"', '2', 'null', '"2"']))),
    () =>
      text(
        body.replace(
          '"method":',
          random.pick(['"method":"tools/list","method":', '"m\\u0065thod":1,"method":', '"Method":']),
        ),
      ),
    () =>
      text(
        body.replace(
          '"tools/call"',
          random.pick(['"tools/list"', '"initialize"', '"tools/call "', '["tools/call"]', 'null']),
        ),
      ),
    () =>
      text(
        body.replace(
          '"name":',
          random.pick(['"Name":"x","name":', '"name":"fetch","name":', '"n":', '"name":7,"x":', '"NAME":']),
        ),
      ),
    () =>
      text(
        body.replace(/"arguments":|"params":\{/, (found) =>
          random.pick([`"arguments":${random.pick(ODD)},${found}`, `"Arguments":{},${found}`]),
        ),
      ),
    () =>
      member2(
        random.pick([
          ...['method', 'params', 'id', 'jsonrpc', 'result', 'error', 'x', 'Params', 'METHOD'],
          ...['paramſ', 'İd'],
        ]),
        random.pick(ODD),
      ),
    () =>
      text(
        body.replace(
          /"(?:X-DRS-Bundle|xyz\.okeyamy\.drs\/bundle)":"[^"]*"/,
          `"X-DRS-Bundle":${random.pick([...ODD, JSON.stringify(bundle)])}`,
        ),
      ),
    () =>
      text(
        body.replace(
          '"_meta":{',
          `"_meta":{"${random.pick(META)}":${random.pick(['"e30"', 'null', '7', JSON.stringify(bundle)])},`,
        ),
      ),
    () => text(body.replace(/"arguments":\{|"params":\{(?!"name")/, (found) => `${found}"tool":"x",`)),
    () =>
      text(
        body.replace(/"method":"[^"]*"/, `"method":"${random.pick([...OTHERS, 'tools/call', 'ping', 'x'])}"`),
      ),
    () => text(body.replace('"params":{', (found) => `${found}${random.pick(MORE_PARAMS)},`)),
    () =>
      text(
        body.replace(
          /"params":\{"(?:uri|taskId|name)":"/,
          (found) => `${found}${random.pick(['', '/', 'x'])}`,
        ),
      ),
    () =>
      text(
        body.replace(
          /"notifications":\{[^}]*\}/,
          `"notifications":${random.pick(['{}', '{"toolsListChanged":true}', '{"resourceSubscriptions":[]}', '{"x":1}', '[]', '{"resourceSubscriptions":["a","b"]}'])}`,
        ),
      ),
    // What agentgateway sends of such a message would add to the one that the gate puts together.
    () => member2(random.pick(['params', 'id']), random.pick(['{}', '8', 'null'])),
    () => text(random.pick(ODD)),
    () => text(''),
    () => ({ ...request, protocol: protocol === 'mcp' ? 'a2a' : 'mcp' }),
  ];
  return random.pick(changes)();
}

const MORE_PARAMS = [
  ...['"x":1', '"Name":"x"', '"uri":"x"', '"task":{"ttl":1}', '"requestState":"t"', '"inputResponses":{}'],
  ...['"notifications":{}', '"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}', '"ref":{}'],
];

const TYPES = [
  'application/json; charset=utf-8',
  'application/json;charset="UTF8"',
  ...['charset*0=utf-7', 'a=b', 'charset="utf-8', 'charset=utf-8;', ''].map(
    (text) => `application/json;${text}`,
  ),
  'application/json; charset=utf-16',
  'application/vnd.x+json',
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/json, text/plain',
  'application/jsonp',
  'APPLICATION/JSON',
];
