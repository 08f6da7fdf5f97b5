import { readFileSync } from 'node:fs';
import * as v2 from '@modelcontextprotocol/core';
import * as v1 from '@modelcontextprotocol/sdk/types.js';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { findBundle } from '../../src/gate/carriers.js';
import {
  GATED_METHODS,
  isGated,
  mcpArgumentsOf,
  needsBundle,
  subjectOf,
} from '../../src/gate/mcp-methods.js';
import { isPassMethod, openMcp, readNameHeader, type McpRules } from '../../src/gate/mcp.js';
import { readHeaders, type RequestBody } from '../../src/gate/request.js';
import type { JsonObject } from '../../src/protocol/json.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import type { Overrides } from '../support/chain.js';
import { mcpChain as chain, newGate, verifier, type Asked } from './decide.js';

afterAll(() => verifier.close());

interface Wrapped {
  readonly shape?: object;
  readonly unwrap?: () => Wrapped;
}
interface MessageSchema {
  readonly shape: { readonly method: { readonly value: string }; readonly params?: Wrapped };
}
const schemasOf = (...schemas: readonly unknown[]) =>
  schemas.flatMap((schema) => (schema as { options?: MessageSchema[] }).options ?? [schema as MessageSchema]);
const methodsIn = (schemas: readonly MessageSchema[]) => [
  ...new Set(schemas.map(({ shape }) => shape.method.value)),
];
const membersOf = (params: Wrapped | undefined): string[] =>
  params === undefined || params.shape !== undefined
    ? Object.keys(params?.shape ?? {})
    : membersOf(params.unwrap?.());

