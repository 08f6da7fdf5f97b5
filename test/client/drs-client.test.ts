import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { DrsClient, DrsClientError, type DrsClientOptions } from '../../src/client/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { drsFetch } from '../../src/middleware/index.js';
import { liveCall, liveChain, OPEN_ROUTE } from '../middleware/call.js';
import { listen, type TestServer } from '../middleware/http.js';
import { startTestService } from '../middleware/sources.js';
import { unusedPort } from '../support/ports.mjs';

const chain = liveChain();
const args = { tool: 'search', query: 'tea' };
const bundle = liveCall(chain, args);
const signedNull = liveCall(chain, { tool: 'search', n: null });

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});
const clientOf = (url: string, options: DrsClientOptions = {}) => {
  // Only where a test is about time may a call run out of it.
  const client = new DrsClient(url, { timeoutMs: 60_000, ...options });
  closing.push(client);
  return client;
};
const fake = async (listener: RequestListener): Promise<TestServer> => {
  const server = await listen(listener);
  closing.push(server);
  return server;
};
const valid = JSON.stringify({
  valid: true,
  context: { root_principal: 'did:key:z', chain_depth: 1, leaf_policy: {} },
});
const answer = (res: ServerResponse, status: number, body: string, headers = {}) =>
  res.writeHead(status, headers).end(body);

/** What is checked with a service and in this process. */
const CASES: readonly (readonly [
  string,
  unknown,
  { readonly body?: unknown; readonly bodyText?: string },
])[] = [
  ['no body', bundle, {}],
  ['a body that matches', bundle, { body: args }],
  ['a body that does not', bundle, { body: { tool: 'fetch' } }],
  ['a body of null', bundle, { body: null }],
  ['a body text', bundle, { bodyText: JSON.stringify(args) }],
  ['a body text of several lines', bundle, { bodyText: JSON.stringify(args, null, 2) }],
  ['a body text that is no JSON', bundle, { bodyText: '{' }],
  ['a body text that is empty', bundle, { bodyText: '' }],
  ['a body text that ends its member', bundle, { bodyText: `1,"receipts":[]` }],
  ['a body text with a duplicate', bundle, { bodyText: '{"tool":"fetch","tool":"search","query":"tea"}' }],
  ['a body text in place of a body', bundle, { body: args, bodyText: '{}' }],
  ['a body text and no bundle', {}, { bodyText: '{}' }],
  ['a bundle with a body of its own', { ...bundle, body: args }, {}],
  ['a body in place of the own one', { ...bundle, body: {} }, { body: args }],
  ['an invalid chain', { ...bundle, receipts: [] }, { body: args }],
  ['no bundle', null, { body: args }],
  ['an array', [], {}],
  ['an infinity for a signed null', signedNull, { body: { tool: 'search', n: Infinity } }],
  ['an infinity in the own body', { ...signedNull, body: { tool: 'search', n: Infinity } }, {}],
  ['details of what cannot be sent', { ...bundle, details: true }, { bodyText: '{' }],
];

let service: Awaited<ReturnType<typeof startTestService>>;
const verifier = createVerifier({ workerThreads: 0 });
beforeAll(async () => {
  // A busy machine must not make it refuse calls.
  service = await startTestService();
});
afterAll(async () => {
  await service.close();
  await verifier.close();
});

