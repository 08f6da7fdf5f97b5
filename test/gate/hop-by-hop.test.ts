import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import type { Protocol } from '../../src/gate/codes.js';
import { denyHopByHop, GATE_PROTOCOLS, openRequest } from '../../src/gate/open.js';
import { readHeaders } from '../../src/gate/request.js';
import { drsContext, drsMiddleware } from '../../src/middleware/index.js';
import { OPEN_ROUTE } from '../middleware/call.js';
import { listen } from '../middleware/http.js';
import { httpCall, mcpBundle } from './attacks.js';
import { verifier } from './decide.js';

const deny = (headers: Record<string, unknown>) => denyHopByHop('mcp', { headers: readHeaders(headers) });

it.each([
  {},
  { Connection: 'close' },
  { connection: 'Keep-Alive' },
  { Connection: ' keep-alive , close,, ' },
  { Connection: ['close', 'keep-alive'] },
  { Connection: '' },
])('a request stays what it is with %j', (headers) => {
  expect(deny(headers)).toBeNull();
});

it.each([
  [{ Upgrade: 'websocket' }, 'the header Upgrade is "websocket", expected none'],
  [{ upgrade: '' }, 'the header Upgrade is "", expected none'],
  [{ Connection: 'Upgrade' }, 'the header Connection names "Upgrade", expected close or keep-alive'],
  [{ Connection: ['close', 'close, X-DRS-Agent'] }, 'names "X-DRS-Agent", expected'],
  [{ Connection: 'close keep-alive' }, 'names "close keep-alive", expected'],
  [{ Connection: 'x'.repeat(1000) }, `names "${'x'.repeat(200)}…", expected`],
])('a request would become another one with %j', (headers, message) => {
  expect(deny(headers)).toMatchObject({
    kind: 'deny',
    protocol: 'mcp',
    failure: { code: 'HOP_BY_HOP_HEADER', status: 400, message: expect.stringContaining(message) as string },
  });
});

const RULES = { routes: 'any' } as const;
const open = (protocol: Protocol, path: string | null, headers: object = {}, rules: object = RULES) =>
  openRequest(
    protocol,
    { method: 'POST', target: path, headers: readHeaders({ ...headers }), body: { kind: 'unread' } },
    rules,
  );

it.each(GATE_PROTOCOLS)('no proxy may ask about such a request over %s', (protocol) => {
  expect(open(protocol, '/a', { Upgrade: 'websocket' })).toMatchObject({
    kind: 'deny',
    protocol,
    failure: { code: 'HOP_BY_HOP_HEADER' },
  });
});

it('a path over MCP has no query, and one meaning', () => {
  for (const path of ['/mcp?a=1', '/mcp?', '/a/../b', '/a;b'])
    expect(open('mcp', path)).toMatchObject({
      ...{ kind: 'deny', protocol: 'mcp', id: null, requested: null },
      failure: {
        code: 'INVALID_PATH',
        message: 'the path has a query, which is not signed over MCP, or servers could read it in two ways',
      },
    });
  for (const path of ['/mcp', null])
    expect(open('mcp', path)).not.toMatchObject({ failure: { code: 'INVALID_PATH' } });
});

it('a tool server takes the offer of h2c that an HTTP client makes with each request, and ignores it', async () => {
  const drs = drsMiddleware({ ...OPEN_ROUTE, verifier });
  const server = await listen((req, res) => drs(req, res, () => res.end(drsContext(req).tool)));
  const req = request(server.url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-DRS-Bundle': mcpBundle(),
      Connection: 'Upgrade, HTTP2-Settings',
      Upgrade: 'h2c',
      'HTTP2-Settings': 'AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA',
    },
  });
  req.end(httpCall);
  const [res] = (await once(req, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of res.setEncoding('utf8')) text += chunk as string;
  expect([res.statusCode, text]).toEqual([200, 'search']);
  await server.close();
});
