import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Agent } from 'undici';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { openRevocation } from '../../src/revocation/index.js';
import type { Revocation, RevocationOptions, StatusListOptions } from '../../src/revocation/index.js';
import { ListServer } from './list-server.js';
import { bitsWith, listWith, credentialWith, LIST_ID, newIssuer, toJwt } from './lists.js';
import { asked } from './entries.js';
import { Recorder } from './recorder.js';

const VC = 'application/vc';

let server: ListServer;
let recorder: Recorder;
let now: number;
const opened: Revocation[] = [];

beforeEach(async () => {
  // Background retries come when a test says so, and never in between.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  server = await ListServer.start();
  recorder = new Recorder();
  now = Date.parse('2026-06-01T12:00:00Z');
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  for (const revocation of opened.splice(0)) await revocation.close();
  await server.close();
});

async function open(
  list: Partial<StatusListOptions> | null = {},
  options: Partial<RevocationOptions> = {},
): Promise<Revocation> {
  const defaults = { url: server.url, id: LIST_ID, ttlSecs: 300, maxStaleSecs: 0, maxWaitMs: 2_000 };
  const revocation = await openRevocation({
    ...(list === null ? {} : { statusList: { ...defaults, ...list } }),
    ...{ log: recorder.log, observer: recorder, maxEntries: 10, now: () => now },
    ...options,
  });
  opened.push(revocation);
  return revocation;
}

/** With the first fetch done. */
async function openWith(revoked: number[], list: Partial<StatusListOptions> = {}): Promise<Revocation> {
  server.serve(VC, listWith(revoked));
  return openFetched(list);
}

async function openFetched(list: Partial<StatusListOptions> = {}): Promise<Revocation> {
  const revocation = await open(list);
  await recorder.fetched(1);
  return revocation;
}

/** Counts the fetches that begin from now on, at the moment at which they begin. */
const countFetches = () => vi.spyOn(Agent.prototype, 'dispatch');

/** Long enough for the next fetch to start. */
const NEXT_FETCH_MS = 1250;

const statusIn = ({ view }: Revocation, index = 7) => view.remoteStatusOf(index);

/** As a verification asks; whether it has waited, and the status of index 7. */
async function ask(revocation: Revocation): Promise<string> {
  await revocation.refreshIfStale();
  return statusIn(revocation);
}

/** The status of index 7 for a verification that must not wait. */
function askAtOnce(revocation: Revocation): string {
  expect(revocation.refreshIfStale()).toBe(null);
  return statusIn(revocation);
}

const askAll = async (revocation: Revocation) =>
  new Set(await Promise.all(Array.from({ length: 500 }, () => ask(revocation))));

test('without a list nothing is fetched, the service is ready, and only the local store counts', async () => {
  const revocation = await open(null);
  expect([revocation.unreadyReasons(), revocation.list]).toEqual([[], null]);
  expect(askAtOnce(revocation)).toBe('not_configured');
  await revocation.revoke(asked(5));
  expect([5, 6].map((index) => revocation.view.isRevokedLocally(index))).toEqual([true, false]);
  expect(recorder.lookups).toEqual(['local true', 'local false']);
  const { entries, isCurrent, copyAgeSecs } = revocation.store;
  expect([entries.size, isCurrent, copyAgeSecs]).toEqual([1, true, Number.NaN]);
});

test('an observer is not needed', async () => {
  server.serve(VC, listWith([7]));
  const unobserved = await open({}, { observer: undefined });
  expect(await ask(unobserved)).toBe('revoked');
  expect(unobserved.view.isRevokedLocally(7)).toBe(false);
});