/** What clients send, as the SDKs of both generations declare it. */
const SDK_SCHEMAS = schemasOf(
  v1.ClientRequestSchema,
  v1.ClientNotificationSchema,
  v2.ClientRequestSchema,
  v2.ClientNotificationSchema,
  v2.DiscoverRequestSchema,
  v2.SubscriptionsListenRequestSchema,
);
const SDK_METHODS = methodsIn(SDK_SCHEMAS);
const SERVER_METHODS = methodsIn(
  schemasOf(
    v1.ServerRequestSchema,
    v1.ServerNotificationSchema,
    v2.ServerRequestSchema,
    v2.ServerNotificationSchema,
  ),
);

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
const open = (body: string, headers: Record<string, unknown> = {}, rules: McpRules = {}) =>
  openMcp(
    { method: 'POST', target: null, headers: readHeaders(headers), body: { kind: 'text', text: body } },
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

describe('a tool call is denied', () => {
  // What crosses every transport is in attacks.ts.
  it('if its body was not read to its end, or if its number beyond 2^53 was parsed elsewhere', async () => {
    const part = call(bundleOf(), { read: { kind: 'too large', reason: 'a part' } });
    expect(await newGate()('mcp', part)).toMatchObject({ code: 'BODY_TOO_LARGE', response: { status: 413 } });
    const n = 2 ** 53;
    const value = message({ params: { name: 'search', arguments: { query: 'tea', n } } });
    const parsed = call(bundleOf({ ...search, n }), { read: { kind: 'value', value } });
    expect(await newGate()('mcp', parsed)).toMatchObject({ code: 'BINDING_MISMATCH' });
  });

  it('with what an agent has to do where it has no bundle', () => {
    const suggestion = (what: string, whom: string) =>
      `Ask the person you act for to delegate ${what} to you under the command /mcp/tools/call. Then sign an ` +
      `invocation of this very call${whom}, and send delegation and invocation as a bundle (drs-verify/mcp: signCalls).`;
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

it('an unknown version is answered with those that the request could have named there', () => {
  const supported = (params: object) => {
    const opened = open(text({ method: 'tools/list', params }), { 'MCP-Protocol-Version': '2027-01-01' });
    return 'failure' in opened ? opened.failure.version?.supported : undefined;
  };
  expect(supported({})).toEqual(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28']);
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2027-01-01' };
  expect(supported({ _meta })).toEqual(['2026-07-28']);
});

it.each(['2027-01-01', '2026-07-28', 'x'])(
  'initialize with the version %s in its header passes: its body negotiates',
  (version) => {
    const named = { 'io.modelcontextprotocol/protocolVersion': '2028-01-01' };
    const params = { protocolVersion: '2027-01-01', _meta: named };
    const headers = { 'MCP-Protocol-Version': version, 'Mcp-Method': 'initialize' };
    expect(open(text({ method: 'initialize', params }), headers)).toMatchObject({ kind: 'pass' });
    expect(open(text({ method: 'initialize', params }), { ...headers, 'Mcp-Method': 'ping' })).toMatchObject({
      failure: { code: 'HEADER_MISMATCH' },
    });
    if (version !== '2026-07-28')
      expect(open(text({ method: 'tools/list', params: {} }), headers)).toMatchObject({
        failure: { code: 'UNSUPPORTED_VERSION' },
      });
  },
);

describe('a message of the version in which headers must come', () => {
  const NEWEST = '2026-07-28';
  const _meta = { 'io.modelcontextprotocol/protocolVersion': NEWEST };
  const inHeader = { 'MCP-Protocol-Version': NEWEST };
  const opened = (headers: object, rules: McpRules = {}, method = 'tools/list', mayLackHeaders?: boolean) =>
    openMcp(
      {
        ...{ method: 'POST', target: null, headers: readHeaders({ ...headers }) },
        body: { kind: 'text', text: text({ method, params: { _meta } }) },
        ...(mayLackHeaders !== undefined && { mayLackHeaders }),
      },
      rules,
    );

  it.each([
    [{}, 'HEADER_MISMATCH', 'the header MCP-Protocol-Version is missing'],
    [
      { 'MCP-Protocol-Version': '2025-11-25' },
      'HEADER_MISMATCH',
      'the header MCP-Protocol-Version is not the protocolVersion of params._meta',
    ],
    [inHeader, 'HEADER_MISMATCH', `the header Mcp-Method is missing, which MCP ${NEWEST} requires`],
  ])('is refused with %j', (headers, code, message) => {
    for (const mayLack of [undefined, false])
      expect(opened(headers, {}, 'tools/list', mayLack)).toMatchObject({ failure: { code, message } });
  });

  it('passes without them where the transport has none', () => {
    expect(opened({}, {}, 'tools/list', true)).toMatchObject({ kind: 'pass' });
    expect(opened(inHeader, {}, 'tools/list', true)).toMatchObject({ kind: 'pass' });
  });

  it('has the methods of that version, and those that the operator lets pass', () => {
    const headers = { ...inHeader, 'Mcp-Method': 'x/y' };
    const message = `the method "x/y" is none that the gate knows of MCP ${NEWEST}`;
    expect(opened(headers, {}, 'x/y')).toMatchObject({ failure: { code: 'UNKNOWN_METHOD', message } });
    expect(opened(headers, { passMethods: new Set(['x/y']) }, 'x/y')).toMatchObject({ kind: 'pass' });
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
    ...[
      undefined,
      {},
      { _meta: {} },
      { notifications: {} },
      { notifications: { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: false } },
      { notifications: { resourceSubscriptions: [] } },
    ].map((params): [string, Asked] => [
      `a subscription to lists: ${JSON.stringify(params)}`,
      { body: text({ method: 'subscriptions/listen', params }) },
    ]),
  ])('%s', async (_, asked) => {
    expect(await newGate()('mcp', asked)).toEqual({ decision: 'pass' });
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
    // A prompt or a resource of that name is no tool.
    for (const method of ['prompts/get', 'resources/read', 'tasks/get'])
      expect(open(text({ method, params: { name: 'help' } }), {}, { protect: nothing }).kind).toBe('deny');
    expect([kindOf('search', nothing), kindOf(7, nothing)]).toEqual(['pass', 'deny']);
  });
});

/** What each gated method signs, by docs/spec/gate.md: method, params, signed arguments. */
const GATED: readonly (readonly [string, object, object])[] = [
  ['resources/read', { uri: 'file:///a/b' }, { resource_uri: 'file:///a/b' }],
  ['resources/subscribe', { uri: 'file:///a/b' }, { resource_uri: 'file:///a/b' }],
  [
    'subscriptions/listen',
    { notifications: { toolsListChanged: true, resourceSubscriptions: ['file:///a/b'] } },
    { resource_uri: 'file:///a/b' },
  ],
  ['prompts/get', { name: 'letter' }, { prompt: 'letter' }],
  ['prompts/get', { name: 'letter', arguments: { to: 'Ada' } }, { prompt: 'letter', to: 'Ada' }],
  [
    'completion/complete',
    { ref: { type: 'ref/prompt', name: 'letter' }, argument: { name: 'to', value: 'A' } },
    { ref: { type: 'ref/prompt', name: 'letter' }, argument: { name: 'to', value: 'A' } },
  ],
  [
    'completion/complete',
    { ref: { type: 'ref/prompt', name: 'x' }, argument: {}, context: { arguments: { a: 'b' } } },
    { ref: { type: 'ref/prompt', name: 'x' }, argument: {}, context: { arguments: { a: 'b' } } },
  ],
  ...['tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update'].map(
    (method) => [method, { taskId: 'task-1' }, { task: 'task-1' }] as const,
  ),
  ...(
    [
      ['resources/read', { uri: 'x:y' }, { resource_uri: 'x:y' }],
      ['prompts/get', { name: 'letter' }, { prompt: 'letter' }],
      ['tasks/update', { taskId: 'task-1' }, { task: 'task-1' }],
    ] as const
  ).flatMap(([method, params, args]) =>
    [{ requestState: 's' }, { inputResponses: { a: {} } }, { inputResponses: {}, requestState: '' }].map(
      (more) => [method, { ...params, ...more }, { ...args, 'xyz.okeyamy.drs/params': more }] as const,
    ),
  ),
];
const gatedChain = liveChain(2, {
  cmd: '/mcp',
  policy: { allowed_tools: ['search', ...GATED_METHODS] },
});
const gatedBundle = (method: string, args: object, overrides: Overrides = {}) =>
  encode(liveCall(gatedChain, { tool: method, ...args }, { cmd: `/mcp/${method}`, ...overrides }));

describe('a gated method', () => {
  it.each(GATED)('%s %j is allowed with what it signs', async (method, params, args) => {
    const decide = newGate();
    const body = text({ method, params });
    const headers = { 'X-DRS-Bundle': gatedBundle(method, args) };
    expect(await decide('mcp', { body })).toMatchObject({ code: 'MISSING_BUNDLE' });
    for (const other of [
      {},
      { ...args, more: 1 },
      ...Object.keys(args).map((name) => ({ ...args, [name]: 'x:y/other' })),
    ]) {
      const bundle = gatedBundle(method, other);
      const code = 'resource_uri' in other && other.resource_uri !== 'x:y' ? /BINDING|POLICY/ : /BINDING/;
      expect(await decide('mcp', { headers: { 'X-DRS-Bundle': bundle }, body })).toMatchObject({
        code: expect.stringMatching(code) as string,
      });
    }
    const elsewhere = gatedBundle(method, args, { cmd: '/mcp/tools/call' });
    expect(await decide('mcp', { headers: { 'X-DRS-Bundle': elsewhere }, body })).toMatchObject({
      code: 'COMMAND_MISMATCH',
    });
    expect(await decide('mcp', { headers, body })).toMatchObject({
      decision: 'allow',
      context: { tool: method, command: `/mcp/${method}`, binding: 'match' },
    });
    expect(await decide('mcp', { headers, body })).toMatchObject({ code: 'REPLAY_DETECTED' });
  });

  it('with a bundle in _meta is allowed', async () => {
    const bundle = gatedBundle('resources/read', { resource_uri: 'x:y' });
    const params = { uri: 'x:y', _meta: { 'X-DRS-Bundle': bundle, progressToken: 1 } };
    expect(await newGate()('mcp', { body: text({ method: 'resources/read', params }) })).toMatchObject({
      decision: 'allow',
    });
  });

  it.each([
    ['a tool call', 'tools/call', { name: 'search', arguments: {}, task: { ttl: 1 } }, { tool: 'search' }],
    [
      'a tool call that goes on',
      'tools/call',
      { name: 'search', arguments: { q: 1 }, inputResponses: { a: 1 } },
      { tool: 'search', q: 1, 'xyz.okeyamy.drs/params': { inputResponses: { a: 1 } } },
    ],
  ])('%s', async (_, method, params, args) => {
    const headers = { 'X-DRS-Bundle': gatedBundle(method, args) };
    expect(await newGate()('mcp', { headers, body: text({ method, params }) })).toMatchObject({
      decision: 'allow',
    });
  });

  it('is narrowed by allowed_tools and allowed_resources', async () => {
    const asked = (policy: object, uri = 'file:///a/b') => {
      const bundle = liveCall(
        liveChain(1, { cmd: '/mcp', policy }),
        { tool: 'resources/read', resource_uri: uri },
        { cmd: '/mcp/resources/read' },
      );
      const body = text({ method: 'resources/read', params: { uri } });
      return newGate()('mcp', { headers: { 'X-DRS-Bundle': encode(bundle) }, body });
    };
    const policy = { allowed_tools: ['resources/read'], allowed_resources: ['file:///a/*'] };
    expect(await asked(policy)).toMatchObject({ decision: 'allow' });
    expect(await asked({})).toMatchObject({ decision: 'allow' });
    const violation = { code: 'POLICY_VIOLATION', response: { status: 403 } };
    expect(await asked({ ...policy, allowed_tools: ['search', 'tools/call'] })).toMatchObject(violation);
    expect(await asked(policy, 'file:///b')).toMatchObject(violation);
    expect(await asked(policy, 'file:///a/../b')).toMatchObject(violation);
  });

  it.each<[string, string, unknown]>([
    ['without params', 'resources/read', undefined],
    ['with params that are no object', 'resources/read', ['x:y']],
    ['without its subject', 'resources/read', { name: 'x:y' }],
    ['with an empty subject', 'prompts/get', { name: '' }],
    ['with a number for its subject', 'tasks/get', { taskId: 7 }],
    ['with an unknown parameter', 'resources/read', { uri: 'x:y', role: 'admin' }],
    ['with a parameter of another method', 'resources/subscribe', { uri: 'x:y', requestState: '' }],
    ['with a parameter that differs by case', 'tasks/cancel', { taskId: 't', taskid: 'u' }],
    ['without what it completes', 'completion/complete', { argument: {} }],
    ['without an argument to complete', 'completion/complete', { ref: {} }],
    ['with two resources', 'subscriptions/listen', { notifications: { resourceSubscriptions: ['a', 'b'] } }],
    ['with a text for resources', 'subscriptions/listen', { notifications: { resourceSubscriptions: 'a' } }],
    ['with an unknown change', 'subscriptions/listen', { notifications: { taskIds: ['t'] } }],
    ['with an unknown change of nothing', 'subscriptions/listen', { notifications: { taskIds: [] } }],
    [
      'with an unknown change beside a resource',
      'subscriptions/listen',
      { notifications: { taskIds: ['t'], resourceSubscriptions: ['x:y'] } },
    ],
    ['with an empty URI', 'subscriptions/listen', { notifications: { resourceSubscriptions: [''] } }],
    ['with a number for a URI', 'subscriptions/listen', { notifications: { resourceSubscriptions: [7] } }],
    ['with a number for changes', 'subscriptions/listen', { notifications: 7 }],
    ['with an unknown member', 'subscriptions/listen', { notifications: {}, resources: ['x:y'] }],
    ['with params that are an array', 'subscriptions/listen', []],
    [
      'whose answer would go into a task',
      'resources/read',
      { uri: 'x:y', _meta: { 'io.modelcontextprotocol/related-task': { taskId: 't' } } },
    ],
  ])('is refused %s: %s', async (_, method, params) => {
    const headers = { 'X-DRS-Bundle': gatedBundle(method, { resource_uri: 'x:y' }) };
    expect(await newGate()('mcp', { headers, body: text({ method, params }) })).toMatchObject({
      code: 'INVALID_TOOL_CALL',
      response: { status: 400 },
    });
  });

  it.each(['tool', 'prompt', 'xyz.okeyamy.drs/params'])('takes no argument of a prompt named %s', (name) => {
    const params = { name: 'letter', arguments: { [name]: 'x' } };
    expect(open(text({ method: 'prompts/get', params }), { 'X-DRS-Bundle': 'e30' })).toMatchObject({
      failure: { code: 'RESERVED_ARGUMENT', message: expect.stringContaining(`"${name}"`) as string },
    });
  });

  it.each<[string, object | null, string]>([
    ['tools/call', {}, 'params.name is not a non-empty string'],
    ['prompts/get', {}, 'params.name is not a non-empty string'],
    ['tasks/get', { taskId: '' }, 'params.taskId is not a non-empty string'],
    ['resources/read', null, 'params is not an object'],
    [
      'tools/call',
      { name: 'a', role: 1 },
      'params has a member "role", expected none but name, arguments, inputResponses, requestState, task, _meta',
    ],
    [
      'completion/complete',
      { name: 'a' },
      'params has a member "name", expected none but ref, argument, context, _meta',
    ],
    ['completion/complete', { ref: {} }, 'params.argument is missing'],
    [
      'tools/call',
      { name: 'a', _meta: { 'io.modelcontextprotocol/related-task': {} } },
      'params._meta has io.modelcontextprotocol/related-task: the answer would go into that task',
    ],
    ['tools/call', { name: 'a', arguments: [] }, 'params.arguments is not an object'],
    [
      'prompts/get',
      { name: 'a', arguments: { tool: '' } },
      'params.arguments has a member named "tool", which has a meaning of its own in what is signed',
    ],
    ['subscriptions/listen', {}, 'params.notifications is not an object'],
    [
      'subscriptions/listen',
      { notifications: { x: 1 } },
      'params.notifications has a member "x", which is not known',
    ],
    [
      'subscriptions/listen',
      { notifications: { resourceSubscriptions: [] } },
      'params.notifications.resourceSubscriptions is not an array of one URI: a request is for one resource',
    ],
  ])('says why it cannot be bound: %s %j', (method, params, message) => {
    expect(mcpArgumentsOf(method, params as JsonObject | null)).toMatchObject({ message });
  });

  it('takes members without a value, which JSON cannot have, for absent', () => {
    const params = { name: 'search', arguments: undefined, role: undefined, task: undefined } as never;
    expect(mcpArgumentsOf('tools/call', params)).toEqual({ args: { tool: 'search' } });
    const completion = { ref: {}, argument: {}, context: undefined } as never;
    expect(mcpArgumentsOf('completion/complete', completion)).toEqual({
      args: { tool: 'completion/complete', ref: {}, argument: {} },
    });
    const continued = { uri: 'x:y', requestState: undefined } as never;
    expect(mcpArgumentsOf('resources/read', continued)).toEqual({
      args: { tool: 'resources/read', resource_uri: 'x:y' },
    });
  });

  it('is what a client has to sign', () => {
    expect(needsBundle('tools/call', {})).toBe(true);
    expect(needsBundle('ping', {})).toBe(false);
    // The newest version has tool calls, and no such subscriptions.
    const of = (version: string) => ({ _meta: { 'io.modelcontextprotocol/protocolVersion': version } });
    expect(needsBundle('tools/call', of('2026-07-28'))).toBe(true);
    expect(needsBundle('resources/subscribe', of('2025-11-25'))).toBe(true);
    expect(needsBundle('resources/subscribe', of('2026-07-28'))).toBe(false);
    expect(needsBundle('resources/subscribe', { '': of('2026-07-28')._meta })).toBe(true);
    expect(needsBundle('subscriptions/listen', {})).toBe(false);
    expect(needsBundle('subscriptions/listen', { notifications: { resourceSubscriptions: ['x:y'] } })).toBe(
      true,
    );
    expect(subjectOf('resources/read', { uri: 'x:y' })).toBe('x:y');
    expect([subjectOf('ping', { uri: 'x:y' }), subjectOf('tasks/get', null)]).toEqual([undefined, undefined]);
    expect(() => mcpArgumentsOf('ping', {})).toThrow('ping is not a gated method');
  });

  it('needs an id, and agrees with its headers', () => {
    const codeOf = (headers: Record<string, string | string[]>, members: object = {}) => {
      const params = { uri: 'x:y' };
      const opened = open(text({ method: 'resources/read', params, ...members }), {
        'X-DRS-Bundle': 'e30',
        ...headers,
      });
      return opened.kind === 'deny' ? opened.failure.code : opened.kind;
    };
    expect(codeOf({ 'Mcp-Name': 'x:y', 'Mcp-Method': 'resources/read' })).toBe('check');
    expect(codeOf({ 'Mcp-Name': 'x:z' })).toBe('HEADER_MISMATCH');
    expect(codeOf({ 'Mcp-Method': 'resources/list' })).toBe('HEADER_MISMATCH');
    expect(codeOf({ 'Mcp-Method': ['resources/read', 'resources/read'] })).toBe('HEADER_MISMATCH');
    expect(codeOf({}, { id: undefined })).toBe('INVALID_TOOL_CALL');
    expect(codeOf({ 'Mcp-Name': 't' }, { method: 'tasks/get', params: { taskId: 't' } })).toBe('check');
    const completion = { method: 'completion/complete', params: { ref: {}, argument: {} } };
    expect(codeOf({}, completion)).toBe('check');
    expect(codeOf({ 'Mcp-Name': 'x' }, completion)).toBe('HEADER_MISMATCH');
  });

  it.each<[string, unknown, boolean]>([
    ['tea', { query: 'tea' }, true],
    ['=?base64?w7w=?=', { query: 'ü' }, true],
    ['7', { deep: [[{ n: 7 }]] }, true],
    ['7.0', [7], true],
    ['-0.5', { n: -0.5 }, true],
    ['1e+21', { n: 1e21 }, true],
    ['9007199254740992', { n: 2 ** 53 }, true],
    ['false', { is: false }, true],
    ['', { a: '' }, true],
    ['Tea', { query: 'tea' }, false],
    ['query', { query: 'tea' }, false],
    ['ü', { query: 'ü' }, false],
    ['=?base64?*?=', { query: 'tea' }, false],
    ['9007199254740993', { n: 2 ** 53 }, false],
    ['07', { n: 8 }, false],
    ['0x7', { n: 7 }, false],
    ['', { n: 0 }, false],
    ['null', { a: null }, false],
    ['undefined', undefined, false],
    ['search', {}, false],
    ['[object Object]', { a: {} }, false],
    ['1e+21', { n: 1e21 }, true],
    ['1e21', { n: 1e21 }, false],
    ['true', { a: [[true]] }, true],
    ['true', { a: 'true' }, true],
    ['true', { a: 1 }, false],
    ['-0', { a: 0 }, true],
  ])('may repeat an argument in a header: %j of %j is %s', (value, args, isOne) => {
    const asked = text({ params: { name: 'search', arguments: args } });
    for (const values of [[value], [value, value]]) {
      const opened = open(asked, { 'X-DRS-Bundle': 'e30', 'Mcp-Param-Query': values });
      const code = opened.kind === 'deny' ? opened.failure.code : opened.kind;
      expect(code === 'HEADER_MISMATCH').toBe(!isOne);
    }
    const both = open(asked, { 'X-DRS-Bundle': 'e30', 'Mcp-Param-A': value, mcp_param_b: 'x y' });
    expect(both).toMatchObject({
      failure: {
        code: 'HEADER_MISMATCH',
        message: 'a header Mcp-Param-… is none of params.arguments of the body',
      },
    });
  });

  it('is named by one header, or by none', () => {
    const read = (value: string | string[]) => readNameHeader(readHeaders({ 'Mcp-Name': value }));
    expect([read([]), read('a'), read('=?base64?w7w=?=')]).toEqual([null, { name: 'a' }, { name: 'ü' }]);
    for (const value of ['ü', '=?base64?*?=', ['a', 'a']]) expect(read(value)).toBe('unreadable');
  });

  it('may have headers of arguments if it is no call', () => {
    const listed = open(text({ method: 'tools/list' }), { 'Mcp-Param-Query': 'x' });
    expect(listed.kind).toBe('pass');
  });

  it('that names its resource twice is bound to none', async () => {
    const method = 'subscriptions/listen';
    const body = text({ method, params: 0 }).replace(
      '"params":0',
      '"params":{"notifications":{"resourceSubscriptions":["x:y"]},"notifications":{}}',
    );
    expect(open(body)).toMatchObject({ failure: { code: 'MISSING_BUNDLE' } });
    const twice = text({ method: 'resources/read', params: 0 }).replace(
      '"params":0',
      '"params":{"uri":"file:///etc/passwd","uri":"x:y"}',
    );
    const headers = { 'X-DRS-Bundle': gatedBundle('resources/read', { resource_uri: 'x:y' }) };
    expect(await newGate()('mcp', { headers, body: twice })).toMatchObject({ code: 'BINDING_MISMATCH' });
  });

  it('tells an agent without a bundle what to ask for', () => {
    expect(open(text({ method: 'resources/read', params: { uri: 'x:y' } }))).toMatchObject({
      requested: 'resources/read',
      failure: {
        suggestion: expect.stringContaining(
          'delegate resources/read of "x:y" to you under the command /mcp/resources/read.',
        ) as string,
      },
    });
  });

  it('says what is asked for where it has no name', () => {
    const params = { ref: {}, argument: {} };
    expect(open(text({ method: 'completion/complete', params }))).toMatchObject({
      failure: {
        suggestion: expect.stringContaining('to delegate completion/complete to you under') as string,
      },
    });
    expect(open(text({ method: 'acme/x' }))).toMatchObject({
      failure: { message: 'the method "acme/x" is none that the gate knows' },
    });
  });

  it('passes if the operator names it; tools/call never does', () => {
    const kindsOf = (rules: McpRules) =>
      GATED_METHODS.filter((method) => open(text({ method, params: {} }), {}, rules).kind === 'pass');
    expect(kindsOf({})).toEqual(['subscriptions/listen']);
    expect(kindsOf({ passMethods: new Set(['tasks/get']) })).toEqual(['subscriptions/listen', 'tasks/get']);
    expect(kindsOf({ passMethods: new Set(GATED_METHODS) })).toEqual(
      GATED_METHODS.filter((method) => method !== 'tools/call'),
    );
  });
});

describe('the table of methods', () => {
  const kindOf = (method: string) => {
    const opened = open(text({ method, params: { uri: 'x:y' } }));
    return opened.kind === 'deny' ? opened.failure.code : opened.kind;
  };
  const spec = readFileSync(new URL('../../docs/spec/gate.md', import.meta.url), 'utf8');
  const section = /## MCP methods\n([^]*?)\n## /.exec(spec)?.[1] ?? '';
  const methodsOf = (table: string) =>
    [...table.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, cell = '']) =>
      [...cell.matchAll(/`([\w/]+)`/g)].map(([, method = '']) => method),
    );
  const [gated = '', passing = ''] = ['| gated method |', '| methods that pass |'].map(
    (head) => section.slice(section.indexOf(head)).split('\n\n')[0],
  );
  const passes = [...passing.matchAll(/`([\w/]+)`/g)].map(([, method = '']) => method);

  it('is that of the specification', () => {
    expect(methodsOf(gated).toSorted()).toEqual([...GATED_METHODS].toSorted());
    expect(methodsOf(gated).map(kindOf)).toEqual(methodsOf(gated).map(() => 'MISSING_BUNDLE'));
    expect(passes.length).toBeGreaterThan(15);
    expect(passes.filter((method) => method !== 'subscriptions/listen').map(kindOf)).toEqual(
      passes.slice(1).map(() => 'pass'),
    );
  });

  it('has every method that clients of the SDKs send, and none that only servers send', () => {
    expect(SDK_METHODS.length).toBeGreaterThan(20);
    expect(SDK_METHODS.filter((method) => ![...methodsOf(gated), ...passes].includes(method))).toEqual([]);
    const refused = SERVER_METHODS.filter((method) => !SDK_METHODS.includes(method));
    expect(refused).toContain('sampling/createMessage');
    expect(refused.map(kindOf)).toEqual(refused.map(() => 'UNKNOWN_METHOD'));
  });

  it('knows the parameters that the SDKs know', () => {
    const defectOf = (method: string, name: string) => {
      const bound = mcpArgumentsOf(method, { [name]: null });
      return 'code' in bound && bound.message.includes('params has a member') ? `${method}: ${name}` : '';
    };
    const known = SDK_SCHEMAS.flatMap(({ shape: { method, params } }) =>
      isGated(method.value) ? membersOf(params).map((name) => [method.value, name] as const) : [],
    );
    expect(known).toContainEqual(['tools/call', 'task']);
    expect(known).toContainEqual(['completion/complete', 'context']);
    expect(known.map(([method, name]) => defectOf(method, name)).filter((found) => found !== '')).toEqual([]);
    expect(defectOf('tools/call', 'uri')).toBe('tools/call: uri');
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
      openMcp({ method: 'PUT', target: null, headers: readHeaders({}), body: { kind: 'unread' } }),
    ).toMatchObject({
      failure: { code: 'METHOD_NOT_ALLOWED', message: 'the HTTP method is PUT, expected POST' },
    });
  });

  it('whose body the transport could not read is checked, and matches nothing', () => {
    const opened = (body: RequestBody) =>
      openMcp({ method: 'POST', target: null, headers: readHeaders(bundle), body });
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
  const found = (meta: object) => findBundle('mcp', readHeaders({}), meta);
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
  const string = (length: number) => JSON.stringify('x'.repeat(length));
  it.each(['1', '0', '-7', '1.5', '"a"', '""', 'null', '1e300', string(1024)])(
    'comes back: %.80s',
    async (id) => {
      expect(await idOf(id)).toEqual(JSON.parse(id));
    },
  );
  it.each([
    // What JSON-RPC does not have.
    ...['true', 'false', '[1,"x"]', '[]', '{"a":{"b":null}}'],
    // A number that a double does not hold.
    ...['9007199254740993', string(1025)],
  ])('is null where it is %.80s', async (id) => {
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
          target: null,
          headers: readHeaders(bundle === undefined ? {} : { 'x-drs-bundle': bundle }),
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
