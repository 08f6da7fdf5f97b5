import * as v2 from '@modelcontextprotocol/core';
import * as v1 from '@modelcontextprotocol/sdk/types.js';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { findBundle } from '../../src/gate/carriers.js';
import {
  headersOf,
  isPassMethod,
  openMcp,
  RPC_ERROR_CODE,
  type McpRules,
  type RequestBody,
} from '../../src/gate/index.js';
import { encode, liveCall } from '../middleware/call.js';
import type { Overrides } from '../support/chain.js';
import { mcpChain as chain, newGate, verifier, type Asked } from './decide.js';

afterAll(() => verifier.close());

/** What clients send, as the SDKs of both generations declare it. */
const SDK_METHODS = [v1.ClientRequestSchema, v1.ClientNotificationSchema, v2.ClientRequestSchema]
  .concat([
    v2.ClientNotificationSchema,
    v2.DiscoverRequestSchema,
    v2.SubscriptionsListenRequestSchema,
  ] as never)
  .flatMap((schema) => ('options' in schema ? [...schema.options] : [schema]))
  .map((schema) => (schema as { shape: { method: { value: string } } }).shape.method.value)
  .filter((method, at, all) => method !== 'tools/call' && all.indexOf(method) === at);

const search = { tool: 'search', query: 'tea' };
const bundleOf = (args: object = search, overrides: Overrides = {}) =>
  encode(liveCall(chain, args, overrides));
const message = (members: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'search', arguments: { query: 'tea' } },
  ...members,
});
const text = (members: object = {}) => JSON.stringify(message(members));
const open = (body: string, headers: Record<string, string> = {}, rules: McpRules = {}) =>
  openMcp(
    { method: 'POST', path: null, headers: headersOf(headers), body: { kind: 'text', text: body } },
    rules,
  );
const call = (bundle = bundleOf(), more: Partial<Asked> = {}): Asked => ({
  headers: { 'X-DRS-Bundle': bundle },
  body: text(),
  ...more,
});
const withMeta = (meta: object, headers = {}): Asked => ({
  headers,
  body: text({ params: { ...message().params, _meta: meta } }),
});

describe('a tool call', () => {
  it.each<[string, (bundle: string) => Asked]>([
    ['in the header', (bundle) => call(bundle)],
    ['in the header, in capitals', (bundle) => call(bundle, { headers: { 'X-DRS-BUNDLE': [bundle] } })],
    ['in _meta', (bundle) => withMeta({ 'X-DRS-Bundle': bundle })],
    ['in _meta under the other name', (bundle) => withMeta({ 'xyz.okeyamy.drs/bundle': bundle })],
    [
      'in all three',
      (bundle) =>
        withMeta({ 'X-DRS-Bundle': bundle, 'xyz.okeyamy.drs/bundle': bundle }, { 'x-drs-bundle': bundle }),
    ],
    ['with padding', (bundle) => call(bundle.padEnd(Math.ceil(bundle.length / 4) * 4, '='))],
    [
      'beside headers that agree',
      (bundle) =>
        call(bundle, {
          headers: { 'X-DRS-Bundle': bundle, 'Mcp-Method': 'tools/call', 'Mcp-Name': 'search' },
        }),
    ],
    [
      'beside a name that is written in base64',
      (bundle) => call(bundle, { headers: { 'X-DRS-Bundle': bundle, 'mcp-name': '=?base64?c2VhcmNo?=' } }),
    ],
  ])('is allowed with its bundle %s', async (_, asked) => {
    expect(await newGate()('mcp', asked(bundleOf()))).toMatchObject({
      decision: 'allow',
      context: { tool: 'search', command: '/mcp/tools/call', agent: chain.parties[2]?.did, binding: 'match' },
    });
  });

  it('is allowed once; a mismatch before it does not use it up', async () => {
    const decide = newGate();
    const bundle = bundleOf();
    const wrong = call(bundle, { body: text({ params: { name: 'search', arguments: {} } }) });
    expect(await decide('mcp', wrong)).toMatchObject({ code: 'BINDING_MISMATCH' });
    expect(await decide('mcp', call(bundle))).toMatchObject({ decision: 'allow' });
    expect(await decide('mcp', call(bundle))).toMatchObject({
      code: 'REPLAY_DETECTED',
      response: { status: 409 },
    });
  });

  it('is allowed with a text for its id', async () => {
    expect(await newGate()('mcp', call(bundleOf(), { body: text({ id: 'a' }) }))).toMatchObject({
      decision: 'allow',
    });
  });

  it('without arguments is bound to its tool alone', async () => {
    const asked = call(bundleOf({ tool: 'search' }), { body: text({ params: { name: 'search' } }) });
    expect(await newGate()('mcp', asked)).toMatchObject({ decision: 'allow' });
  });
});