describe('readiness', () => {
  test('comes without traffic, as soon as the list has been fetched', async () => {
    const revocation = await open();
    expect([revocation.list?.entries, revocation.list?.ageSecs]).toEqual([0, Number.NaN]);
    await recorder.fetched(1);
    expect(revocation.unreadyReasons()).toEqual(['status_list_not_fetched']);
    server.reset();
    vi.advanceTimersByTime(2_000);
    await recorder.fetched(2);
    expect(revocation.unreadyReasons()).toEqual(['status_list_not_fetched']);
    server.serve(VC, listWith([7]));
    vi.advanceTimersByTime(4_000);
    await recorder.fetched(3);
    expect(revocation.unreadyReasons()).toEqual([]);
    expect(recorder.outcomes).toEqual(['http_status', 'unreachable', 'updated']);
    expect(askAtOnce(revocation)).toBe('revoked');
  });

  test('ends when the copy is too old and refusals have begun, and comes back without traffic', async () => {
    const revocation = await openWith([7], { maxStaleSecs: 60 });
    server.reset();
    now += 359_999;
    expect(await ask(revocation)).toBe('revoked');
    await recorder.fetched(2);
    now += 1;
    // Nobody has been refused yet: the next verification may well find the list there.
    expect(revocation.unreadyReasons()).toEqual([]);
    now += NEXT_FETCH_MS;
    expect(await ask(revocation)).toBe('unavailable');
    expect(revocation.unreadyReasons()).toEqual(['status_list_stale']);
    server.serve(VC, listWith([]));
    vi.advanceTimersByTime(4_000);
    await recorder.fetched(4);
    expect(revocation.unreadyReasons()).toEqual([]);
    expect(statusIn(revocation)).toBe('not_revoked');
  });

  test('with maxWaitMs, a verification waits for so long from the start of the fetch', async () => {
    server.respond = () => undefined;
    const revocation = await open({ maxWaitMs: 300 });
    let isOver = false;
    vi.advanceTimersByTime(100);
    const waiting = revocation.refreshIfStale()?.then(() => (isOver = true));
    vi.advanceTimersByTime(199);
    await nextTurn();
    expect(isOver).toBe(false);
    vi.advanceTimersByTime(1);
    await waiting;
    expect(askAtOnce(revocation)).toBe('unavailable');
  });

  test('without traffic, retries become rarer up to one in 30 s', async () => {
    const revocation = await openWith([7]);
    const fetches = countFetches();
    server.reset();
    now += 240_000;
    askAtOnce(revocation);
    await recorder.fetched(2);
    for (const [at, secs] of [2, 4, 8, 16, 30, 30, 30, 30, 30].entries()) {
      const before = fetches.mock.calls.length;
      let waited = 0;
      for (; waited < 60_000 && fetches.mock.calls.length === before; waited += 100)
        vi.advanceTimersByTime(100);
      expect(waited).toBeLessThanOrEqual(secs * 1000 + 100);
      expect(waited).toBeGreaterThanOrEqual(secs * 500);
      await recorder.fetched(3 + at);
    }
  });

  test('a verification that comes before it waits for the fetch under way', async () => {
    server.respond = () => undefined;
    const asked = server.asked();
    const revocation = await open();
    const waiting = revocation.refreshIfStale();
    expect(waiting).toBeInstanceOf(Promise);
    expect(revocation.refreshIfStale()).toBe(waiting);
    await asked;
    server.serve(VC, listWith([7]));
    server.requests[0]?.socket.resetAndDestroy();
    await waiting;
    expect(statusIn(revocation)).toBe('unavailable');
    now += NEXT_FETCH_MS;
    expect(await ask(revocation)).toBe('revoked');
  });
});

