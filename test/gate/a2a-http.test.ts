import { afterAll, describe, expect, it } from 'vitest';
import type { Protocol } from '../../src/gate/codes.js';
import { RPC_ERROR_CODE } from '../../src/gate/codes.js';
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

const twice = rpc().replace('"params":{', '"params":{"message":1,');

const args = { tool: 'search', query: 'tea' };
const httpBundle = (overrides: Overrides = {}) => encode(liveCall(mcpChain, args, overrides));
const http = (body = JSON.stringify(args), bundle: unknown = httpBundle(), method = 'POST'): Asked => ({
  method,
  headers: bundle === undefined ? {} : { 'x-drs-bundle': bundle },
  body,
});

/** The form of each answer. What is denied, and over which transport, is in attacks.ts. */
type Row = readonly [Protocol, string, () => Asked, number, string, object?];
const MISMATCH = { valid: true, binding: 'mismatch' };
const INVALID_BODY = { valid: true, binding: 'invalid_body' };
const INVALID = { valid: false };
const unread: Asked = { ...http(), read: { kind: 'unread' } };
const part: Asked = { ...http(), read: { kind: 'too large', reason: 'a part' } };
const DENIED: readonly Row[] = [
  ['a2a', 'a list of tasks', () => a2a(rpc({ method: 'ListTasks' }), null), 403, 'MISSING_BUNDLE'],
  ['a2a', 'another method', () => a2a(rpc({ method: 'CancelTask' })), 403, 'COMMAND_MISMATCH', INVALID],
  ['a2a', 'a command above', () => a2a(rpc(), a2aBundle({ cmd: '/a2a' })), 403, 'COMMAND_MISMATCH', INVALID],
  ['a2a', 'other params', () => a2a(rpc({ params: {} })), 403, 'BINDING_MISMATCH', MISMATCH],
  ['a2a', 'a param twice', () => a2a(twice), 403, 'BINDING_MISMATCH', INVALID_BODY],
  ['a2a', 'a batch', () => a2a(`[${rpc()}]`), 400, 'BATCH_NOT_SUPPORTED'],
  ['a2a', 'an answer', () => a2a('{"jsonrpc":"2.0","id":1,"result":1}'), 400, 'INVALID_JSONRPC'],
  ['a2a', 'DELETE', () => a2a(rpc(), a2aBundle(), 'DELETE'), 405, 'METHOD_NOT_ALLOWED'],
  ['a2a', 'no receipts', () => a2a(rpc(), encode({ bundle_version: '4.0' })), 403, 'EMPTY_CHAIN', INVALID],
  ['http', 'no bundle', () => http('{}', null), 401, 'MISSING_BUNDLE'],
  ['http', 'a bundle that is none', () => http('{}', 'e'), 400, 'MALFORMED_BUNDLE'],
  ['http', 'another body', () => http('{"tool":"search"}'), 403, 'BINDING_MISMATCH', MISMATCH],
  ['http', 'no body', () => http(''), 403, 'BINDING_MISMATCH', INVALID_BODY],
  ['http', 'an unread body', () => unread, 403, 'BINDING_MISMATCH', INVALID_BODY],
  ['http', 'a part of a body', () => part, 413, 'BODY_TOO_LARGE'],
  ['http', 'staleness', () => http(undefined, httpBundle({ iat: 1 })), 409, 'INVOCATION_STALE', INVALID],
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