const two = () => [bundleOf(), bundleOf(search, { jti: 'inv:other' })] as const;
const DENIED: readonly (readonly [string, () => Asked, number, string])[] = [
  ['without a bundle', () => ({ body: text() }), 403, 'MISSING_BUNDLE'],
  ['with an empty header', () => call(''), 400, 'MALFORMED_BUNDLE'],
  ['with what is no base64url', () => call('*'), 400, 'MALFORMED_BUNDLE'],
  ['with JSON', () => call('{"a":1,"b":2}'), 400, 'MALFORMED_BUNDLE'],
  ['with what is no JSON', () => call(encode('{')), 400, 'MALFORMED_BUNDLE'],
  [
    'with a bundle that names its receipts twice',
    () => call(encode('{"a":1,"a":2}')),
    400,
    'MALFORMED_BUNDLE',
  ],
  ['with deep JSON for a bundle', () => call(encode('['.repeat(9999))), 400, 'MALFORMED_BUNDLE'],
  ['with JSON that is no bundle', () => call(encode('[]')), 403, 'MALFORMED_BUNDLE'],
  ['with null in _meta', () => withMeta({ 'X-DRS-Bundle': null }), 400, 'MALFORMED_BUNDLE'],
  ['with an object in _meta', () => withMeta({ 'X-DRS-Bundle': {} }), 400, 'MALFORMED_BUNDLE'],
  [
    'with an object in _meta beside a header',
    () => withMeta({ 'X-DRS-Bundle': {} }, { 'x-drs-bundle': bundleOf() }),
    400,
    'MALFORMED_BUNDLE',
  ],
  ['with two headers', () => call('', { headers: { 'x-drs-bundle': two() } }), 400, 'MULTIPLE_BUNDLES'],
  [
    'with the same header twice',
    () => {
      const bundle = bundleOf();
      return call('', { headers: { 'X-DRS-Bundle': [bundle, bundle] } });
    },
    400,
    'MULTIPLE_BUNDLES',
  ],
  [
    'with headers of one name in two cases',
    () => call('', { headers: { 'X-DRS-Bundle': bundleOf(), 'x-drs-bundle': bundleOf() } }),
    400,
    'MULTIPLE_BUNDLES',
  ],
  ['with two headers joined', () => call(two().join(', ')), 400, 'MULTIPLE_BUNDLES'],
  [
    'with another bundle in _meta',
    () => withMeta({ 'X-DRS-Bundle': two()[0] }, { 'x-drs-bundle': two()[1] }),
    400,
    'MULTIPLE_BUNDLES',
  ],
  ['for another tool', () => call(bundleOf({ tool: 'fetch', query: 'tea' })), 403, 'BINDING_MISMATCH'],
  ['with other arguments', () => call(bundleOf({ ...search, query: 'x' })), 403, 'BINDING_MISMATCH'],
  [
    'with a command below',
    () => call(bundleOf(search, { cmd: '/mcp/tools/call/search' })),
    403,
    'COMMAND_MISMATCH',
  ],
  ['with an old invocation', () => call(bundleOf(search, { iat: 1 })), 409, 'INVOCATION_STALE'],
  [
    'with a header for another method',
    () => call(bundleOf(), { headers: { 'x-drs-bundle': bundleOf(), 'Mcp-Method': 'tools/list' } }),
    400,
    'HEADER_MISMATCH',
  ],
  [
    'with a header for its method and one for another',
    () => call('', { headers: { 'x-drs-bundle': bundleOf(), 'Mcp-Method': ['tools/call', 'tools/list'] } }),
    400,
    'HEADER_MISMATCH',
  ],
  [
    'with a header for another tool',
    () => call(bundleOf(), { headers: { 'x-drs-bundle': bundleOf(), 'Mcp-Name': 'fetch' } }),
    400,
    'HEADER_MISMATCH',
  ],
  [
    'with a header for the tool and one for another',
    () => call(bundleOf(), { headers: { 'x-drs-bundle': bundleOf(), 'Mcp-Name': ['search', 'fetch'] } }),
    400,
    'HEADER_MISMATCH',
  ],
  [
    'with a name in base64 that is none',
    () => call(bundleOf(), { headers: { 'x-drs-bundle': bundleOf(), 'Mcp-Name': '=?base64?*?=' } }),
    400,
    'HEADER_MISMATCH',
  ],
  [
    'without a name, with a name in base64 that is none',
    () => call('', { headers: { 'Mcp-Name': '=?base64?*?=' }, body: text({ params: {} }) }),
    400,
    'HEADER_MISMATCH',
  ],
  [
    'that lists, by its header',
    () => ({ headers: { 'mcp-method': 'tools/call' }, body: text({ method: 'tools/list' }) }),
    400,
    'HEADER_MISMATCH',
  ],
  ['in a batch', () => call(bundleOf(), { body: `[${text()}]` }), 400, 'BATCH_NOT_SUPPORTED'],
  ['in a batch that is empty', () => call(bundleOf(), { body: '[]' }), 400, 'BATCH_NOT_SUPPORTED'],
  [
    'that is a notification',
    () => call(bundleOf(), { body: text({ id: undefined }) }),
    400,
    'INVALID_TOOL_CALL',
  ],
  ['with a null id', () => call(bundleOf(), { body: text({ id: null }) }), 400, 'INVALID_TOOL_CALL'],
  ['without params', () => call(bundleOf(), { body: text({ params: undefined }) }), 400, 'INVALID_TOOL_CALL'],
  [
    'with params in an array',
    () => call(bundleOf(), { body: text({ params: ['search'] }) }),
    400,
    'INVALID_TOOL_CALL',
  ],
  [
    'with a number for a name',
    () => call(bundleOf(), { body: text({ params: { name: 1 } }) }),
    400,
    'INVALID_TOOL_CALL',
  ],
  [
    'with an empty name',
    () => call(bundleOf({ tool: '' }), { body: text({ params: { name: '' } }) }),
    400,
    'INVALID_TOOL_CALL',
  ],
  [
    'with a second name to parsers that ignore case',
    () => call(bundleOf(), { body: text({ params: { ...message().params, Name: 'fetch' } }) }),
    400,
    'INVALID_TOOL_CALL',
  ],
  [
    'with arguments in an array',
    () => call(bundleOf(), { body: text({ params: { name: 'search', arguments: [] } }) }),
    400,
    'INVALID_PARAMS',
  ],
  [
    'with an argument named tool',
    () => call(bundleOf(), { body: text({ params: { name: 'search', arguments: search } }) }),
    400,
    'RESERVED_ARGUMENT',
  ],
  ['that is no JSON', () => call(bundleOf(), { body: 'hello' }), 400, 'INVALID_JSONRPC'],
  ['that is empty', () => call(bundleOf(), { body: '' }), 400, 'INVALID_JSONRPC'],
  ['with a byte order mark', () => call(bundleOf(), { body: `\uFEFF${text()}` }), 400, 'INVALID_JSONRPC'],
  ['of JSON-RPC 1', () => call(bundleOf(), { body: text({ jsonrpc: '1.0' }) }), 400, 'INVALID_JSONRPC'],
  [
    'that names its method twice',
    () => call(bundleOf(), { body: text({ method: 'tools/list' }).replace('{', '{"method":"tools/call",') }),
    400,
    'INVALID_JSONRPC',
  ],
  [
    'that names its method twice, escaped',
    () => call(bundleOf(), { body: text({ method: 'ping' }).replace('{', '{"m\\u0065thod":"tools/call",') }),
    400,
    'INVALID_JSONRPC',
  ],
  [
    'to parsers that ignore case',
    () => ({ body: text({ method: 'tools/list', Method: 'tools/call' }) }),
    400,
    'INVALID_JSONRPC',
  ],
  [
    'to parsers that fold letters',
    () => ({ body: text({ method: 'tools/list', paramſ: {} }) }),
    400,
    'INVALID_JSONRPC',
  ],
  ['with PUT', () => call(bundleOf(), { method: 'PUT' }), 405, 'METHOD_NOT_ALLOWED'],
  ['with a method in small letters', () => call(bundleOf(), { method: 'post' }), 405, 'METHOD_NOT_ALLOWED'],
  [
    'with 1 MB of nested arrays',
    () =>
      call(bundleOf(), {
        body: text({ params: 0 }).replace('"params":0', `"params":${'['.repeat(5e5)}${']'.repeat(5e5)}`),
      }),
    413,
    'BODY_TOO_LARGE',
  ],
  [
    'with a body that was not read to its end',
    () => call(bundleOf(), { read: { kind: 'too large', reason: 'a part' } }),
    413,
    'BODY_TOO_LARGE',
  ],
  [
    'with a compressed body',
    () => call(bundleOf(), { read: { kind: 'unusable', reason: 'gzip' } }),
    403,
    'BINDING_MISMATCH',
  ],
  [
    'with a compressed body and no bundle',
    () => ({ read: { kind: 'unusable', reason: 'gzip' } }),
    403,
    'MISSING_BUNDLE',
  ],
  ...(
    [
      ['a member twice', '{"query":"x","query":"tea"}'],
      ['a member twice, escaped', '{"quer\\u0079":"x","query":"tea"}'],
      ['a lone surrogate', '{"query":"tea","x":"\\ud800"}'],
      ['a number beyond 2^53', '{"query":"tea","n":9007199254740993}'],
      ['a number beyond 2^53 as a fraction', '{"query":"tea","n":9007199254740993.0}'],
      ['a number that overflows', '{"query":"tea","n":1e999}'],
      ['deep arrays', `{"query":"tea","n":${'['.repeat(70)}${']'.repeat(70)}}`],
    ] as const
  ).map(
    ([name, args]) =>
      [
        `with ${name} in its arguments`,
        () => {
          const n = 9007199254740992;
          const signed = name.includes('2^53') ? { ...search, n } : search;
          const body = text({ params: { name: 'search', arguments: 0 } }).replace(
            '"arguments":0',
            `"arguments":${args}`,
          );
          return call(bundleOf(signed), { body });
        },
        403,
        'BINDING_MISMATCH',
      ] as const,
  ),
  [
    'whose number beyond 2^53 was parsed elsewhere',
    () =>
      call(bundleOf({ ...search, n: 2 ** 53 }), {
        read: {
          kind: 'value',
          value: message({ params: { name: 'search', arguments: { query: 'tea', n: 2 ** 53 } } }),
        },
      }),
    403,
    'BINDING_MISMATCH',
  ],
];

