import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createVerifier, type Verdict } from '../../src/index.js';
import { openRevocation, type Revocation } from '../../src/revocation/index.js';
import { invoke, makeChain } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';
import { ListServer } from './list-server.js';
import { LIST_ID, listWith } from './lists.js';
import { Recorder } from './recorder.js';

// On real time, with a real server that fails as servers do.

const VC = 'application/vc';

let server: ListServer;
let recorder: Recorder;
let revocation: Revocation | null = null;

beforeEach(async () => {
  server = await ListServer.start();
  recorder = new Recorder();
});

afterEach(async () => {
  await revocation?.close();
  revocation = null;
  await server.close();
});

async function open(list: {
  ttlSecs?: number;
  maxStaleSecs?: number;
  maxWaitMs?: number;
}): Promise<Revocation> {
  revocation = await openRevocation({
    statusList: { url: server.url, id: LIST_ID, ttlSecs: 1, maxStaleSecs: 0, maxWaitMs: 2_000, ...list },
    maxEntries: 10,
    log: recorder.log,
    observer: recorder,
  });
  return revocation;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const hang = () => {
  server.respond = () => undefined;
};

describe('a list that hangs', () => {
  test('holds nobody up while a stale copy is allowed, and is asked once', async () => {
    server.serve(VC, listWith([7]));
    const { refreshIfStale, view } = bound(await open({ maxStaleSecs: 3600 }));
    await recorder.fetched(1);
    hang();
    await pause(1000);
    for (let verification = 0; verification < 1000; verification++) {
      expect(refreshIfStale()).toBe(null);
      expect(view.remoteStatusOf(7)).toBe('revoked');
    }
    await eventually(() => expect(server.requests).toHaveLength(2));
    expect(refreshIfStale()).toBe(null);
  });

  test('holds up those that need it for a bounded time, and whoever comes later not at all', async () => {
    hang();
    const asked = server.asked();
    const { refreshIfStale, view } = bound(await open({ maxWaitMs: 300 }));
    const waiting = Array.from({ length: 100 }, () => refreshIfStale());
    expect(waiting).not.toContain(null);
    for (const wait of waiting) await wait;
    // The fetch is still under way, and nobody waits for it any more.
    expect(recorder.outcomes).toEqual([]);
    expect([refreshIfStale(), view.remoteStatusOf(7)]).toEqual([null, 'unavailable']);
    await asked;
    expect(server.requests).toHaveLength(1);
  });

  test('is taken over when it comes late after all', async () => {
    const responses: (() => void)[] = [];
    server.respond = (_, response) => {
      responses.push(() => response.writeHead(200, { 'content-type': VC }).end(listWith([7])));
    };
    const { refreshIfStale, view } = bound(await open({ ttlSecs: 300, maxWaitMs: 1 }));
    await refreshIfStale();
    expect(view.remoteStatusOf(7)).toBe('unavailable');
    await eventually(() => expect(responses).toHaveLength(1));
    responses[0]?.();
    await recorder.fetched(1);
    expect([refreshIfStale(), view.remoteStatusOf(7)]).toEqual([null, 'revoked']);
  });
});

test('a list that answers 500 is asked about once a second, however many need it, and recovers', async () => {
  server.serve(VC, listWith([7]));
  const opened = await open({});
  const { refreshIfStale, view } = bound(opened);
  await recorder.fetched(1);
  // By its own clock: a timer may ring a millisecond before that.
  await eventually(() => expect(opened.list?.ageSecs).toBeGreaterThanOrEqual(1));
  server.respond = (_, response) => response.writeHead(500).end();
  const startedAt = Date.now();
  const fetches = () => server.requests.length - 1;
  let verifications = 0;
  const refuse = async () => {
    for (; fetches() < 3; verifications++) {
      await refreshIfStale();
      expect(view.remoteStatusOf(7)).toBe('unavailable');
      await pause(10);
    }
  };
  await Promise.all(Array.from({ length: 20 }, refuse));
  expect(fetches()).toBeLessThanOrEqual(1 + (Date.now() - startedAt) / 1000);
  expect(verifications).toBeGreaterThan(fetches());
  expect(opened.unreadyReasons()).toEqual(['status_list_stale']);
  server.serve(VC, listWith([7]));
  await eventually(() => expect(opened.unreadyReasons()).toEqual([]));
});

test('a verification without an index does not wait for a list that hangs', async () => {
  hang();
  const [withIndex, ...withoutIndex] = [
    invoke(makeChain(1, { 0: { drs_status_list_index: 7 } })),
    ...Array.from({ length: 50 }, () => invoke(makeChain(1))),
  ];
  const verifier = createVerifier({
    statusListBaseUrl: server.url,
    statusListId: LIST_ID,
    statusFetchTimeoutMs: 10_000,
    workerThreads: 0,
  });
  try {
    const revocable = verifier.verify(withIndex);
    const plain = withoutIndex.map((bundle) => verifier.verify(bundle));
    const first = await Promise.race([revocable, Promise.all(plain)]);
    expect(Array.isArray(first) && first.every(({ valid }) => valid)).toBe(true);
    await eventually(() => expect(server.requests).toHaveLength(1));
    server.requests[0]?.socket.resetAndDestroy();
    expect((await revocable).error?.code).toBe('REVOCATION_CHECK_FAILED');
  } finally {
    await verifier.close();
  }
});

test('a list that is down makes nobody unready who has had it, and ready again whoever has not', async () => {
  const env = {
    STATUS_LIST_BASE_URL: server.url,
    STATUS_LIST_ID: LIST_ID,
    STATUS_CACHE_TTL_SECS: '1',
    STATUS_FETCH_TIMEOUT_MS: '100',
  };
  const readinessOf = async ({ url }: RunningService) => {
    const response = await fetch(`${url}/readyz`);
    return [response.status, await response.json()];
  };
  const notReady = (reason: string) => [503, { status: 'not_ready', reason, reasons: [reason] }];
  const ready = [200, { status: 'ready' }];
  const readyBut = (reason: string) => [200, { status: 'ready', reasons: [reason] }];
  hang();
  const usual = await startService(env);
  const strict = await startService({ ...env, READY_WITHOUT: 'none' });
  const lenient = await startService({ ...env, READY_WITHOUT: 'list' });
  const services = [usual, strict, lenient];
  const codesOf = async (claims: object) => {
    const bundle = invoke(makeChain(1, { 0: claims as Record<string, unknown> }));
    const answers = await Promise.all(services.map((service) => service.post('/verify', bundle)));
    const verdicts = (await Promise.all(answers.map((answer) => answer.json()))) as Verdict[];
    return new Set(verdicts.map(({ error }) => error?.code ?? 'valid'));
  };
  try {
    // Never fetched: whoever starts without the list says so.
    for (const service of [usual, strict])
      expect(await readinessOf(service)).toEqual(notReady('status_list_not_fetched'));
    expect(await readinessOf(lenient)).toEqual(readyBut('status_list_not_fetched'));
    server.serve(VC, listWith([]));
    for (const { socket } of server.requests) socket.resetAndDestroy();
    for (const service of services)
      await eventually(async () => expect(await readinessOf(service)).toEqual(ready), 200);
    hang();
    await eventually(async () =>
      expect(await codesOf({ drs_status_list_index: 7 })).toEqual(new Set(['REVOCATION_CHECK_FAILED'])),
    );
    // Calls that need no list are allowed, and so get here.
    expect(await codesOf({})).toEqual(new Set(['valid']));
    for (const service of [usual, lenient])
      expect(await readinessOf(service)).toEqual(readyBut('status_list_stale'));
    expect(await readinessOf(strict)).toEqual(notReady('status_list_stale'));
    server.serve(VC, listWith([]));
    for (const { socket } of server.requests) socket.resetAndDestroy();
    for (const service of services)
      await eventually(async () => expect(await readinessOf(service)).toEqual(ready), 200);
  } finally {
    await Promise.all(services.map((service) => service.stop()));
  }
});

/** The parts of a revocation, without its `this`. */
const bound = (opened: Revocation) => ({ refreshIfStale: () => opened.refreshIfStale(), view: opened.view });
