import { expect, it } from 'vitest';
import { readGateRequest } from '../../src/service/routes/gate-api-route.js';

/** What the service reads of a described request, before the gate sees it. */

const described = (headers: object) =>
  readGateRequest(Buffer.from(JSON.stringify({ protocol: 'mcp', headers, body: {} })));

it.each([
  { Accept: Array<string>(100).fill('') },
  Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`x-${at}`, 'a'])),
  { 'Content-Type': ';'.repeat(65_524) },
])('takes as many headers as a connection: %#', (headers) => {
  expect(described(headers)).toHaveProperty('request');
});

it.each([
  [{ Accept: Array<string>(101).fill('') }, 'headers has more than 100 values'],
  [Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`x-${at}`, []])), 'headers has more than 100'],
  [{ Accept: Array<string>(99).fill(''), a: '', b: '' }, 'headers has more than 100 values'],
  [{ 'Content-Type': ';'.repeat(65_525) }, 'headers has 65537 characters, expected at most 65536'],
  [{ a: 'x'.repeat(40_000), b: ['x'.repeat(40_000)] }, 'headers has 80002 characters'],
  [{ a: 1 }, 'a header is neither a string nor an array of strings'],
  [{ a: [null] }, 'a header is neither a string nor an array of strings'],
])('refuses more, and others: %#', (headers, detail) => {
  expect(described(headers)).toEqual({
    error: 'INVALID_GATE_REQUEST',
    detail: expect.stringContaining(detail) as string,
  });
});

const read = (members: object) => readGateRequest(Buffer.from(JSON.stringify(members)));

it('reads the request that is described, and no more', () => {
  const headers = { 'X-DRS-Bundle': 'e30', Accept: ['a', 'b'], Authorization: 'secret' };
  const found = read({ protocol: 'http', method: 'PUT', path: '/a?b=1', headers, body: { n: 1 } });
  if ('error' in found) throw new Error(found.detail);
  const { protocol, request } = found;
  expect({ ...request, protocol, headers: undefined }).toEqual({
    ...{ protocol: 'http', method: 'PUT', target: '/a?b=1', body: { kind: 'value', value: { n: 1 } } },
  });
  expect(Object.fromEntries(request.headers)).toEqual({
    'x-drs-bundle': 'e30',
    accept: 'a\nb',
    authorization: 'secret',
  });
});

it('takes a POST for granted, and the endpoint of A2A, but no other path', () => {
  for (const [protocol, target] of [
    ['http', null],
    ['mcp', null],
    ['a2a', '/'],
  ])
    expect(read({ protocol })).toMatchObject({ protocol, request: { method: 'POST', target } });
  expect(read({ protocol: 'a2a', path: '/x' })).toMatchObject({ request: { target: '/x' } });
  expect(read({ protocol: 'a2a', path: null })).toMatchObject({ request: { target: '/' } });
});

it('misses no header of MCP where there are no headers at all, as a transport of stdio asks', () => {
  const mayLack = (members: object) => read({ protocol: 'mcp', ...members });
  for (const members of [{}, { headers: {} }])
    expect(mayLack(members)).toHaveProperty('request.mayLackHeaders', true);
  expect(mayLack({ headers: { Host: 'a' } })).not.toHaveProperty('request.mayLackHeaders');
});

it('takes numbers that may be rounded, and any depth: they match nothing that was signed', () => {
  for (const body of ['{"n":9007199254740993}', `${'['.repeat(100)}${']'.repeat(100)}`])
    expect(readGateRequest(Buffer.from(`{"protocol":"mcp","body":${body}}`))).toHaveProperty('request');
});

const ENVELOPE = 'application/drs-call+json';
it.each<[object, object]>([
  [{}, { kind: 'none' }],
  [{ body: null }, { kind: 'none' }],
  [{ body: 0 }, { kind: 'value', value: 0 }],
  [{ body_text: '{"n":1}' }, { kind: 'text', text: '{"n":1}' }],
  [{ body_text: '' }, { kind: 'text', text: '' }],
  [{ body_text: 'a=b', headers: { 'content-type': 'text/plain' } }, { kind: 'unusable' }],
  [{ body: {}, headers: { 'content-encoding': 'gzip' } }, { kind: 'unusable' }],
  [{ headers: { 'content-type': 'text/plain' } }, { kind: 'unusable' }],
  [
    { body_text: '{}', headers: { 'content-type': ENVELOPE } },
    { kind: 'unusable', envelope: '{}' },
  ],
])('reads the body of %j', (members, body) => {
  expect(read({ protocol: 'http', ...members })).toHaveProperty(
    'request.body',
    expect.objectContaining(body),
  );
});

it.each<[string, string]>([
  ['{', 'JSON'],
  ['[]', 'the body is not a JSON object'],
  ['null', 'the body is not a JSON object'],
  ['{}', 'protocol is not a string, expected http, mcp or a2a'],
  ['{"protocol":null}', 'protocol is not a string'],
  ['{"protocol":"mcp","protocol":"a2a"}', 'the body is not strict JSON: '],
  ['{"protocol":"http","body":{"n":1,"n":2}}', 'the body is not strict JSON: '],
  [
    '{"protocol":"mcp","tool":"x"}',
    'the member "tool" is none of protocol, method, path, headers, body, body_text',
  ],
  ['{"protocol":"mcp","method":1}', 'method is not a string, expected an HTTP method'],
  ['{"protocol":"mcp","method":null}', 'method is not a string'],
  ['{"protocol":"http","path":1}', 'path is not a string, expected path and query as the caller sent them'],
  ['{"protocol":"mcp","headers":[]}', 'headers is not an object, expected strings by header name'],
  ['{"protocol":"mcp","headers":null}', 'headers is not an object'],
  ['{"protocol":"mcp","body":null,"body_text":""}', 'there is a body and a body_text, expected one of them'],
  ['{"protocol":"mcp","body_text":null}', 'body_text is not a string'],
])('refuses %s', (text, detail) => {
  expect(readGateRequest(Buffer.from(text))).toEqual({
    error: 'INVALID_GATE_REQUEST',
    detail: expect.stringContaining(detail) as string,
  });
});

it.each(['chain', 'grpc', 'MCP', ''])('knows no protocol %j', (protocol) => {
  expect(read({ protocol })).toEqual({
    error: 'UNKNOWN_PROTOCOL',
    detail: `protocol is ${JSON.stringify(protocol)}, expected http, mcp or a2a`,
  });
});