describe('a tool call is denied', () => {
  it.each(DENIED)('%s', async (_, asked, status, code) => {
    const decided = await newGate()('mcp', asked());
    expect(decided).toMatchObject({
      decision: 'deny',
      code,
      response: {
        status,
        headers: { 'content-type': 'application/json' },
        body: {
          jsonrpc: '2.0',
          error: {
            code: RPC_ERROR_CODE,
            message: expect.stringMatching(new RegExp(`^DRS: ${code}: .`)) as string,
            data: { code, status },
          },
        },
      },
    });
    if (decided.decision !== 'deny' || !('jsonrpc' in decided.response.body)) return;
    const { data, message: shown } = decided.response.body.error;
    // Many hosts show nothing but the message.
    expect(shown).toBe(`DRS: ${code}: ${data.detail}`);
    expect(data.detail).toEqual(expect.stringMatching(/\S/));
    expect(data.suggestion).toEqual(expect.stringMatching(/\S/));
    expect(JSON.stringify(data).length).toBeLessThan(2000);
  });

  it('with what an agent has to do where it has no bundle', () => {
    const suggestion = (what: string, whom: string) =>
      `Ask the person you act for to delegate ${what} to you under the command /mcp/tools/call. Then sign an ` +
      `invocation of this very call${whom}, and send delegation and invocation as a bundle (drs-verify/mcp: signToolCalls).`;
    expect(open(text(), {}, { serverIdentity: 'https://tools.example' })).toMatchObject({
      failure: {
        message: 'no bundle in params._meta["X-DRS-Bundle"], nor a header of that name',
        suggestion: suggestion('the tool "search"', ' for the tool server "https://tools.example"'),
      },
    });
    expect(open(text({ params: {} }))).toMatchObject({
      failure: { suggestion: suggestion('this tool', '') },
    });
  });

  it.each([
    [{ id: undefined }, 'the tools/call is a notification, which has no answer'],
    [{ id: null }, 'the tools/call has no id that is a string or a number'],
  ])('with the reason, where no answer is possible: %j', (members, message) => {
    expect(open(text(members), { 'X-DRS-Bundle': 'e30' })).toMatchObject({ failure: { message } });
  });
});

