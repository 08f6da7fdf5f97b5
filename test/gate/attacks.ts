import { gzipSync } from 'node:zlib';
import type { Protocol } from '../../src/gate/codes.js';
import { encode, liveCall, liveChain, now } from '../middleware/call.js';
import { a2aChain, mcpChain, restChain } from './decide.js';

/** How a request gets to a gate. */
export type Transport = 'pure' | 'middleware' | 'v1' | 'proxy' | 'grpc';

/** A request that a caller, or a proxy that was made to, sends to a gate. */
export interface Attempt {
  readonly method?: string;
  /** Below `/gate/<protocol>`; a path that starts with `!` stands for itself. */
  readonly path?: string;
  /** Path and query of the caller's request; left out: those of an endpoint of JSON-RPC. Empty: not known. */
  readonly at?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string | Buffer;
  /** Whether the body comes in chunks, without a length. */
  readonly isChunked?: true;
}

/** What must become of it. */
export type Outcome = 'pass' | readonly [status: number, code: string];

export interface Attack {
  readonly name: string;
  readonly protocol: Protocol;
  readonly attempt: () => Attempt;
  readonly outcome: Outcome;
  /** The transports that can carry it; left out, all that know the protocol. */
  readonly by?: readonly Transport[];
  /** Sent twice: once it is allowed. */
  readonly twice?: true;
  /** The form of the denial, where it is not that of the protocol. */
  readonly form?: 'http';
}

/** The code of the JSON-RPC error: that of JSON-RPC 2.0 or of MCP 2026-07-28, where they have one. */
export const rpcCodeOf = (code: string): number =>
  ({ HEADER_MISMATCH: -32020, UNSUPPORTED_VERSION: -32022, UNKNOWN_METHOD: -32601 })[code] ?? -32010;

const search = { tool: 'search', query: 'tea' };
export const mcpBundle = (args: object = search, overrides: object = {}) =>
  encode(liveCall(mcpChain, args, overrides as Record<string, unknown>));
export const a2aBundle = (args: object = { tool: 'SendMessage', n: 1 }, overrides: object = {}) =>
  encode(liveCall(a2aChain, args, { cmd: '/a2a/SendMessage', ...overrides }));
/** A bundle for a method of A2A, signed as a call over REST. */
export const restBundle = (method: string, args: object = {}) =>
  encode(liveCall(restChain, { tool: method, ...args }, { cmd: `/a2a/${method}` }));

export const toolCall = (params: object = {}, message: object = {}) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 7,
    method: 'tools/call',
    params: { name: 'search', arguments: { query: 'tea' }, ...params },
    ...message,
  });
const versionOf = (version: unknown) => ({ 'io.modelcontextprotocol/protocolVersion': version });
/** A call as clients of MCP 2026-07-28 send it. */
export const newest = (version: unknown = '2026-07-28') => toolCall({ _meta: versionOf(version) });
/** The headers that must come with it, but one. */
export const headersOfNewest = (without = ''): [string, string][] =>
  [
    ['mcp-protocol-version', '2026-07-28'] as [string, string],
    ['mcp-method', 'tools/call'] as [string, string],
    ['mcp-name', 'search'] as [string, string],
  ].filter(([name]) => name !== without);
const READER = { allowed_tools: ['search', 'resources/read', 'prompts/get', 'tasks/get', 'tasks/cancel'] };
/** Requests of other methods name no resource, so a chain that limits resources allows none of them. */
const readChain = liveChain(2, { cmd: '/mcp', policy: READER });
const resourceChain = liveChain(2, {
  cmd: '/mcp',
  policy: { ...READER, allowed_resources: ['file:///a/*'] },
});
/** A request with another method than `tools/call`. */
export const mcpRequest = (method: string, params: object) =>
  JSON.stringify({ jsonrpc: '2.0', id: 7, method, params });
export const requestBundle = (method: string, args: object, overrides: object = {}) =>
  encode(
    liveCall(
      'resource_uri' in args ? resourceChain : readChain,
      { tool: method, ...args },
      { cmd: `/mcp/${method}`, ...overrides },
    ),
  );
export const a2aCall = (message: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'SendMessage', params: { n: 1 }, ...message });
export const httpCall = JSON.stringify(search);

const BUNDLE = 'X-DRS-Bundle';
const twice = (bundle: string): [string, string][] => [
  [BUNDLE, bundle],
  [BUNDLE, bundle],
];
const type = (value: string) => ['Content-Type', value] as const;
/** A signed call of `search`, with another body, and more headers. */
const call = (body: string | Buffer = toolCall(), ...more: (readonly [string, string])[]): Attempt => ({
  headers: [[BUNDLE, mcpBundle()], ...more],
  body,
});
/** A request with this bundle. */
const signed = (bundle: string, body: string | Buffer, ...more: (readonly [string, string])[]): Attempt => ({
  headers: [[BUNDLE, bundle], ...more],
  body,
});
const callA2a = (body: string | Buffer = a2aCall(), ...more: (readonly [string, string])[]): Attempt =>
  signed(a2aBundle(), body, ...more);
const unsigned = (body: string | Buffer, ...headers: (readonly [string, string])[]): Attempt => ({
  headers,
  body,
});
const SPOOFED = [
  ['X-DRS-Root-Principal', 'did:key:zBoss'],
  ['X-DRS-Root-Name', 'boss@example.com'],
  ['X-DRS-Root-Type', 'human'],
  ['X-DRS-Session-Id', 's-boss'],
  ['X-DRS-Correlation-Id', 'c-boss'],
  ['X-DRS-Approved-By', 'Boss'],
  ['X-DRS-Agent', 'did:key:zBoss'],
  ['X-DRS-Chain-Depth', '1'],
  ['X-DRS-Command', '/mcp/tools/call'],
  ['X-DRS-Tool', 'search'],
  ['X-DRS-Invocation', 'inv:1'],
  ['X-DRS-Binding', 'match'],
  ['X-DRS-Context', 'eyJ.eyJ.x'],
  ['X-DRS-Observed', 'EXPIRED'],
] as const;

/** Those who see the bytes and their type. */
const BYTES: readonly Transport[] = ['pure', 'middleware', 'proxy', 'grpc'];
const PROXY: readonly Transport[] = ['proxy'];
/** The doors that proxies ask. */
const DOORS: readonly Transport[] = ['pure', 'v1', 'proxy', 'grpc'];
const HOP = [400, 'HOP_BY_HOP_HEADER'] as const;
/** Those who know more of the caller's request than its body. */
const GATEWAYS: readonly Transport[] = ['proxy', 'grpc'];
const GRPC: readonly Transport[] = ['grpc'];
/** Those with a connection. */
const WIRED: readonly Transport[] = ['middleware', 'v1', 'proxy'];
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

type Make = (name: string, attempt: () => Attempt, outcome: Outcome, more?: Partial<Attack>) => Attack;
const of =
  (protocol: Protocol): Make =>
  (name, attempt, outcome, more = {}) => ({ name, protocol, attempt, outcome, ...more });
const [mcp, a2a, http] = [of('mcp'), of('a2a'), of('http')];
/** A denial of a call over A2A's REST. */
const rest: Make = (name, attempt, outcome, more = {}) =>
  a2a(`REST: ${name}`, attempt, outcome, { form: 'http', ...more });