describe('the copy', () => {
  test('answers for every index, the last and those beyond', async () => {
    const revocation = await openWith([0, 131_071]);
    const status = (index: number) => statusIn(revocation, index);
    const [yes, no] = ['revoked', 'not_revoked'];
    expect([0, 1, 131_070, 131_071].map(status)).toEqual([yes, no, no, yes]);
    // 2^32 and 2^32 + 131,071 would wrap round to entries that are set.
    const beyond = [131_072, 2 ** 32, 2 ** 32 + 131_071, Number.MAX_SAFE_INTEGER];
    expect(beyond.map(status)).toEqual(beyond.map(() => 'out_of_range'));
    expect(recorder.lookups).toEqual(['remote true', 'remote false', 'remote false', 'remote true']);
    now += 5000;
    expect([revocation.list?.entries, revocation.list?.ageSecs]).toEqual([131_072, 5]);
  });

  test('is asked for again a second after the last request, and not while one is under way', async () => {
    const begin = performance.now();
    const revocation = await openWith([7], { ttlSecs: 1, maxStaleSecs: 60 });
    expect(recorder.durations[0]).toBeLessThanOrEqual(performance.now() - begin);
    const fetches = countFetches();
    server.respond = () => undefined;
    for (const [ms, count] of [
      [999, 0],
      [1, 1],
      [5_000, 1],
    ] as const) {
      now += ms;
      void revocation.refreshIfStale();
      expect(fetches).toHaveBeenCalledTimes(count);
    }
  });

  test('serves for its TTL; then one fetch serves 500 verifications at once', async () => {
    const revocation = await openWith([]);
    server.serve(VC, listWith([7]));
    now += 300_000;
    expect(await askAll(revocation)).toEqual(new Set(['revoked']));
    expect(server.requests).toHaveLength(2);
  });

  test('all who waited for a fetch that fails are refused; a second later the next one tries again', async () => {
    const revocation = await openWith([]);
    now += 300_000;
    server.reset();
    expect(await askAll(revocation)).toEqual(new Set(['unavailable']));
    expect([revocation.refreshIfStale(), server.requests.length]).toEqual([null, 2]);
    server.serve(VC, listWith([7]));
    now += 999;
    // Refused at once: another fetch so soon would press a server that is in trouble.
    expect(askAtOnce(revocation)).toBe('unavailable');
    expect(server.requests).toHaveLength(2);
    now += 251;
    expect(await ask(revocation)).toBe('revoked');
    expect(server.requests).toHaveLength(3);
  });

  test('is refreshed ahead in the last fifth of its TTL, and nobody waits', async () => {
    const revocation = await openWith([]);
    server.serve(VC, listWith([7]));
    const fetches = countFetches();
    now += 239_999;
    askAtOnce(revocation);
    expect(fetches).not.toHaveBeenCalled();
    now += 1;
    for (let verification = 0; verification < 500; verification++)
      expect(askAtOnce(revocation)).toBe('not_revoked');
    await recorder.fetched(2);
    expect(statusIn(revocation)).toBe('revoked');
    now += 239_999;
    askAtOnce(revocation);
    expect(fetches).toHaveBeenCalledOnce();
  });

  test('a refresh ahead that fails takes nothing away, and does not press the server', async () => {
    const revocation = await openWith([7]);
    server.reset();
    now += 240_000;
    askAtOnce(revocation);
    await recorder.fetched(2);
    const fetches = countFetches();
    now += 999;
    expect(askAtOnce(revocation)).toBe('revoked');
    expect(fetches).not.toHaveBeenCalled();
    now += 251;
    askAtOnce(revocation);
    expect(fetches).toHaveBeenCalledOnce();
    await recorder.fetched(3);
  });

  test('past its TTL serves at once for STATUS_MAX_STALE_SECS more, while one fetch runs, and no longer', async () => {
    const revocation = await openWith([7], { maxStaleSecs: 60 });
    server.respond = () => undefined;
    const asked = server.asked();
    now += 300_000;
    for (let verification = 0; verification < 500; verification++)
      expect(askAtOnce(revocation)).toBe('revoked');
    await asked;
    expect(server.requests).toHaveLength(2);
    now += 59_999;
    expect(askAtOnce(revocation)).toBe('revoked');
    now += 1;
    expect(statusIn(revocation)).toBe('unavailable');
    const waiting = revocation.refreshIfStale();
    expect(waiting).not.toBe(null);
    server.serve(VC, listWith([]));
    server.requests[1]?.socket.resetAndDestroy();
    await waiting;
    now += NEXT_FETCH_MS;
    expect(await ask(revocation)).toBe('not_revoked');
  });

  test('ends with the validity of the list, stale or not', async () => {
    server.serve(VC, JSON.stringify(credentialWith([7], { validUntil: '2026-06-01T12:01:00Z' })));
    const revocation = await openFetched({ maxStaleSecs: 3600 });
    now += 59_999;
    expect(askAtOnce(revocation)).toBe('revoked');
    now += 1;
    expect(await ask(revocation)).toBe('unavailable');
    expect(recorder.outcomes.at(-1)).toBe('out_of_validity');
  });

  test('is fetched anew when the clock went ahead during its fetch, and back after it', async () => {
    const revocation = await openWith([]);
    now -= 11_000;
    server.respond = (_, response) => {
      now += 11_000;
      response.writeHead(200, { 'content-type': VC }).end(listWith([]));
    };
    expect(await ask(revocation)).toBe('not_revoked');
    server.serve(VC, listWith([7]));
    // Before the time at which another fetch might start otherwise.
    now -= 10_500;
    expect(await ask(revocation)).toBe('revoked');
    expect(server.requests).toHaveLength(3);
  });

  test('does not serve where the clock was set back behind its fetch: it would for as long again', async () => {
    const revocation = await openWith([7], { maxStaleSecs: 3600 });
    server.reset();
    now -= 1;
    expect(statusIn(revocation)).toBe('unavailable');
    expect(revocation.unreadyReasons()).toEqual(['status_list_stale']);
    now += 1;
    expect(revocation.unreadyReasons()).toEqual([]);
    now -= 1;
    expect(await ask(revocation)).toBe('unavailable');
    now -= 3_600_000;
    expect(await ask(revocation)).toBe('unavailable');
    // Neither does a clock that was set back hold fetches up.
    expect(recorder.outcomes).toEqual(['updated', 'unreachable', 'unreachable']);
    server.serve(VC, listWith([]));
    now -= 1;
    expect(await ask(revocation)).toBe('not_revoked');
  });

  describe('from a pinned issuer', () => {
    const issuer = newIssuer();
    const MAY = { validFrom: '2026-05-01T12:00:00Z' };
    const serveList = async (revoked: number[], changes: Record<string, unknown>) =>
      server.serve(
        'application/vc+jwt',
        await toJwt(credentialWith(revoked, { issuer: issuer.did, ...changes }), issuer),
      );

    test.each([
      ['an earlier validFrom', { validFrom: '2026-05-01T11:59:59Z' }, 'it is valid from 2026-05-01T11:59:59'],
      ['no validFrom', {}, 'it has no validFrom'],
    ])('is not replaced by a list with %s, which would un-revoke', async (_, older, message) => {
      await serveList([7], MAY);
      const revocation = await openFetched({ issuer: issuer.did, maxStaleSecs: 60 });
      await serveList([], older);
      now += 300_000;
      expect(await ask(revocation)).toBe('revoked');
      await recorder.fetched(2);
      expect(recorder.outcomes).toEqual(['updated', 'rollback']);
      expect(recorder.messages.at(-1)).toContain(message);
      expect(statusIn(revocation)).toBe('revoked');
      now += 60_000;
      expect(await ask(revocation)).toBe('unavailable');
    });

    test.each([MAY, { validFrom: '2026-05-01T14:00:00.001+02:00' }])(
      'is replaced by a list with %j, and by none of another issuer',
      async (changes) => {
        await serveList([7], MAY);
        const revocation = await openFetched({ issuer: issuer.did });
        await serveList([8], changes);
        now += 300_000;
        expect(await ask(revocation)).toBe('not_revoked');
        server.serve(VC, listWith([]));
        now += 300_000;
        expect(await ask(revocation)).toBe('unavailable');
        expect(recorder.outcomes).toEqual(['updated', 'updated', 'untrusted']);
      },
    );
  });

  test('without a pinned issuer any list that the server gives is taken over', async () => {
    server.serve(VC, JSON.stringify(credentialWith([7], { validFrom: '2026-05-01T12:00:00Z' })));
    const revocation = await openFetched();
    server.serve(VC, JSON.stringify(credentialWith([8])));
    now += 300_000;
    expect(await ask(revocation)).toBe('not_revoked');
  });
});