it.each([
  [
    '{"bundle_version":"4.0","receipts":["a","b"],"invocation":"c"}',
    'the bundle is JSON, expected that JSON in base64url',
  ],
  ['eyJhIjoxfQ.eyJhIjoxfQ.AAAA', 'this is one receipt (a JWT), expected a bundle'],
])('a bundle that is a common mistake is named: %s', (bundle, says) => {
  const opened = open(text(), { 'X-DRS-Bundle': bundle });
  expect(opened).toMatchObject({
    failure: { code: 'MALFORMED_BUNDLE', message: expect.stringContaining(says) as string },
  });
});

describe('what is no tool call passes', () => {
  it.each<[string, Asked]>([
    ...['DELETE', 'OPTIONS'].map((method): [string, Asked] => [method, { method }]),
    ...['GET', 'HEAD'].map((method): [string, Asked] => [
      `the event stream, with ${method}`,
      { method, headers: { Accept: 'text/event-stream' } },
    ]),
    ['the handshake', { body: text({ method: 'initialize' }) }],
    [
      'a list',
      { body: text({ method: 'tools/list', params: undefined }), headers: { 'Mcp-Method': 'tools/list' } },
    ],
    ['a notification', { body: text({ method: 'notifications/initialized', id: undefined }) }],
    [
      'a list, beside the name of a tool',
      { body: text({ method: 'tools/list' }), headers: { 'Mcp-Name': 'x' } },
    ],
    ['an answer', { body: JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} }) }],
    ['an error', { body: JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } }) }],
    ['a message with a lone surrogate', { body: text({ method: 'ping', params: { x: '\ud800' } }) }],
    [
      'a message with a bundle that is none',
      { body: text({ method: 'ping' }), headers: { 'x-drs-bundle': '*' } },
    ],
  ])('%s', async (_, asked) => {
    expect(await newGate()('mcp', asked)).toEqual({ decision: 'pass' });
  });

  it.each(SDK_METHODS)('%s, which clients of the SDKs send', (method) => {
    expect(open(text({ method, params: {} })).kind).toBe('pass');
  });

  it('and what the operator lets pass, but nothing that is spelt in another way', () => {
    const passMethods = new Set(['acme/search']);
    const kindOf = (method: string) => open(text({ method }), {}, { passMethods }).kind;
    expect(['acme/search', 'acme/Search', 'acme/search ', 'Ping', 'ping/', ''].map(kindOf)).toEqual([
      ...['pass', 'deny', 'deny', 'deny', 'deny', 'deny'],
    ]);
    expect(['acme/search', 'x', 'tools/list'].every(isPassMethod)).toBe(true);
    expect(['tools/call', 'Tools/Call', '', 'a b', 'a,b', 'é', 1, null].some(isPassMethod)).toBe(false);
    // Even if it got there.
    expect(open(text(), {}, { passMethods: new Set(['tools/call']) }).kind).toBe('deny');
  });

  it('but where a tool is not protected, its call does', () => {
    const kindOf = (name: unknown, protect = (tool: string) => tool !== 'help') =>
      open(text({ params: { name } }), {}, { protect }).kind;
    expect([kindOf('help'), kindOf('search'), kindOf('Help')]).toEqual(['pass', 'deny', 'deny']);
    const nothing = () => false;
    expect([kindOf('search', nothing), kindOf(7, nothing)]).toEqual(['pass', 'deny']);
  });
});

