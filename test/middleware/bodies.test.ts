import { EventEmitter, once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import * as http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import mocks from 'node-mocks-http';
import { afterAll, describe, expect, it, vi, type TestOptions } from 'vitest';
import { drsA2a } from '../../src/middleware/a2a/index.js';
import { createMemoryReplayStore, drsMiddleware } from '../../src/middleware/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { makeCertificate } from '../support/certificates.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { ADAPTERS, overHttp, overHttp2, readByEvents, type MakeAdapter, type Sent } from './adapters.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';

// A body is absent when its stream has ended without a byte, and for no other reason. Whoever reads it after the gate finds it whole.

const folder = mkdtempSync(path.join(tmpdir(), 'drs-bodies-'));
const verifier = createVerifier({ workerThreads: 0 });
afterAll(async () => {
  await verifier.close();
  rmSync(folder, { recursive: true });
});
const options = () => ({
  verifier,
  ...OPEN,
  replayStore: createMemoryReplayStore(),
  onError: () => undefined,
});

const chain = liveChain();
const body = '{"query":"tea"}';
const route = () => ({ ...options(), tool: 'search', parameters: () => ({}) });
const signed = (hasBody: boolean) =>
  encode(liveCall(chain, { tool: 'search', ...(hasBody && { query: 'tea' }) }));

const agents = liveChain(1, { cmd: '/a2a', policy: {} });
type Asked = [method: Sent['method'], isStated: boolean, isSent: boolean];
const POSTS: Asked[] = [true, false].flatMap((isStated): Asked[] => [
  ['POST', isStated, true],
  ['POST', isStated, false],
]);
/** HTTP/1.1 tells of the body of a GET with neither header that there is none, and nothing else does. */
const ALL: Asked[] = [...POSTS, ['GET', false, false]];
const HTTP: typeof A2A = { sent: body, path: '/', signed, requests: ALL };
const NODE: typeof A2A = { ...HTTP, requests: [...ALL, ['GET', false, true], ['GET', true, true]] };

/** A call of A2A over REST whose method takes a body, or none. */
const A2A = {
  sent: '{"metadata":{"amount":1000000}}',
  path: '/v1/tasks/7:cancel',
  requests: POSTS,
  signed: (hasBody: boolean) =>
    encode(
      liveCall(
        agents,
        { tool: 'CancelTask', path: '/v1', id: '7', ...(hasBody && { metadata: { amount: 1e6 } }) },
        { cmd: '/a2a/CancelTask' },
      ),
    ),
};
const a2a =
  (overWhat: typeof overHttp): MakeAdapter =>
  () => {
    const drs = drsA2a(options());
    return overWhat((req, res) => drs(req, res, () => readByEvents(req, res)));
  };

const TABLE: [string, MakeAdapter, typeof A2A, TestOptions?][] = [
  ...Object.entries(ADAPTERS).map(
    ([name, make]) =>
      [name, () => make(route()), name.startsWith('node:') ? NODE : HTTP] as [
        string,
        MakeAdapter,
        typeof A2A,
      ],
  ),
  [
    'node:http2 with TLS',
    () => {
      const drs = drsMiddleware(route());
      const { certFile, keyFile } = makeCertificate(folder, 'localhost');
      const tls = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
      return overHttp2((req, res) => drs(req, res, () => readByEvents(req, res)), tls);
    },
    NODE,
    needs('openssl'),
  ],
  ['drsA2a over HTTP/1.1', a2a(overHttp), A2A],
  ['drsA2a over HTTP/2', a2a(overHttp2), A2A],
];

describe.each(TABLE)('%s', (_, make, call, needed = {}) => {
  it(
    'refuses a body that was not signed, and a signed one that is not there; the handler reads what was signed',
    needed,
    async () => {
      const adapter = await make({});
      const found: [string, number, string | undefined][] = [];
      const expected: typeof found = [];
      for (const [method, isStated, isSent] of call.requests)
        for (const isSigned of [true, false]) {
          const headers = { 'x-drs-bundle': call.signed(isSigned), 'content-type': 'application/json' };
          const what = isSent ? call.sent : null;
          const sent: Sent = { method, path: call.path, headers, body: what, isStated };
          const name = `${method}, ${isSigned ? '' : 'un'}signed, ${isSent ? '' : 'not '}sent, length ${isStated ? '' : 'not '}stated`;
          const got = await adapter.ask(sent);
          found.push([name, got.status, got.read]);
          expected.push(isSigned === isSent ? [name, 200, what ?? ''] : [name, 403, undefined]);
        }
      await adapter.close?.();
      expect(found).toEqual(expected);
    },
  );
});

it('over HTTP/2, a call whose client leaves while it is checked is not executed, and no warning comes', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => void warnings.push(warning);
  process.on('warning', note);
  let [ran, left] = [0, () => undefined as unknown];
  const hasLeft = new Promise((resolve) => (left = () => resolve(undefined)));
  const waiting = {
    verify: async (...call: Parameters<typeof verifier.verify>) => (await hasLeft, verifier.verify(...call)),
  };
  const store = createMemoryReplayStore();
  const use = vi.spyOn(store, 'use');
  const drs = drsMiddleware({ ...route(), verifier: waiting, replayStore: store, maxBodyBytes: 20 });
  const server = http2.createServer((req, res) => {
    req.once('aborted', left);
    drs(req as never, res as never, () => ran++);
  });
  server.listen(0);
  await once(server, 'listening');
  const session = http2.connect(`http://localhost:${(server.address() as AddressInfo).port}`);
  const head = () => ({ ':method': 'POST', 'x-drs-bundle': signed(false) });
  const tooLarge = session.request(head());
  tooLarge.end('x'.repeat(21));
  expect((await once(tooLarge, 'response'))[0]).toMatchObject({ ':status': 413 });
  const leaving = session.request(head());
  leaving.on('error', () => undefined).end();
  await once(server, 'stream');
  leaving.close(http2.constants.NGHTTP2_CANCEL);
  await eventually(() => expect(use.mock.results).toHaveLength(1));
  await use.mock.results[0]?.value;
  await setImmediate();
  session.destroy();
  server.close();
  process.off('warning', note);
  expect([ran, warnings]).toEqual([0, []]);
});

it.each(['nothing', 'a parsed body'])(
  'a mock of a request that shows %s but not its bytes is refused',
  async (what) => {
    let ran = 0;
    const errors: Error[] = [];
    const drs = drsMiddleware({ ...route(), onError: (error) => void errors.push(error) });
    const headers = { 'x-drs-bundle': signed(false), 'content-type': 'application/json' };
    const found = what === 'nothing' ? {} : { body: { query: 'tea' } };
    const req = mocks.createRequest({ method: 'POST', url: '/', headers, ...found });
    const res = mocks.createResponse({ eventEmitter: EventEmitter });
    const ended = once(res, 'end');
    drs(req as never, res as never, () => ran++);
    await ended;
    expect([res.statusCode, ran, String(errors)]).toEqual([503, 0, expect.stringContaining('req.rawBody')]);
  },
);
