import { afterAll, describe, expect, it } from 'vitest';
import { openA2a } from '../../src/gate/a2a.js';
import { bodyOfBytes } from '../../src/gate/carriers.js';
import type { Protocol } from '../../src/gate/codes.js';
import { headersOf } from '../../src/gate/request.js';
import { RPC_ERROR_CODE } from '../../src/gate/response.js';
import { encode, liveCall } from '../middleware/call.js';
import type { Overrides } from '../support/chain.js';
import { a2aChain, mcpChain, newGate, verifier, type Asked } from './decide.js';

afterAll(() => verifier.close());

const params = { message: { messageId: 'm1', parts: [{ text: 'hello' }] } };
const a2aBundle = (overrides: Overrides = {}, args: object = { tool: 'SendMessage', ...params }) =>
  encode(liveCall(a2aChain, args, { cmd: '/a2a/SendMessage', ...overrides }));
const rpc = (members: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'SendMessage', params, ...members });
const a2a = (body = rpc(), bundle: unknown = a2aBundle(), method = 'POST'): Asked => ({
  method,
  headers: bundle === undefined ? {} : { 'X-DRS-Bundle': bundle },
  body,
});

const args = { tool: 'search', query: 'tea' };
const httpBundle = (overrides: Overrides = {}) => encode(liveCall(mcpChain, args, overrides));
const http = (body = JSON.stringify(args), bundle: unknown = httpBundle(), method = 'POST'): Asked => ({
  method,
  headers: bundle === undefined ? {} : { 'x-drs-bundle': bundle },
  body,
});