/** Attacks with one outcome, each under its protocol and name. */
const group = (outcome: Outcome, attempts: Record<string, () => Attempt>, more: Partial<Attack> = {}) =>
  Object.entries(attempts).map(([title, attempt]) => {
    const [kind = '', ...name] = title.split(': ');
    const make = { mcp, a2a, http, REST: rest }[kind];
    if (make === undefined) throw new Error(`no protocol: ${title}`);
    return make(name.join(': '), attempt, outcome, more);
  });
/** The same, for what only these transports can carry. */
const only = (by: readonly Transport[], outcome: Outcome, attempts: Record<string, () => Attempt>) =>
  group(outcome, attempts, { by });
/** A request without a bundle. */
const bare = (method: string, path: string, ...headers: (readonly [string, string])[]): Attempt => ({
  method,
  at: path,
  headers,
});
const withBundle = (bundle: string, method: string, path: string, body?: object): Attempt => ({
  ...bare(method, path, [BUNDLE, bundle]),
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});
/** Those whose answers have a body although the request is a HEAD. */
const HEADLESS: readonly Transport[] = ['pure', 'v1', 'grpc'];
const sent = { message: { messageId: 'm1', parts: [{ text: 'hello' }] } };

/** A call that any reader would run, at a path that might be another one's. */
const at = (path: string): Attack =>
  mcp(`the path ${path}`, () => ({ ...call(), path: `!${path}` }), [404, ''], { by: PROXY });