/** Over undici and over fetch, everything is the same. */
describe.each([
  ['a pool', {}],
  ['fetch', { fetch: globalThis.fetch }],
])('the client over %s', (_, transport: DrsClientOptions) => {
  describe('with a service', () => {
    it.each(CASES)('checks %s as a verifier of this process does', async (_name, presented, call) => {
      const client = clientOf(service.url, transport);
      expect(await client.verify(presented, call)).toEqual(await verifier.verify(presented, call));
    });
  });

  it('keeps its connections for one call after another', async () => {
    const server = await fake((_req, res) => answer(res, 200, valid));
    let connections = 0;
    server.server.on('connection', () => connections++);
    const client = clientOf(server.url, transport);
    for (let call = 0; call < 20; call++) await client.verify({});
    // A pool may open a second connection while the first is still being closed.
    expect(connections).toBeLessThanOrEqual(2);
  });

  it('tries again after a 503, for which nothing was checked', async () => {
    const answers = [503, 503, 200];
    const server = await fake((_req, res) =>
      answer(res, answers.shift() ?? 500, valid, { 'Retry-After': '0' }),
    );
    expect(await clientOf(server.url, transport).verify({})).toMatchObject({ valid: true });
  });

  it('gives up after its retries', async () => {
    let requests = 0;
    const server = await fake((_req, res) => {
      requests++;
      answer(res, 503, '{"error":"overloaded"}');
    });
    const verdict = clientOf(server.url, { ...transport, retries: 1 }).verify({});
    await expect(verdict).rejects.toMatchObject({ name: 'DrsClientError', code: 'overloaded', status: 503 });
    expect(requests).toBe(2);
  });

  it.each<[code: string, status: number, body: string, says: string]>([
    [
      'rejected',
      404,
      'Cannot POST',
      'answered 404 Cannot POST; check that the address is that of a drs-verify',
    ],
    ['rejected', 413, '{}', 'the service answered 413 {}; raise its MAX_BODY_BYTES, or send less'],
    ['rejected', 500, '{}', 'the service answered 500 {}; check that the address'],
    ['overloaded', 429, '{}', 'the service answered 429 {}; try again in a moment'],
    [
      'not_a_verdict',
      200,
      '<html>',
      'is not a verdict; check that the address is that of a drs-verify service',
    ],
    ['not_a_verdict', 200, '{"valid":true}', ''],
    ['not_a_verdict', 200, '{"valid":"true"}', ''],
    ['not_a_verdict', 200, '{"valid":false}', ''],
    ['not_a_verdict', 200, `${valid.slice(0, -1)},"binding":"match"}`, ''],
  ])('says %s to a %i of %j, having asked once', async (code, status, body, says) => {
    let requests = 0;
    const server = await fake((_req, res) => {
      requests++;
      answer(res, status, body);
    });
    const verdict = clientOf(server.url, transport).verify({});
    await expect(verdict).rejects.toThrow(DrsClientError);
    await expect(verdict).rejects.toMatchObject({ code, message: expect.stringContaining(says) as string });
    expect(requests).toBe(1);
  });

  it('says that the connection was lost, having asked once', async () => {
    let requests = 0;
    const server = await fake((_req, res) => {
      requests++;
      res.destroy();
    });
    const verdict = clientOf(server.url, transport).verify({});
    await expect(verdict).rejects.toMatchObject({ name: 'DrsClientError', code: 'interrupted' });
    expect(requests).toBe(1);
  });

  it('follows no redirect', async () => {
    const server = await fake((req, res) =>
      req.url === '/valid' ? answer(res, 200, valid) : answer(res, 307, '', { Location: '/valid' }),
    );
    const verdict = clientOf(server.url, transport).verify({});
    await expect(verdict).rejects.toMatchObject({ name: 'DrsClientError', code: 'not_a_verdict' });
  });

  it('does not take a valid verdict that says nothing about the body', async () => {
    const server = await fake((_req, res) => answer(res, 200, valid));
    const verdict = clientOf(server.url, transport).verify({}, { body: args });
    await expect(verdict).rejects.toMatchObject({ code: 'not_a_verdict' });
  });

  it.each<[string, RequestListener]>([
    ['an answer', () => undefined],
    ['a retry', (_req, res) => answer(res, 503, '', { 'Retry-After': '3600' })],
  ])('waits no longer than it may for %s', async (__, listener) => {
    const server = await fake(listener);
    const verdict = clientOf(server.url, { ...transport, timeoutMs: 50 }).verify({});
    await expect(verdict).rejects.toMatchObject({ code: 'timeout' });
  });

  it('says where nobody answers', async () => {
    const url = `http://127.0.0.1:${await unusedPort()}`;
    const verdict = clientOf(url, { ...transport, retries: 1 }).verify({});
    await expect(verdict).rejects.toMatchObject({ code: 'unreachable' });
    await expect(verdict).rejects.toThrow(`cannot connect to ${url}: `);
  });

  it('connects once somebody does', async () => {
    const port = await unusedPort();
    const options = { ...transport, retries: 10_000, timeoutMs: 60_000 };
    const verdict = clientOf(`http://127.0.0.1:${port}`, options).verify({});
    const late = createServer((_req, res) => answer(res, 200, valid)).listen(port, '127.0.0.1');
    closing.push({ close: promisify(late.close.bind(late)) });
    expect(await verdict).toMatchObject({ valid: true });
  });
});

describe('a client', () => {
  it.each(['', 'localhost:8080', 'ftp://host', 'http://user:hunter2@host'])('is not made for %j', (url) => {
    expect(() => new DrsClient(url)).toThrow('not an http or https URL without credentials');
    expect(() => new DrsClient(url)).not.toThrow('hunter2');
  });

  it('speaks http: to another machine only if it is told to in so many words', () => {
    for (const url of [
      'http://drs.example',
      'http://10.0.0.7:8080',
      'http://localhost.example',
      'http://0.0.0.0',
    ]) {
      expect(() => new DrsClient(url)).toThrow('allowHttp: true');
      expect(() => drsFetch({ ...OPEN_ROUTE, verifyUrl: url }, () => new Response())).toThrow(
        'allowHttp: true',
      );
      expect(new DrsClient(url, { allowHttp: true })).toBeInstanceOf(DrsClient);
    }
    for (const url of [
      'http://localhost:8080',
      'http://127.9.0.1',
      'http://[::1]:8080',
      'https://drs.example',
    ])
      expect(new DrsClient(url)).toBeInstanceOf(DrsClient);
  });

  it('refuses an option of a call that it does not know', async () => {
    const misspelt = { BodyText: '{}' } as object;
    await expect(clientOf('http://127.0.0.1:1').verify(bundle, misspelt)).rejects.toThrow(
      /^BodyText is not an option here, expected one of .*bodyText/,
    );
  });

  it('checks nothing once it is closed', async () => {
    const client = new DrsClient('http://127.0.0.1:1');
    await client.close();
    await expect(client.verify({})).rejects.toMatchObject({ code: 'unreachable' });
  });
});

it('a client asks a service about many calls at once, and gets the same verdicts', async () => {
  const types: unknown[] = [];
  const fetch: typeof globalThis.fetch = (url, init) => {
    types.push(new Headers(init?.headers).get('content-type'));
    return globalThis.fetch(url, init);
  };
  const client = clientOf(service.url, { fetch });
  const given = await Promise.all(CASES.map(([, presented, call]) => client.verify(presented, call)));
  expect(types).toEqual(['application/x-ndjson']);
  for (const [at, [, presented, call]] of CASES.entries())
    expect(given[at]).toEqual(await verifier.verify(presented, call));
});