type Row = readonly [Protocol, string, () => Asked, number, string, object?];
const DENIED: readonly Row[] = [
  ['a2a', 'no bundle', () => a2a(rpc(), null), 403, 'MISSING_BUNDLE'],
  [
    'a2a',
    'no bundle with a list of tasks',
    () => a2a(rpc({ method: 'ListTasks' }), null),
    403,
    'MISSING_BUNDLE',
  ],
  ['a2a', 'two bundles', () => a2a(rpc(), [a2aBundle(), a2aBundle()]), 400, 'MULTIPLE_BUNDLES'],
  [
    'a2a',
    'a bundle in _meta, which is of MCP',
    () => a2a(rpc({ params: { _meta: { 'X-DRS-Bundle': a2aBundle() } } }), null),
    403,
    'MISSING_BUNDLE',
  ],
  [
    'a2a',
    'another method',
    () => a2a(rpc({ method: 'CancelTask' })),
    403,
    'COMMAND_MISMATCH',
    { valid: false },
  ],
  [
    'a2a',
    'a method with dots',
    () => a2a(rpc({ method: '../a2a/SendMessage' })),
    403,
    'COMMAND_MISMATCH',
    { valid: false },
  ],
  [
    'a2a',
    'the command above',
    () => a2a(rpc(), a2aBundle({ cmd: '/a2a' })),
    403,
    'COMMAND_MISMATCH',
    { valid: false },
  ],
  [
    'a2a',
    'a command below',
    () => a2a(rpc(), a2aBundle({ cmd: '/a2a/SendMessage/x' })),
    403,
    'COMMAND_MISMATCH',
    { valid: false },
  ],
  [
    'a2a',
    'other params',
    () => a2a(rpc({ params: {} })),
    403,
    'BINDING_MISMATCH',
    { valid: true, binding: 'mismatch' },
  ],
  [
    'a2a',
    'a param twice',
    () => a2a(rpc().replace('"params":{', '"params":{"message":1,')),
    403,
    'BINDING_MISMATCH',
    { valid: true, binding: 'invalid_body' },
  ],
  ['a2a', 'params in an array', () => a2a(rpc({ params: [] })), 400, 'INVALID_PARAMS'],
  ['a2a', 'a param named tool', () => a2a(rpc({ params: { tool: 'x' } })), 400, 'RESERVED_ARGUMENT'],
  [
    'a2a',
    'an answer',
    () => a2a(JSON.stringify({ jsonrpc: '2.0', id: 1, result: 1 })),
    400,
    'INVALID_JSONRPC',
  ],
  ['a2a', 'a batch', () => a2a(`[${rpc()}]`), 400, 'BATCH_NOT_SUPPORTED'],
  ['a2a', 'PATCH', () => a2a(rpc(), a2aBundle(), 'PATCH'), 405, 'METHOD_NOT_ALLOWED'],
  ['a2a', 'DELETE', () => a2a(rpc(), a2aBundle(), 'DELETE'), 405, 'METHOD_NOT_ALLOWED'],
  [
    'a2a',
    'an expired chain',
    () => a2a(rpc(), encode({ bundle_version: '4.0' })),
    403,
    'EMPTY_CHAIN',
    { valid: false },
  ],
  ['http', 'no bundle', () => http('{}', null), 401, 'MISSING_BUNDLE'],
  ['http', 'no bundle, with GET', () => http('', null, 'GET'), 401, 'MISSING_BUNDLE'],
  ['http', 'a bundle that is none', () => http('{}', 'e'), 400, 'MALFORMED_BUNDLE'],
  ['http', 'two bundles', () => http('{}', 'e30,e30'), 400, 'MULTIPLE_BUNDLES'],
  [
    'http',
    'a version that is none',
    () => http('{}', encode({ bundle_version: '5' })),
    403,
    'VERSION_MISMATCH',
    { valid: false },
  ],
  [
    'http',
    'another body',
    () => http('{"tool":"search"}'),
    403,
    'BINDING_MISMATCH',
    { valid: true, binding: 'mismatch' },
  ],
  ['http', 'no body', () => http(''), 403, 'BINDING_MISMATCH', { valid: true, binding: 'invalid_body' }],
  [
    'http',
    'no body, with GET',
    () => http('', httpBundle(), 'GET'),
    403,
    'BINDING_MISMATCH',
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'http',
    'an unread body',
    () => ({ ...http(), read: { kind: 'unread' } }),
    403,
    'BINDING_MISMATCH',
    { valid: true, binding: 'invalid_body' },
  ],
  [
    'http',
    'a part of a body',
    () => ({ ...http(), read: { kind: 'too large', reason: 'a part' } }),
    413,
    'BODY_TOO_LARGE',
  ],
  [
    'http',
    'a stale invocation',
    () => http(undefined, httpBundle({ iat: 1 })),
    409,
    'INVOCATION_STALE',
    { valid: false },
  ],
];

/** Where it is not the 7 that most requests here have. */
const ANSWERED_ID: Readonly<Record<string, number | null>> = {
  INVALID_JSONRPC: 1,
  BATCH_NOT_SUPPORTED: null,
  METHOD_NOT_ALLOWED: null,
};

describe('denied', () => {
  it.each(DENIED.map((row) => ({ name: `${row[0]}: ${row[1]}`, row })))('$name', async ({ row }) => {
    const [protocol, , asked, status, code, verdict] = row;
    const decided = await newGate()(protocol, asked());
    const response = (decided as { response: { status: number; headers: object; body: unknown } }).response;
    expect(decided).toMatchObject({ decision: 'deny', code });
    expect(response.status).toBe(status);
    expect(response.headers).toEqual({
      'content-type': 'application/json',
      ...(status === 401 ? { 'www-authenticate': 'DRS' } : {}),
      ...(status === 405 ? { allow: 'POST, GET, DELETE, HEAD, OPTIONS' } : {}),
    });
    const words = expect.stringMatching(/\S/) as string;
    expect(response.body).toEqual(
      protocol === 'http'
        ? { ...verdict, error: { code, message: words, suggestion: words } }
        : {
            jsonrpc: '2.0',
            id: ANSWERED_ID[code] ?? (code in ANSWERED_ID ? null : 7),
            error: {
              code: RPC_ERROR_CODE,
              message: expect.stringMatching(new RegExp(`^DRS: ${code}: .`)) as string,
              data: { code, detail: words, suggestion: words, status, ...verdict },
            },
          },
    );
  });
});