test('a list that ends before its TTL is fetched again before it ends', async () => {
  server.serve(VC, JSON.stringify(credentialWith([7], { validUntil: '2026-06-01T12:01:40Z' })));
  const revocation = await openFetched();
  now += 79_999;
  const fetches = countFetches();
  expect(askAtOnce(revocation)).toBe('revoked');
  expect(fetches).not.toHaveBeenCalled();
  now += 1;
  expect(askAtOnce(revocation)).toBe('revoked');
  expect(fetches).toHaveBeenCalledOnce();
});

test.each([
  [40_000, 40_000],
  // Never more rarely than the operator wants.
  [86_400_000, 300_000],
])('a list whose ttl is %d ms is kept for %d ms', async (ttl, kept) => {
  server.serve(VC, JSON.stringify(credentialWith([7], { credentialSubject: { ttl } })));
  const revocation = await openFetched();
  const fetches = countFetches();
  now += kept * 0.8 - 1;
  expect(askAtOnce(revocation)).toBe('revoked');
  expect(fetches).not.toHaveBeenCalled();
  server.reset();
  now += 1;
  expect(askAtOnce(revocation)).toBe('revoked');
  await recorder.fetched(2);
  expect(fetches).toHaveBeenCalledOnce();
  now += kept * 0.2;
  expect(statusIn(revocation)).toBe('unavailable');
});

