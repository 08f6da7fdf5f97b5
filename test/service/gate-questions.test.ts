import { expect, it } from 'vitest';
import { readCheck } from '../../src/service/grpc/check.js';
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

it('takes the query of a question over gRPC from one place', () => {
  const ask = (path: string, query: string) => {
    const http = { method: 'GET', path, query, headers: [], body: Buffer.alloc(0), rawBody: Buffer.alloc(0) };
    const question = readCheck({ attributes: { request: { http } } } as never, 'http', 1000);
    return typeof question === 'string' ? question : question.request.path;
  };
  expect(ask('/a?b=1', '')).toBe('/a?b=1');
  expect(ask('/a', 'b=1')).toBe('/a?b=1');
  for (const path of ['/a?', '/a?b=1', '/a?c'])
    expect(ask(path, 'b=1')).toBe(
      'attributes.request.http has a query both in path and in query: have the gateway send one',
    );
});