it('an opened A2A request tells its protocol and method', () => {
  const open = (headers: Record<string, string>, body = rpc()) =>
    openA2a({
      method: 'POST',
      path: '/a2a',
      headers: headersOf(headers),
      body: { kind: 'text', text: body },
    });
  expect(open({ 'X-DRS-Bundle': 'e30' })).toMatchObject({
    kind: 'check',
    protocol: 'a2a',
    requested: 'SendMessage',
  });
  expect(open({})).toMatchObject({ kind: 'deny', protocol: 'a2a', requested: 'SendMessage' });
  expect(open({}, '{')).toMatchObject({ kind: 'deny', protocol: 'a2a', requested: null });
});

describe('allowed', () => {
  it('an A2A request, also without params and as a notification', async () => {
    const decide = newGate();
    expect(await decide('a2a', a2a())).toMatchObject({
      decision: 'allow',
      context: { command: '/a2a/SendMessage' },
    });
    const bare = a2a(rpc({ params: undefined, id: undefined }), a2aBundle({}, { tool: 'SendMessage' }));
    expect(await decide('a2a', bare)).toMatchObject({ decision: 'allow' });
  });

  it('an HTTP request whose body is what was signed, however it is written', async () => {
    const decide = newGate();
    expect(await decide('http', http('{ "query": "t\\u0065a", "tool": "search" }'))).toMatchObject({
      decision: 'allow',
      context: { binding: 'match', tool: 'search' },
    });
    expect(await decide('http', { ...http(), read: { kind: 'value', value: args } })).toMatchObject({
      decision: 'allow',
    });
  });

  it.each(['GET', 'HEAD', 'OPTIONS'])('%s of the agent card passes', async (method) => {
    const path = '/.well-known/agent-card.json';
    expect(await newGate()('a2a', { method, path })).toEqual({ decision: 'pass' });
  });
});

describe('the bytes of a body', () => {
  const bytes = Buffer.from('{}');
  const kind = (contentType?: string, contentEncoding?: string) =>
    bodyOfBytes(bytes, headersOf({ 'content-type': contentType, 'content-encoding': contentEncoding })).kind;

  // Issue 12: a planted fault that refused `br` alone had survived.
  it.each([
    'gzip',
    'deflate',
    'zstd',
    'br',
    'compress',
    'x-gzip',
    'GZIP',
    'gzip, identity',
    'identity, gzip',
    'unknown',
  ])('are not looked at where they are encoded: %s', (encoding) => {
    expect(kind('application/json', encoding)).toBe('unusable');
  });
  it.each([undefined, '', 'identity', 'Identity'])('are where the encoding is %s', (encoding) => {
    expect(kind('application/json', encoding)).toBe('text');
  });
  it.each([
    ['application/json', 'text'],
    ['application/vnd.x+json; charset=UTF-8', 'text'],
    ['Application/JSON;charset="utf8"', 'text'],
    [undefined, 'text'],
    ['text/plain', 'unusable'],
    ['application/json; charset=utf-16', 'unusable'],
    ['application/json; charset=utf-8; charset=utf-16', 'unusable'],
    ['application/json, text/plain', 'unusable'],
    ['application/json; a=b, application/x-www-form-urlencoded', 'unusable'],
    ['application/jsonp', 'unusable'],
  ])('with the type %s are %s', (type, expected) => {
    expect(kind(type)).toBe(expected);
  });
  it('that are not UTF-8 are not looked at', () => {
    expect(bodyOfBytes(Buffer.from([0xff]), headersOf({})).kind).toBe('unusable');
  });
});