test('a list that should not be kept serves for a second, in which no other can be fetched', async () => {
  server.serve(VC, JSON.stringify(credentialWith([7], { credentialSubject: { ttl: 0 } })));
  const revocation = await openFetched();
  now += 999;
  expect(statusIn(revocation)).toBe('revoked');
  now += 1;
  expect(statusIn(revocation)).toBe('unavailable');
});

test('raw bits are taken over from a server that calls them bytes', async () => {
  server.serve('application/octet-stream', bitsWith([7]));
  const revocation = await openFetched({ form: 'raw' });
  expect(statusIn(revocation)).toBe('revoked');
  server.respond = (_, response) => response.end(bitsWith([]));
  now += 300_000;
  expect(await ask(revocation)).toBe('unavailable');
  expect(recorder.outcomes).toEqual(['updated', 'content_type']);
  expect(recorder.messages[0]).toContain('its Content-Type is "", expected application/octet-stream');
});

describe('conditional requests', () => {
  test('an unchanged list is confirmed for another TTL, without its bytes', async () => {
    server.serve(VC, listWith([7]), '"one"');
    const revocation = await openFetched();
    now += 300_000;
    expect(await ask(revocation)).toBe('revoked');
    expect(recorder.outcomes).toEqual(['updated', 'not_modified']);
    now += 239_999;
    expect([revocation.refreshIfStale(), revocation.list?.ageSecs]).toEqual([null, 239.999]);
    server.serve(VC, listWith([]), '"two"');
    now += 60_001;
    expect(await ask(revocation)).toBe('not_revoked');
    const sent = server.requests.map((request) => request.headers['if-none-match']);
    expect(sent).toEqual([undefined, '"one"', '"one"']);
  });

  test('an unchanged list whose validity has ended is not confirmed', async () => {
    const list = credentialWith([7], { validUntil: '2026-06-01T12:02:00Z' });
    server.serve(VC, JSON.stringify(list), '"one"');
    const revocation = await openFetched({ ttlSecs: 60 });
    now += 60_000;
    expect(await ask(revocation)).toBe('revoked');
    now += 60_000;
    expect(await ask(revocation)).toBe('unavailable');
    expect(recorder.outcomes).toEqual(['updated', 'not_modified', 'out_of_validity']);
    expect(recorder.messages[0]).toContain(
      'it has not changed, and was valid until 2026-06-01T12:02:00.000Z',
    );
  });

  test('a 304 that nobody asked for confirms nothing', async () => {
    const revocation = await openWith([7]);
    server.respond = (_, response) => response.writeHead(304).end();
    now += 300_000;
    expect(await ask(revocation)).toBe('unavailable');
    expect(recorder.outcomes).toEqual(['updated', 'http_status']);
  });
});