export const ATTACKS: readonly Attack[] = [
  // Who calls
  ...group([403, 'MISSING_BUNDLE'], {
    'mcp: no bundle': () => unsigned(toolCall()),
    'mcp: context headers in place of a bundle': () => unsigned(toolCall(), ...SPOOFED),
    'a2a: context headers in place of a bundle': () => unsigned(a2aCall(), ...SPOOFED),
  }),
  ...group([401, 'MISSING_BUNDLE'], {
    'http: context headers in place of a bundle': () => unsigned(httpCall, ...SPOOFED),
  }),
  ...group([403, 'INVOKER_MISMATCH'], {
    "mcp: a bundle of a stranger's chain with a broken signature": () => {
      const other = liveChain(2);
      return signed(encode(liveCall({ ...mcpChain, receipts: other.receipts }, search)), toolCall());
    },
  }),
  ...group([403, 'EXPIRED'], {
    'mcp: an expired chain': () =>
      signed(encode(liveCall(liveChain(2, { exp: now() - 1 }), search)), toolCall()),
  }),
  ...group([403, 'COMMAND_MISMATCH'], {
    'mcp: an invocation for another command': () =>
      signed(mcpBundle(search, { cmd: '/mcp/tools/call/x' }), toolCall()),
    'mcp: a bundle of A2A': () =>
      signed(a2aBundle({ tool: 'SendMessage', query: 'tea' }), toolCall({ name: 'SendMessage' })),
    'a2a: a bundle of MCP': () => signed(mcpBundle({ tool: 'search', n: 1 }), a2aCall({ method: 'search' })),
  }),

  // Carriers
  ...group([400, 'MULTIPLE_BUNDLES'], {
    'mcp: the header twice': () => ({ headers: twice(mcpBundle()), body: toolCall() }),
    'mcp: the header twice, in two spellings': () => {
      const bundle = mcpBundle();
      return unsigned(toolCall(), ['X-DRS-BUNDLE', bundle], ['x-drs-bundle', bundle]);
    },
    'a2a: the header twice': () => ({ headers: twice(a2aBundle()), body: a2aCall() }),
    'mcp: two bundles joined by a comma': () => signed(`${mcpBundle()},${mcpBundle()}`, toolCall()),
    'http: two bundles joined by a comma and a space': () =>
      signed(`${mcpBundle()}, ${mcpBundle()}`, httpCall),
    'mcp: a bundle in the header and another in _meta': () =>
      call(toolCall({ _meta: { [BUNDLE]: mcpBundle() } })),
    'mcp: two bundles in _meta': () =>
      unsigned(toolCall({ _meta: { [BUNDLE]: mcpBundle(), 'xyz.okeyamy.drs/bundle': mcpBundle() } })),
  }),
  ...group([400, 'MALFORMED_BUNDLE'], {
    'mcp: a bundle in _meta that is no string': () =>
      unsigned(toolCall({ _meta: { [BUNDLE]: [mcpBundle()] } })),
    'mcp: null in _meta beside a good header': () => call(toolCall({ _meta: { [BUNDLE]: null } })),
    'mcp: an empty header': () => signed('', toolCall()),
    'mcp: a header that is base64 and not base64url': () => signed(`${mcpBundle()}+/`, toolCall()),
    'mcp: a bundle with a member twice': () => signed(encode('{"receipts":[],"receipts":[]}'), toolCall()),
    'mcp: a bundle that is no JSON': () => signed(encode('{'), toolCall()),
    'mcp: a bundle of deep JSON': () => signed(encode('['.repeat(9999)), toolCall()),
  }),
  ...group([403, 'MALFORMED_BUNDLE'], {
    'mcp: a bundle that is no object': () => signed(encode('[]'), toolCall()),
  }),
  ...group([403, 'BINDING_MISMATCH'], {
    'mcp: a bundle that names the body it was signed for': () =>
      signed(
        encode({ ...liveCall(mcpChain, search), body: search }),
        toolCall({ arguments: { query: 'coffee' } }),
      ),
  }),
  ...group([403, 'MISSING_BUNDLE'], {
    'a2a: a bundle in _meta, which is of MCP': () =>
      unsigned(a2aCall({ params: { n: 1, _meta: { [BUNDLE]: a2aBundle() } } })),
  }),

  // Headers that name the call
  ...group([400, 'HEADER_MISMATCH'], {
    'mcp: Mcp-Name that lies': () => call(toolCall(), ['Mcp-Name', 'fetch']),
    'mcp: Mcp-Name in base64 that lies': () => call(toolCall(), ['Mcp-Name', '=?base64?ZmV0Y2g=?=']),
    'mcp: Mcp-Name in base64 that is none': () => call(toolCall(), ['Mcp-Name', '=?base64?@?=']),
    // Some doors and servers read UTF-8 in a header, others Latin-1.
    'mcp: Mcp-Name that is not ASCII': () =>
      signed(mcpBundle({ tool: 'Zürich' }), toolCall({ name: 'Zürich', arguments: {} }), [
        'Mcp-Name',
        'Zürich',
      ]),
    'mcp: Mcp-Method that is not ASCII': () => unsigned(mcpRequest('ü', {}), ['Mcp-Method', 'ü']),
    'mcp: Mcp-Method that lies': () => call(toolCall(), ['Mcp-Method', 'tools/list']),
    'mcp: Mcp-Name in base64 that is none, of a call without a name': () =>
      unsigned(toolCall({}, { params: {} }), ['Mcp-Name', '=?base64?*?=']),
    'mcp: Mcp-Method of a call over another message': () =>
      unsigned(toolCall({}, { method: 'tools/list' }), ['Mcp-Method', 'tools/call']),
  }),
  ...group([400, 'HEADER_MISMATCH'], {
    'mcp: MCP-Protocol-Version that is not that of the message': () =>
      call(newest('2025-11-25'), ...headersOfNewest()),
    'mcp: the version of the message is no text': () => call(newest(20_260_728), ...headersOfNewest()),
  }),
  ...only(['pure', 'v1', 'proxy', 'grpc'], [400, 'HEADER_MISMATCH'], {
    'mcp: a version in the message and not in a header': () => call(newest()),
    'mcp: 2026-07-28 without Mcp-Method': () => call(newest(), ...headersOfNewest('mcp-method')),
    'mcp: 2026-07-28 without Mcp-Name': () => call(newest(), ...headersOfNewest('mcp-name')),
    'mcp: 2026-07-28 in the header alone, without Mcp-Name': () =>
      call(toolCall(), ...headersOfNewest('mcp-name')),
    'mcp: 2026-07-28, a list without Mcp-Method': () =>
      unsigned(mcpRequest('tools/list', {}), ['MCP-Protocol-Version', '2026-07-28']),
  }),
  ...group([400, 'UNSUPPORTED_VERSION'], {
    'mcp: a version that nobody knows': () =>
      unsigned(mcpRequest('tools/list', {}), ['MCP-Protocol-Version', '2027-01-01']),
    'mcp: a version that is none': () =>
      unsigned(mcpRequest('tools/list', {}), ['MCP-Protocol-Version', 'invalid']),
  }),
  ...['ping', 'resources/subscribe', 'tasks/result', 'notifications/progress', 'acme/delete'].map((method) =>
    mcp(
      `${method}, which 2026-07-28 does not have`,
      () => unsigned(mcpRequest(method, {}), ['MCP-Protocol-Version', '2026-07-28'], ['Mcp-Method', method]),
      [404, 'UNKNOWN_METHOD'],
    ),
  ),
  ...group('pass', {
    'mcp: initialize, whose body negotiates, with a version that nobody knows': () =>
      unsigned(mcpRequest('initialize', {}), ['MCP-Protocol-Version', '2027-01-01']),
    'mcp: a list of 2026-07-28': () =>
      unsigned(
        mcpRequest('tools/list', { _meta: versionOf('2026-07-28') }),
        ['MCP-Protocol-Version', '2026-07-28'],
        ['Mcp-Method', 'tools/list'],
      ),
    'mcp: ping of 2025-11-25, which has it': () =>
      unsigned(mcpRequest('ping', {}), ['MCP-Protocol-Version', '2025-11-25']),
  }),
  ...only(DOORS, [400, 'HEADER_MISMATCH'], {
    'mcp: MCP-Protocol-Version twice': () =>
      call(newest(), ...headersOfNewest(), ['MCP-Protocol-Version', '2026-07-28']),
    'mcp: Mcp-Name twice': () => call(toolCall(), ['Mcp-Name', 'search'], ['Mcp-Name', 'search']),
    'mcp: Mcp-Method twice': () =>
      call(toolCall(), ['Mcp-Method', 'tools/call'], ['Mcp-Method', 'tools/call']),
  }),
  ...only(['pure', 'v1', 'grpc'], [400, 'HEADER_MISMATCH'], {
    'mcp: an argument in a header of CGI that is not that of the body': () =>
      call(toolCall(), ['mcp_PARAM_query', 'gold']),
  }),
  ...only(['pure', 'v1', 'grpc'], [400, 'MULTIPLE_BUNDLES'], {
    // What comes under such a name reaches a server of CGI as the other header.
    'mcp: X_DRS_Bundle beside X-DRS-Bundle': () => call(toolCall(), ['X_DRS_Bundle', mcpBundle()]),
  }),
  ...only(['pure', 'v1', 'grpc', 'middleware'], [403, 'BINDING_MISMATCH'], {
    'http: a charset in Content_Type': () =>
      call(httpCall, type('application/json'), ['Content_Type', 'application/json; charset=utf-16']),
  }),
  ...only(['pure', 'v1', 'proxy', 'grpc', 'middleware'], [403, 'BINDING_MISMATCH'], {
    'http: Content-Type twice': () => call(httpCall, type('application/json'), type('text/plain')),
  }),
  ...group([403, 'BINDING_MISMATCH'], {
    'a2a: Content-Type twice': () => callA2a(a2aCall(), type('application/json'), type('text/plain')),
  }),
  ...[
    [['Mcp-Param-Query', 'gold']],
    [
      ['Mcp-Param-Query', 'tea'],
      ['Mcp-Param-Region', 'us'],
    ],
    [['Mcp-Param-Query', '=?base64?Z29sZA==?=']],
    [['Mcp-Param-Query', '']],
    [[`Mcp-Param-${'x'.repeat(99)}`, 'search']],
  ].map((headers) =>
    mcp(
      `arguments in headers that are not those of the body: ${JSON.stringify(headers)}`,
      () => call(toolCall(), ...(headers as [string, string][])),
      [400, 'HEADER_MISMATCH'],
    ),
  ),
  ...['X_HTTP_Method_Override', 'x_forwarded-method'].flatMap((name) => [
    mcp(`${name} of another method`, () => call(toolCall(), [name, 'DELETE']), [405, 'METHOD_NOT_ALLOWED'], {
      by: ['pure', 'v1', 'grpc'],
    }),
    http(`${name} of another method`, () => call(httpCall, [name, 'DELETE']), [405, 'METHOD_NOT_ALLOWED'], {
      by: ['pure', 'v1', 'grpc', 'middleware'],
    }),
    a2a(
      `${name} of another method`,
      () => callA2a(a2aCall(), [name, 'DELETE']),
      [405, 'METHOD_NOT_ALLOWED'],
      { by: ['pure', 'v1', 'grpc', 'middleware'] },
    ),
  ]),

  // The message
  ...group([400, 'BATCH_NOT_SUPPORTED'], {
    'mcp: a batch of one call': () => call(`[${toolCall()}]`),
    'mcp: a batch of a list and a call': () =>
      unsigned(`[{"jsonrpc":"2.0","id":1,"method":"tools/list"},${toolCall()}]`),
    'mcp: an empty batch': () => unsigned('[]'),
    'a2a: a batch': () => callA2a(`[${a2aCall()}]`),
  }),
  ...group([400, 'INVALID_TOOL_CALL'], {
    'mcp: a notification of tools/call': () => call(toolCall({}, { id: undefined })),
    'mcp: the id null': () => call(toolCall({}, { id: null })),
    'mcp: Name beside name': () => call(toolCall({ Name: 'fetch' })),
    'mcp: no params': () => call(toolCall({}, { params: undefined })),
    'mcp: a name that is no string': () => call(toolCall({ name: ['search'] })),
    'mcp: an empty name': () => call(toolCall({ name: '' })),
  }),
  ...group([400, 'INVALID_JSONRPC'], {
    'mcp: the id an object': () => call(toolCall({}, { id: {} })),
    'mcp: the id an array': () => call(toolCall({}, { id: [7] })),
    'mcp: the id a boolean': () => call(toolCall({}, { id: true })),
    'mcp: jsonrpc 1.0': () => call(toolCall({}, { jsonrpc: '1.0' })),
    'mcp: no jsonrpc': () => call(toolCall({}, { jsonrpc: undefined })),
    'mcp: method that is no string': () => call(toolCall({}, { method: ['tools/call'] })),
    'mcp: method twice': () => unsigned(toolCall().replace('"method":', '"method":"tools/list","method":')),
    'mcp: method twice, once with an escape': () =>
      unsigned(toolCall().replace('"method":', '"m\\u0065thod":"tools/list","method":')),
    'mcp: Method beside method': () => unsigned(toolCall({}, { method: 'tools/list', Method: 'tools/call' })),
    'mcp: Params beside params': () => call(toolCall({}, { Params: { name: 'fetch' } })),
    'mcp: to parsers that fold letters': () => unsigned(toolCall({}, { method: 'tools/list', paramſ: {} })),
    'a2a: the id an object': () => callA2a(a2aCall({ id: {} })),
    'a2a: the id a boolean': () => callA2a(a2aCall({ id: false })),
    'a2a: an answer in place of a request': () => callA2a('{"jsonrpc":"2.0","id":1,"result":1}'),
  }),
  ...only(DOORS, [400, 'INVALID_TOOL_CALL'], {
    'mcp: params as array': () => call(toolCall({}, { params: ['search', { query: 'tea' }] })),
  }),
  ...group([400, 'INVALID_PARAMS'], {
    'mcp: arguments as array': () => call(toolCall({ arguments: [] })),
    'mcp: arguments null': () => call(toolCall({ arguments: null })),
    'a2a: params as array': () => callA2a(a2aCall({ params: [1] })),
  }),
  ...group([400, 'RESERVED_ARGUMENT'], {
    'mcp: tool in arguments': () => call(toolCall({ arguments: { query: 'tea', tool: 'fetch' } })),
    'a2a: tool in params': () => callA2a(a2aCall({ params: { tool: 'x' } })),
    'mcp: an argument that stands for other parameters': () =>
      call(toolCall({ arguments: { 'xyz.okeyamy.drs/params': {} } })),
  }),
  ...group([403, 'POLICY_VIOLATION'], {
    'a2a: a method with dots': () =>
      signed(a2aBundle({ tool: '../SendMessage', n: 1 }), a2aCall({ method: '../SendMessage' })),
  }),

  // What was signed
  ...group([403, 'BINDING_MISMATCH'], {
    'mcp: another argument': () => call(toolCall({ arguments: { query: 'coffee' } })),
    'mcp: one argument more': () => call(toolCall({ arguments: { query: 'tea', limit: 1 } })),
    'mcp: one argument less': () => call(toolCall({ arguments: {} })),
    'mcp: another tool': () => call(toolCall({ name: 'fetch' })),
    'mcp: the tool in capitals': () => call(toolCall({ name: 'SEARCH' })),
    'mcp: an argument twice': () => call(toolCall().replace('{"query":', '{"query":"coffee","query":')),
    'mcp: an argument twice, escaped': () =>
      call(toolCall().replace('{"query":', '{"quer\\u0079":"coffee","query":')),
    'mcp: an answer to the server that was not signed': () =>
      call(toolCall({ inputResponses: { confirm: { action: 'accept' } } })),
    'mcp: a number beyond 2^53 as a fraction': () =>
      signed(
        mcpBundle({ tool: 'search', n: 9007199254740992 }),
        toolCall().replace('{"query":"tea"}', '{"n":9007199254740993.0}'),
      ),
    'mcp: an argument named __proto__': () =>
      call(toolCall().replace('{"query":', '{"__proto__":{"admin":true},"query":')),
    'mcp: a number beyond 2^53': () =>
      signed(
        mcpBundle({ tool: 'search', n: 9007199254740992 }),
        toolCall().replace('{"query":"tea"}', '{"n":9007199254740993}'),
      ),
    'http: a number beyond 2^53': () =>
      signed(mcpBundle({ tool: 'search', n: 9007199254740992 }), '{"tool":"search","n":9007199254740993}'),
    'a2a: a number beyond 2^53': () =>
      signed(
        a2aBundle({ tool: 'SendMessage', n: 9007199254740992 }),
        a2aCall().replace(/"n":1/, '"n":9007199254740993'),
      ),
    'mcp: a number beyond every double': () => call(toolCall().replace('"tea"', '1e400')),
    'mcp: a lone surrogate': () => call(toolCall().replace('tea', '\\ud800')),
    'mcp: arguments nested 70 deep': () => call(toolCall().replace('"tea"', nested(70))),
    'http: 1 MB of nested arrays': () => call(nested(500_000)),
    'http: another body': () => call('{"tool":"search"}'),
    'http: a member twice': () => call(httpCall.replace('{', '{"tool":"fetch",')),
    'http: no body': () => call(''),
    'http: a body behind the body': () => call(`${httpCall}${httpCall}`),
    'a2a: another parameter': () => callA2a(a2aCall({ params: { n: 2 } })),
  }),
  ...group([413, 'BODY_TOO_LARGE'], {
    'mcp: 1 MB of nested arrays': () => call(toolCall().replace('"tea"', nested(500_000))),
    'mcp: 1 MB of members': () => call(toolCall().replace('"tea"', `[${'{},'.repeat(300_000)}0]`)),
  }),

  // The bytes
  ...only(BYTES, [403, 'BINDING_MISMATCH'], {
    'mcp: UTF-16 that says so': () =>
      call(Buffer.from(toolCall(), 'utf16le'), type('application/json; charset=utf-16')),
    'mcp: UTF-16 with its mark': () => call(Buffer.from(`\ufeff${toolCall()}`, 'utf16le')),
    'mcp: a gzip body': () => call(gzipSync(toolCall()), ['Content-Encoding', 'gzip']),
    'http: UTF-16 that says so': () =>
      call(Buffer.from(httpCall, 'utf16le'), type('application/json; charset=utf-16')),
    'http: a gzip body': () => call(gzipSync(httpCall), ['Content-Encoding', 'gzip']),
    'a2a: a gzip body': () => callA2a(gzipSync(a2aCall()), ['Content-Encoding', 'gzip']),
    'mcp: a plain body that says it is brotli': () => call(toolCall(), ['Content-Encoding', 'br']),
    'mcp: a form': () => call(toolCall(), type('application/x-www-form-urlencoded')),
    'mcp: a gzip body that does not say so': () => call(gzipSync(toolCall())),
    'mcp: two types': () => call(toolCall(), type('application/json, text/plain')),
    'mcp: a plain text': () => call(toolCall(), type('text/plain')),
  }),
  ...only(BYTES, [400, 'INVALID_JSONRPC'], {
    'mcp: UTF-16 that does not say so': () => call(Buffer.from(toolCall(), 'utf16le')),
  }),
  ...group([400, 'INVALID_JSONRPC'], {
    'mcp: a byte order mark': () => call(`\ufeff${toolCall()}`),
    'mcp: no body': () => call(''),
  }),
  ...group([403, 'BINDING_MISMATCH'], {
    'http: a byte order mark': () => call(`\ufeff${httpCall}`),
  }),
  ...only(BYTES, [403, 'MISSING_BUNDLE'], {
    'mcp: a compressed message that is no call': () =>
      unsigned(gzipSync('{"jsonrpc":"2.0","id":1,"method":"tools/list"}'), ['Content-Encoding', 'gzip']),
  }),
  ...only(['middleware', 'proxy', 'grpc'], [413, 'BODY_TOO_LARGE'], {
    'mcp: more than the limit': () => call(toolCall().replace('tea', 'x'.repeat(1_048_576))),
    'a2a: more than the limit': () => callA2a(a2aCall({ params: { n: 'x'.repeat(1_048_576) } })),
    'http: more than the limit': () => call(JSON.stringify('x'.repeat(1_048_576))),
  }),
  ...only(GATEWAYS, [413, 'BODY_TOO_LARGE'], {
    'mcp: a part of a body, as Envoy says': () => call(toolCall(), ['x-envoy-auth-partial-body', 'true']),
    'http: a part of a body, as Envoy says': () => call(httpCall, ['x-envoy-auth-partial-body', 'true']),
    'a2a: a part of a body, as Envoy says': () => callA2a(a2aCall(), ['x-envoy-auth-partial-body', 'true']),
  }),
  ...only(GRPC, [413, 'BODY_TOO_LARGE'], {
    // What a connection cuts off is in test/e2e/gate-bodies.test.ts.
    'mcp: less of a body than its Content-Length says': () => call(toolCall(), ['Content-Length', '1000']),
    'http: less of a body than its Content-Length says': () => call(httpCall, ['Content-Length', '1000']),
    'a2a: no body, in spite of its Content-Length': () => ({
      headers: [
        [BUNDLE, a2aBundle()],
        ['Content-Length', '90'],
      ],
    }),
  }),
  // Servers know more names of a charset (RFC 2231), and read UTF-7: this is another tool there.
  ...[
    'charset*0=utf-7',
    "charset*=utf-8''utf-7",
    'charset="utf-8";charset*0=utf-7',
    'a=b',
    'charset=\u00a0utf-8',
  ].flatMap((parameter) => {
    const query = 'tea+ACIALAAi-tool+ACIAOgAi-delete';
    const sent = type(`application/json;${parameter}`);
    const by: { by?: readonly Transport[] } = parameter.includes('\u00a0')
      ? { by: ['pure', 'v1', 'middleware', 'grpc'] }
      : {};
    return [
      http(
        `JSON with the parameter ${parameter}`,
        () => signed(mcpBundle({ tool: 'search', query }), JSON.stringify({ tool: 'search', query }), sent),
        [403, 'BINDING_MISMATCH'],
        by,
      ),
      mcp(
        `JSON with the parameter ${parameter}`,
        () => signed(mcpBundle({ tool: 'search', query }), toolCall({ arguments: { query } }), sent),
        [403, 'BINDING_MISMATCH'],
        {
          by: ['pure', 'v1', 'proxy', 'grpc'].filter(
            (way) => by.by?.includes(way as Transport) ?? true,
          ) as Transport[],
        },
      ),
      a2a(
        `JSON with the parameter ${parameter}`,
        () => callA2a(a2aCall(), sent),
        [403, 'BINDING_MISMATCH'],
        by,
      ),
    ];
  }),

  ...only(WIRED, [403, 'MISSING_BUNDLE'], {
    'mcp: no bundle, in chunks without a length': () => ({ ...unsigned(toolCall()), isChunked: true }),
  }),
  ...only(WIRED, [403, 'BINDING_MISMATCH'], {
    'mcp: another argument, in chunks without a length': () => ({
      ...call(toolCall({ arguments: { query: 'coffee' } })),
      isChunked: true,
    }),
    'http: another body, in chunks without a length': () => ({
      ...call('{"tool":"search"}'),
      isChunked: true,
    }),
    'a2a: another parameter, in chunks without a length': () => ({
      ...callA2a(a2aCall({ params: { n: 2 } })),
      isChunked: true,
    }),
  }),
  ...only(PROXY, [405, 'METHOD_NOT_ALLOWED'], {
    'mcp: a call in chunks that a header calls a GET': () => ({
      ...unsigned(toolCall(), ['X-Forwarded-Method', 'GET']),
      isChunked: true,
    }),
  }),
  ...only(['middleware', 'proxy'], [413, 'BODY_TOO_LARGE'], {
    'mcp: more than the limit, in chunks without a length': () => ({
      ...call(toolCall().replace('tea', 'x'.repeat(1_048_576))),
      isChunked: true,
    }),
  }),
  ...group(
    [409, 'REPLAY_DETECTED'],
    { 'mcp: a replay in chunks without a length': () => ({ ...call(), isChunked: true }) },
    { by: WIRED, twice: true },
  ),

  // The method
  ...group([405, 'METHOD_NOT_ALLOWED'], {
    'mcp: PUT': () => ({ ...call(), method: 'PUT' }),
    'mcp: PATCH': () => ({ ...call(), method: 'PATCH' }),
    'a2a: PUT': () => ({ ...callA2a(), method: 'PUT' }),
  }),
  ...only(GATEWAYS, [405, 'METHOD_NOT_ALLOWED'], {
    'mcp: a call that a header calls a GET': () => unsigned(toolCall(), ['X-Forwarded-Method', 'GET']),
    'mcp: a call that another header calls a HEAD': () => unsigned(toolCall(), ['X-Original-Method', 'HEAD']),
    'mcp: two headers that differ': () =>
      unsigned('', ['X-Forwarded-Method', 'GET'], ['X-Original-Method', 'POST']),
    'mcp: one header with two methods': () => ({
      method: 'GET',
      headers: [['X-Forwarded-Method', 'GET, POST']],
    }),
    'mcp: one header twice': () => ({
      method: 'GET',
      headers: [
        ['X-Forwarded-Method', 'GET'],
        ['X-Forwarded-Method', 'POST'],
      ],
    }),
    'mcp: a method in small letters': () => ({ method: 'GET', headers: [['X-Forwarded-Method', 'get']] }),
    'mcp: a GET that asks to be a POST': () => ({
      ...unsigned(toolCall(), ['X-HTTP-Method-Override', 'POST']),
      method: 'GET',
    }),
    'a2a: a GET that asks to be a POST': () => ({
      ...unsigned(a2aCall(), ['X-Method-Override', 'POST']),
      method: 'GET',
    }),
  }),
  ...only(PROXY, [400, 'INVALID_JSONRPC'], {
    'mcp: a GET that stands for a POST without a body': () => ({
      method: 'GET',
      headers: [
        ['X-Forwarded-Method', 'POST'],
        [BUNDLE, mcpBundle()],
      ],
    }),
  }),
  // A server could find a call in it.
  ...(['GET', 'DELETE', 'OPTIONS'] as const).flatMap((method) =>
    [unsigned(toolCall()), call(), unsigned(' '), unsigned('', type('text/plain'))].map((attempt, at) =>
      mcp(
        `${method} with a body, or a type of one: ${at}`,
        () => ({
          ...attempt,
          headers: [...(attempt.headers ?? []), ['Accept', 'text/event-stream']],
          method,
        }),
        [405, 'METHOD_NOT_ALLOWED'],
        // The length of what this client sends with OPTIONS and DELETE is not known, and agentgateway has its own method.
        { by: ['pure', 'v1', 'proxy', 'grpc'] },
      ),
    ),
  ),
  ...(['OPTIONS', 'GET'] as const).map((method) =>
    a2a(`${method} with a body`, () => ({ method, at: '/.well-known/agent-card.json', body: a2aCall() }), [
      405,
      'METHOD_NOT_ALLOWED',
    ]),
  ),
  ...['get', 'post', 'Post'].flatMap((method) => [
    mcp(`the method ${method}`, () => ({ ...call(), method }), [405, 'METHOD_NOT_ALLOWED'], {
      by: ['pure', 'v1', 'grpc'],
    }),
    a2a(`the method ${method}`, () => ({ ...callA2a(), method }), [405, 'METHOD_NOT_ALLOWED'], {
      by: ['pure', 'v1', 'grpc'],
    }),
  ]),

  // Path and query that nobody has signed
  ...group([400, 'RESERVED_ARGUMENT'], {
    'a2a: a call over REST for a tenant, over JSON-RPC without it': () =>
      signed(
        restBundle('SendMessage', { ...sent, path: '/rest/tenant-7' }),
        a2aCall({ params: { ...sent, path: '/rest/tenant-7' } }),
      ),
    'mcp: a prompt whose argument is named prompt': () =>
      signed(
        requestBundle('prompts/get', { prompt: 'letter' }),
        mcpRequest('prompts/get', { name: 'order', arguments: { prompt: 'letter' } }),
      ),
  }),
  ...group([405, 'METHOD_NOT_ALLOWED'], {
    'mcp: what is beside OAuth metadata': () =>
      bare('GET', '/.well-known/oauth-protected-resources', ['Accept', '*/*']),
    'mcp: a GET that is no event stream': () => ({ method: 'GET', headers: [['Accept', '*/*']] }),
    'mcp: a GET of another stream': () => ({
      method: 'GET',
      headers: [['Accept', 'text/event-streams, x/text;a="text/event-stream"']],
    }),
  }),
  ...only(HEADLESS, [405, 'METHOD_NOT_ALLOWED'], {
    'mcp: a HEAD that is no event stream': () => ({ method: 'HEAD', headers: [['Accept', '*/*']] }),
  }),
  ...group('pass', {
    'mcp: OAuth metadata': () => bare('GET', '/.well-known/oauth-protected-resource/mcp'),
    'mcp: the event stream': () => ({
      method: 'GET',
      headers: [['Accept', 'application/json, Text/Event-Stream;q=0.9']],
    }),
    'mcp: a GET that says nothing': () => ({ method: 'GET' }),
    'mcp: the end of a session': () => ({ method: 'DELETE' }),
    'mcp: OPTIONS': () => ({ method: 'OPTIONS' }),
    'mcp: a message that is no call, with context headers': () =>
      unsigned('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', ...SPOOFED),
  }),
  ...group([401, 'MISSING_BUNDLE'], {
    'http: GET without a bundle': () => ({ method: 'GET' }),
    'http: OPTIONS': () => ({ method: 'OPTIONS' }),
  }),
  ...group([403, 'BINDING_MISMATCH'], {
    'http: GET with a bundle and without a body': () => ({ ...call(''), method: 'GET' }),
    'mcp: a prompt of another name': () =>
      signed(
        requestBundle('prompts/get', { prompt: 'letter' }),
        mcpRequest('prompts/get', { name: 'order' }),
      ),
  }),
  ...group([403, 'UNKNOWN_METHOD'], {
    'mcp: tools/call with a space, which is another method': () =>
      unsigned(toolCall({}, { method: 'tools/call ' })),
    'mcp: tools/call in capitals': () => unsigned(toolCall({}, { method: 'Tools/Call' })),
    'mcp: a method of an extension that nobody has allowed': () =>
      unsigned('{"jsonrpc":"2.0","id":1,"method":"acme/delete","params":{"all":true}}'),
    'mcp: a request that only servers send': () =>
      unsigned(mcpRequest('sampling/createMessage', { messages: [] })),
  }),
  ...group([400, 'INVALID_JSONRPC'], {
    'mcp: what a server might act on beside a harmless method': () =>
      unsigned('{"jsonrpc":"2.0","id":1,"method":"ping","role":"admin"}'),
    'mcp: a result beside a method': () => unsigned('{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}'),
  }),
  ...group([403, 'POLICY_VIOLATION'], {
    'mcp: resources/read of a resource outside the policy': () =>
      signed(
        requestBundle('resources/read', { resource_uri: 'file:///etc/passwd' }),
        mcpRequest('resources/read', { uri: 'file:///etc/passwd' }),
      ),
  }),
  ...group([403, 'COMMAND_MISMATCH'], {
    'mcp: resources/read with the bundle of a tool call': () =>
      call(mcpRequest('resources/read', { uri: 'file:///a/b' })),
    'mcp: tools/call of a tool that is named as a method, with the bundle of that method': () =>
      signed(
        requestBundle('resources/read', { resource_uri: 'file:///a/b' }),
        toolCall({ name: 'resources/read', arguments: { resource_uri: 'file:///a/b' } }),
      ),
    'mcp: tasks/cancel with the bundle of tasks/get': () =>
      signed(requestBundle('tasks/get', { task: 't' }), mcpRequest('tasks/cancel', { taskId: 't' })),
  }),
  ...group([400, 'HEADER_MISMATCH'], {
    'mcp: Mcp-Name of another resource': () =>
      signed(
        requestBundle('resources/read', { resource_uri: 'file:///a/b' }),
        mcpRequest('resources/read', { uri: 'file:///a/b' }),
        ['Mcp-Name', 'file:///a/c'],
      ),
  }),
  ...group([400, 'INVALID_TOOL_CALL'], {
    'mcp: a notification of resources/read': () =>
      signed(
        requestBundle('resources/read', { resource_uri: 'file:///a/b' }),
        JSON.stringify({ jsonrpc: '2.0', method: 'resources/read', params: { uri: 'file:///a/b' } }),
      ),
    'mcp: a call whose answer would go into a task of another': () =>
      call(toolCall({ _meta: { 'io.modelcontextprotocol/related-task': { taskId: 't' } } })),
    'mcp: a parameter that MCP does not have': () => call(toolCall({ role: 'admin' })),
  }),
  ...['/mcp?admin=1', '/mcp?', '/mcp%3Fadmin=1', '/mcp#x', '/mcp;x', '/mcp%2fadmin'].flatMap((path) => {
    // This client does not send a fragment.
    const by: readonly Transport[] = path.includes('#')
      ? ['pure', 'v1', 'grpc']
      : ['pure', 'v1', 'proxy', 'grpc'];
    return [
      mcp(`a signed call at ${path}`, () => ({ ...call(), at: path }), [400, 'INVALID_PATH'], { by }),
      mcp(`what passes, at ${path}`, () => ({ method: 'DELETE', at: path }), [400, 'INVALID_PATH'], { by }),
    ];
  }),
  ...['/a2a?tenant=8', '/a2a?', '/?x'].map((path) =>
    a2a(
      `JSON-RPC with a query: ${path}`,
      () => ({ ...withBundle(a2aBundle(), 'POST', path), body: a2aCall() }),
      [400, 'INVALID_PATH'],
    ),
  ),
  // Also where it is the whole path: the application then runs what it has at its root.
  ...['Script-Name', 'X-Script-Name', 'Path-Info'].flatMap((name) => [
    mcp(`${name}, the path`, () => call(toolCall(), [name, '/mcp']), [405, 'METHOD_NOT_ALLOWED']),
    http(`${name}, the path`, () => call(httpCall, [name, '/tools/search']), [405, 'METHOD_NOT_ALLOWED']),
    a2a(
      `${name} of the card`,
      () => bare('GET', '/.well-known/agent.json', [name, '/.well-known/agent.json']),
      [405, 'METHOD_NOT_ALLOWED'],
    ),
  ]),
  ...['X-Original-URL', 'X-Rewrite-Url'].flatMap((name) => [
    mcp(`${name} of another path`, () => call(toolCall(), [name, '/admin']), [405, 'METHOD_NOT_ALLOWED']),
    http(`${name} of another path`, () => call(httpCall, [name, '/admin']), [405, 'METHOD_NOT_ALLOWED']),
    a2a(`${name} of another path`, () => callA2a(a2aCall(), [name, '/tasks']), [405, 'METHOD_NOT_ALLOWED']),
    mcp(
      `${name} of another path, in what passes`,
      () => ({ method: 'DELETE', headers: [[name, '/admin']] }),
      [405, 'METHOD_NOT_ALLOWED'],
    ),
    a2a(
      `${name} of the card`,
      () => bare('GET', '/.well-known/agent.json', [name, '/.well-known/agent.json']),
      'pass',
    ),
  ]),
  // Some letters outside ASCII have an ASCII capital, others an ASCII small letter.
  ...['NAME', 'argument\u017f', 'tas\u212a', 'cursor', 'constructor', '__proto__'].map((name) =>
    mcp(
      `a parameter ${JSON.stringify(name)}, which MCP does not have`,
      () => call(toolCall().replace('"name"', `${JSON.stringify(name)}:"fetch","name"`)),
      [400, 'INVALID_TOOL_CALL'],
    ),
  ),
  // Other methods than tools/call
  ...(
    [
      ['resources/read', { uri: 'file:///a/b' }],
      ['resources/subscribe', { uri: 'file:///a/b' }],
      ['subscriptions/listen', { notifications: { resourceSubscriptions: ['file:///a/b'] } }],
      ['subscriptions/listen', { notifications: { tasks: ['t'] } }],
      ['prompts/get', { name: 'letter' }],
      ['completion/complete', { ref: { type: 'ref/prompt', name: 'letter' }, argument: { name: 'a' } }],
      ['tasks/get', { taskId: 't' }],
      ['tasks/result', { taskId: 't' }],
      ['tasks/cancel', { taskId: 't' }],
      ['tasks/update', { taskId: 't', inputResponses: {} }],
    ] as const
  ).map(([method, params]) =>
    mcp(`${method} without a bundle: ${JSON.stringify(params)}`, () => unsigned(mcpRequest(method, params)), [
      403,
      'MISSING_BUNDLE',
    ]),
  ),
  ...(
    [
      ['a resource that was not signed', { uri: 'file:///a/c' }, [403, 'BINDING_MISMATCH']],
      ['a task id beside the URI', { uri: 'file:///a/b', taskId: 't' }, [400, 'INVALID_TOOL_CALL']],
      ['URI beside uri', { uri: 'file:///a/b', URI: 'file:///etc' }, [400, 'INVALID_TOOL_CALL']],
      [
        'an answer to the server that was not signed',
        { uri: 'file:///a/b', inputResponses: { ok: { action: 'accept' } } },
        [403, 'BINDING_MISMATCH'],
      ],
      [
        'a state that was not signed',
        { uri: 'file:///a/b', requestState: 'admin' },
        [403, 'BINDING_MISMATCH'],
      ],
    ] as const
  ).map(([name, params, outcome]) =>
    mcp(
      `resources/read with ${name}`,
      () =>
        signed(
          requestBundle('resources/read', { resource_uri: 'file:///a/b' }),
          mcpRequest('resources/read', params),
        ),
      outcome,
    ),
  ),

  // A2A over REST
  ...group([403, 'COMMAND_MISMATCH'], {
    'REST: a bundle for GetTask over JSON-RPC, with a message beside': () =>
      withBundle(restBundle('GetTask', { id: '1' }), 'POST', '/rest/message:send', {
        ...{ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: '1' } },
        ...sent,
      }),
    'REST: a bundle for reading settings that deletes them': () =>
      withBundle(
        restBundle('GetTaskPushNotificationConfig', { taskId: '1', id: '2' }),
        'DELETE',
        '/tasks/1/pushNotificationConfigs/2',
      ),
  }),
  ...group([403, 'BINDING_MISMATCH'], {
    'REST: a signed message of JSON-RPC': () =>
      withBundle(a2aBundle(), 'POST', '/message:send', JSON.parse(a2aCall()) as object),
    'REST: another task': () => withBundle(restBundle('GetTask', { id: '1' }), 'GET', '/tasks/2'),
    'REST: another tenant': () =>
      withBundle(restBundle('GetTask', { id: '1', path: '/a' }), 'GET', '/b/tasks/1'),
    'REST: a tenant where none was signed': () =>
      withBundle(restBundle('GetTask', { id: '1' }), 'GET', '/b/tasks/1'),
    'REST: a parameter more': () => withBundle(restBundle('ListTasks'), 'GET', '/tasks?tenant=b'),
    'REST: a parameter less': () =>
      withBundle(restBundle('GetTask', { id: '1', historyLength: '1' }), 'GET', '/tasks/1'),
    'REST: a number for the string of the query': () =>
      withBundle(restBundle('GetTask', { id: '1', historyLength: 1 }), 'GET', '/tasks/1?historyLength=1'),
    'REST: a body that was not signed': () =>
      withBundle(restBundle('CancelTask', { id: '1' }), 'POST', '/tasks/1:cancel', { metadata: {} }),
    'REST: a body on GET': () =>
      withBundle(restBundle('GetTask', { id: '1' }), 'GET', '/tasks/1', { tenant: 'b' }),
    'REST: a body that is no JSON': () => ({
      ...withBundle(restBundle('SendMessage', sent), 'POST', '/message:send'),
      body: 'message=hello',
    }),
  }),
  ...only(['pure', 'v1', 'proxy', 'grpc'], [403, 'BINDING_MISMATCH'], {
    // The others know that there is none.
    'REST: no body, where one must be': () => withBundle(restBundle('SendMessage'), 'POST', '/message:send'),
  }),
  ...only(['pure', 'middleware', 'v1', 'proxy', 'grpc'], [403, 'BINDING_MISMATCH'], {
    'REST: a member twice': () => ({
      ...withBundle(restBundle('SendMessage', { a: 2 }), 'POST', '/message:send'),
      body: '{"a":1,"a":2}',
    }),
  }),
  ...group([400, 'INVALID_PARAMS'], {
    'REST: a body in an array': () =>
      withBundle(restBundle('SendMessage', sent), 'POST', '/message:send', [sent]),
    'REST: a parameter twice': () =>
      withBundle(restBundle('ListTasks'), 'GET', '/tasks?pageSize=1&pageSize=1'),
    'REST: a list in the query': () => withBundle(restBundle('ListTasks'), 'GET', '/tasks?status[]=1'),
    'REST: a query that is not UTF-8': () =>
      withBundle(restBundle('ListTasks'), 'GET', '/tasks?pageToken=%ff'),
  }),
  ...group([400, 'RESERVED_ARGUMENT'], {
    'REST: another task in the body': () =>
      withBundle(restBundle('CancelTask', { id: '1' }), 'POST', '/tasks/1:cancel', { id: '2' }),
    'REST: another task in the query': () =>
      withBundle(restBundle('CancelTask', { id: '1' }), 'POST', '/tasks/1:cancel?id=2'),
    'REST: tool in the query': () => withBundle(restBundle('ListTasks'), 'GET', '/tasks?tool=GetTask'),
    'REST: tool in the body': () =>
      withBundle(restBundle('SendMessage', sent), 'POST', '/message:send', { ...sent, tool: 'GetTask' }),
    'REST: path in the body': () =>
      withBundle(restBundle('SendMessage', { path: '/b' }), 'POST', '/message:send', { path: '/b' }),
  }),
  ...group(
    [409, 'REPLAY_DETECTED'],
    {
      'REST: a replay': () =>
        withBundle(restBundle('GetTask', { id: '1', path: '/rest' }), 'GET', '/rest/tasks/1'),
    },
    { twice: true },
  ),
  ...only(['middleware', 'proxy', 'grpc'], [413, 'BODY_TOO_LARGE'], {
    'REST: more than the limit': () =>
      withBundle(restBundle('SendMessage'), 'POST', '/message:send', { n: 'x'.repeat(1_048_576) }),
  }),
  ...only(HEADLESS, [405, 'METHOD_NOT_ALLOWED'], {
    'a2a: a HEAD of the tasks': () => bare('HEAD', '/tasks'),
  }),
  ...only(['pure', 'proxy', 'grpc'], [400, 'INVALID_PATH'], {
    'a2a: a path that nobody says': () => ({ ...withBundle(a2aBundle(), 'POST', ''), body: a2aCall() }),
  }),
  ...only(GATEWAYS, [400, 'INVALID_PATH'], {
    'a2a: a path in a header beside another one': () =>
      bare('GET', '/tasks', ['X-Original-Uri', '/.well-known/agent-card.json']),
  }),
  ...only(['pure', 'v1', 'grpc'], [400, 'INVALID_PATH'], {
    'a2a: a path that is a URL': () => bare('GET', 'http://a.example/.well-known/agent.json'),
  }),
  ...group('pass', {
    'a2a: the head of the agent card': () => bare('HEAD', '/.well-known/agent-card.json'),
    'a2a: OPTIONS': () => bare('OPTIONS', '/rest/tasks'),
  }),
  ...only(GATEWAYS, 'pass', {
    'a2a: a path in a header alone': () =>
      bare('GET', '', ['X-Forwarded-Uri', '/.well-known/agent-card.json']),
  }),
  ...[
    ...['GET /rest/tasks', 'GET /tasks?contextId=c', 'GET /rest/tasks/1', 'GET /tasks/1:subscribe'],
    ...['POST /v1/tasks/1:subscribe', 'POST /tasks/1:cancel', 'POST /message:stream'],
    ...['POST /rest/tasks/1/pushNotificationConfigs', 'GET /rest/tasks/1/pushNotificationConfigs'],
    'GET /rest/tasks/1/pushNotificationConfigs/2',
    ...['DELETE /rest/tasks/1/pushNotificationConfigs/2', 'GET /tenant/extendedAgentCard'],
    'GET /v1/card',
  ]
    .map((line) => line.split(' ') as [string, string])
    .map(([method, path]) =>
      rest(`no bundle: ${method} ${path}`, () => bare(method, path), [403, 'MISSING_BUNDLE']),
    ),
  // What the table of the specification does not have.
  ...[
    ...['GET /', 'GET /a2a?tasks', 'GET /rest/task', 'DELETE /a2a', 'DELETE /tasks/1', 'PUT /tasks/1'],
    ...['PATCH /tasks/1/pushNotificationConfigs/2', 'GET /message:send', 'POST /tasks'],
    ...['POST /tasks/1', 'POST /rest/tasks/1:pause', 'GET /rest/tasks/1:cancel'],
    ...['POST /message:delete', 'POST /rest/MESSAGE:SEND', 'POST /rest/message%3Asend'],
    ...['POST /rest/%6dessage:send', 'POST /rest/message:send/', 'POST /rest/message:send.json'],
    ...['POST /TASKS/1:cancel', 'POST /tasks/1:CANCEL', 'POST /tasks/1%3Acancel'],
    ...['POST /tasks/1:cancel/', 'POST /tasks/:cancel', 'POST /%74asks/1:cancel'],
    ...['POST /tas%E2%84%AAs/1:cancel', 'GET /tasks/', 'GET /tasks/1/', 'GET /tasks/tasks'],
    ...['GET /tasks/pushNotificationConfigs', 'GET /tasks/1/pushnotificationconfigs'],
    ...['GET /tasks/urn%3Auuid%3A1', 'POST /tasks/message:send', 'POST /tasks/a2a'],
    ...['GET /.well-known/agent-card.json?x=1', 'GET /.well-known/agent-card.json/'],
    ...['GET /.well-known/AGENT-CARD.json', 'GET /x.well-known/agent.json'],
    'DELETE /.well-known/agent-card.json',
  ]
    .map((line) => line.split(' ') as [string, string])
    .map(([method, path]) =>
      a2a(
        `not in the table: ${method} ${path}`,
        () => ({ ...withBundle(a2aBundle(), method, path), body: method === 'GET' ? '' : a2aCall() }),
        [405, 'METHOD_NOT_ALLOWED'],
      ),
    ),
  ...[
    ...['/rest//message:send', '/message:send;v=1', '/tasks;x/1:cancel', '/tasks/1%2Fx:cancel'],
    ...['/tasks/1%5Cx:cancel', '/tasks/1%252Fx:cancel', '/tasks/1%00:cancel', '/tasks/1%ff:cancel'],
    ...['/tasks/1%:cancel', '/tasks/1%3Bx:cancel', '/a2a%3Fx', '/a2a%23x', '/a2a"', '/a2a|'],
  ].map((path) =>
    a2a(`read in two ways: ${path}`, () => ({ ...withBundle(a2aBundle(), 'POST', path), body: a2aCall() }), [
      400,
      'INVALID_PATH',
    ]),
  ),
  ...['/rest/../message:send', '/rest/%2e%2E/message:send', '/a2a/.'].map((path) =>
    a2a(
      `dots: ${path}`,
      () => ({ ...withBundle(a2aBundle(), 'POST', path), body: a2aCall() }),
      [400, 'INVALID_PATH'],
      // /gate/* answers 404.
      { by: ['pure', 'middleware', 'v1', 'grpc'] },
    ),
  ),
  ...['/.well-known/agent-card.json', '/agents/7/.well-known/agent.json'].map((path) =>
    a2a(`the agent card ${path}`, () => bare('GET', path), 'pass'),
  ),

  // The path
  ...[
    ...['/gate/mcp/../http', '/gate/http/../mcp', '/gate/mcp/..', '/gate/mcp/./x', '/gate/./mcp'],
    ...['//gate/mcp', '/gate//mcp', '/gate%2fmcp', '/gate/mcp%2f..%2fhttp', '/gate/mcp/..%2fhttp'],
    ...['/gate/mcp/%2e%2E/http', '/gate/mcp/.%2e%5chttp', '/gate/mcp/..\\http', '/gate/MCP'],
    ...['/GATE/mcp', '/gate/mcpx', '/gate/mcp;x', '/gate/', '/gate', '/v1/gate/'],
    ...['/gate/chain', '/gate/mc', '/x/gate/mcp', '/date/mcp', '/gate/mcp/\\..\\..\\http'],
  ].map(at),

  // The connection
  ...only(DOORS, 'pass', {
    'mcp: a connection that stays': () => ({
      method: 'GET',
      headers: [
        ['Connection', ' Keep-Alive , ,'],
        ['Accept', 'text/event-stream'],
      ],
    }),
  }),
  ...(
    [
      ['Upgrade', 'websocket'],
      ['Upgrade', 'h2c'],
      ['Connection', 'X-DRS-Bundle'],
      ['Connection', 'keep-alive, X-DRS-Context'],
      ['Connection', 'Upgrade'],
    ] as const
  ).flatMap(([name, value]) => [
    mcp(`${name}: ${value}`, () => call(toolCall(), [name, value]), HOP, { by: DOORS }),
    mcp(`${name}: ${value}, with GET`, () => ({ method: 'GET', headers: [[name, value]] }), HOP, {
      by: DOORS,
    }),
    http(`${name}: ${value}`, () => call(httpCall, [name, value]), HOP, { by: DOORS }),
    a2a(`${name}: ${value}`, () => callA2a(a2aCall(), [name, value]), HOP, { by: DOORS }),
  ]),

  // Again
  ...group(
    [409, 'REPLAY_DETECTED'],
    {
      'mcp: a replay': () => call(),
      'http: a replay': () => call(httpCall),
      'a2a: a replay': () => callA2a(),
      'mcp: a replay with another id': () => call(toolCall({}, { id: 'x' })),
    },
    { twice: true },
  ),
  ...group([409, 'INVOCATION_STALE'], {
    'mcp: a stale invocation': () => signed(mcpBundle(search, { iat: now() - 901 }), toolCall()),
    'mcp: an invocation from the future': () => signed(mcpBundle(search, { iat: now() + 120 }), toolCall()),
  }),
];