describe('an opened message', () => {
  const bundle = { 'X-DRS-Bundle': 'e30' };

  it('tells its protocol, and the tool that a call asks for', () => {
    expect(open(text(), bundle)).toMatchObject({ kind: 'check', protocol: 'mcp', requested: 'search' });
    expect(open(text())).toMatchObject({ kind: 'deny', protocol: 'mcp', requested: 'search' });
    expect(open('{')).toMatchObject({ kind: 'deny', protocol: 'mcp', requested: null });
    expect(open(text({ method: 'ping' }), { 'Mcp-Method': 'x' })).toMatchObject({
      kind: 'deny',
      requested: null,
    });
  });

  it('with a method of HTTP that carries none is refused', () => {
    expect(
      openMcp({ method: 'PUT', path: null, headers: headersOf({}), body: { kind: 'unread' } }),
    ).toMatchObject({
      failure: { code: 'METHOD_NOT_ALLOWED', message: 'the HTTP method is PUT, expected POST' },
    });
  });

  it('whose body the transport could not read is checked, and matches nothing', () => {
    const opened = (body: RequestBody) =>
      openMcp({ method: 'POST', path: null, headers: headersOf(bundle), body });
    expect(opened({ kind: 'unread' })).toMatchObject({
      kind: 'check',
      body: { kind: 'unusable', reason: 'the body was not read' },
    });
    expect(opened({ kind: 'unusable', reason: 'gzip' })).toMatchObject({
      kind: 'check',
      body: { kind: 'unusable', reason: 'gzip' },
    });
  });
});