describe('what an operator sees', () => {
  test('one message for a row of equal failures, and none with the secrets of the URL', async () => {
    const revocation = await openWith([], { url: server.url.replace('//', '//user:word@') + '?key=secret' });
    server.reset();
    now += 300_000;
    const tryAgain = async () => {
      await ask(revocation);
      now += NEXT_FETCH_MS;
    };
    for (let verification = 0; verification < 5; verification++) await tryAgain();
    expect(server.requests).toHaveLength(6);
    server.respond = (_, response) => response.writeHead(503).end();
    await tryAgain();
    server.serve(VC, listWith([]));
    await tryAgain();
    expect(recorder.messages).toEqual([
      expect.stringContaining('error the status list was not accepted'),
      expect.stringContaining('error there is no usable copy of the status list'),
      expect.stringContaining('list answers 503, expected 200'),
      'info the status list can be fetched again',
    ]);
    expect(recorder.messages.join()).not.toMatch(/secret|word/);
    const { url } = server;
    const failure = { err: expect.any(Error) as Error, url, copy: 'unusable' };
    expect(recorder.details).toEqual([
      { ...failure, fault: 'unreachable', ageSecs: 300 },
      { url, ageSecs: 300 },
      { ...failure, fault: 'http_status', ageSecs: 300 + (5 * NEXT_FETCH_MS) / 1000 },
      { url },
    ]);
  });

  test('a failure that goes on is logged again after ten seconds', async () => {
    const revocation = await openWith([], { maxStaleSecs: 3600 });
    server.reset();
    for (const [ms, messages] of [
      [300_000, 1],
      [9_999, 1],
      [1_250, 2],
      [10_000, 3],
    ] as const) {
      now += ms;
      const count = recorder.outcomes.length;
      askAtOnce(revocation);
      await recorder.fetched(count + 1);
      expect(recorder.messages).toHaveLength(messages);
    }
  });

  test('a fault of this program in a fetch is named, and the next fetch succeeds', async () => {
    const signer = newIssuer();
    const issuer = signer.did;
    server.serve('application/vc+jwt', await toJwt(credentialWith([7], { issuer }), signer));
    const broken = vi.spyOn(DEFAULT_KEYS, 'keysOf').mockImplementation(() => {
      throw new Error('out of order');
    });
    const revocation = await open({ issuer });
    await recorder.fetched(1);
    broken.mockRestore();
    expect(recorder.messages).toEqual(['error the status list was not accepted: out of order']);
    now += NEXT_FETCH_MS;
    expect(await ask(revocation)).toBe('revoked');
    expect(recorder.outcomes).toEqual(['internal', 'updated']);
  });
});

test('closing ends a fetch under way and lets no other begin', async () => {
  server.respond = () => undefined;
  const asked = server.asked();
  const revocation = await open();
  await asked;
  const closed = once(server.requests[0]?.socket ?? process, 'close');
  const waiting = revocation.refreshIfStale();
  await revocation.close();
  await Promise.all([waiting, closed]);
  const fetches = countFetches();
  now += NEXT_FETCH_MS;
  expect(askAtOnce(revocation)).toBe('unavailable');
  expect(fetches).not.toHaveBeenCalled();
  expect([server.requests.length, recorder.outcomes, recorder.messages]).toEqual([1, [], []]);
});