it('a carrier that holds nothing, or that the object only inherits, carries no bundle', () => {
  const found = (meta: object) => findBundle('mcp', headersOf({}), meta);
  expect(found({ 'X-DRS-Bundle': undefined })).toMatchObject({ code: 'MISSING_BUNDLE' });
  expect(found(Object.create({ 'X-DRS-Bundle': 'e30' }) as object)).toMatchObject({ code: 'MISSING_BUNDLE' });
  expect(found({ 'X-DRS-Bundle': 'e30' })).toBe('e30');
});

describe('the id of a refused message', () => {
  const idOf = async (id: string) => {
    const body = text().replace('"id":1', `"id":${id}`);
    const decided = await newGate()('mcp', { body });
    return (decided as { response: { body: { id: unknown } } }).response.body.id;
  };
  it.each([
    '1',
    '0',
    '-7',
    '1.5',
    '"a"',
    '""',
    'null',
    'true',
    'false',
    '[1,"x"]',
    '{"a":{"b":null}}',
    '1e300',
  ])('comes back: %s', async (id) => {
    expect(await idOf(id)).toEqual(JSON.parse(id));
  });
  it.each([
    ['a number that a double does not hold', '9007199254740993'],
    ['longer than any client makes it', JSON.stringify('x'.repeat(2000))],
    ['a large array', `[${'1,'.repeat(2000)}1]`],
    ['a deep array', `${'['.repeat(50)}${']'.repeat(50)}`],
  ])('is null where it is %s', async (_, id) => {
    expect(await idOf(id)).toBeNull();
  });
});

it('nothing makes the gate throw, or check what it does not bind', () => {
  const json = fc.json({ maxDepth: 4 });
  const envelope = fc.record(
    {
      jsonrpc: fc.constantFrom('2.0', '1.0', 2),
      id: fc.jsonValue(),
      method: fc.constantFrom('tools/call', 'ping', 'tools/call ', 7),
      params: fc.oneof(
        fc.jsonValue(),
        fc.record(
          { name: fc.oneof(fc.string(), fc.jsonValue()), arguments: fc.jsonValue(), _meta: fc.jsonValue() },
          { requiredKeys: [] },
        ),
      ),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        json,
        envelope.map((value) => JSON.stringify(value)),
      ),
      fc.constantFrom('e30', '', '*', undefined),
      (body, bundle) => {
        const opened = openMcp({
          method: 'POST',
          path: null,
          headers: headersOf(bundle === undefined ? {} : { 'x-drs-bundle': bundle }),
          body: { kind: 'text', text: body },
        });
        if (opened.kind !== 'check') return;
        const { method, params } = JSON.parse(body) as {
          method: unknown;
          params: { name: unknown; arguments?: object };
        };
        expect(method).toBe('tools/call');
        expect(opened.body).toEqual({ kind: 'value', value: { tool: params.name, ...params.arguments } });
      },
    ),
    { numRuns: 600 },
  );
});
