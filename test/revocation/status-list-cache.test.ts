import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Agent } from 'undici';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import type { KeyResolver } from '../../src/protocol/key-resolver.js';
import { openRevocation, type Revocation, type StatusListOptions } from '../../src/revocation/index.js';
import { StatusListCache } from '../../src/revocation/lists/status-list-cache.js';
import { ListServer } from './list-server.js';
import { listWith, credentialWith, newIssuer, toJwt } from './lists.js';
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

async function open(list: Partial<StatusListOptions> = {}): Promise<Revocation> {
  const revocation = await openRevocation({
    statusList: { url: server.url, ttlSecs: 300, maxStaleSecs: 0, ...list },
    log: recorder.log,
    observer: recorder,
    now: () => now,
  });
  opened.push(revocation);
  return revocation;
}

/** With the first fetch done. */
async function openWith(revoked: number[], list: Partial<StatusListOptions> = {}): Promise<Revocation> {
  server.serve(VC, listWith(revoked));
  const revocation = await open(list);
  await recorder.fetched(1);
  return revocation;
}

/** Counts the fetches that begin from now on, at the moment at which they begin. */
const countFetches = () => vi.spyOn(Agent.prototype, 'dispatch');

/** Long enough for the next fetch to start. */
const NEXT_FETCH_MS = 1250;

const ask = async (revocation: Revocation, index: number) => {
  await revocation.refreshIfStale();
  return revocation.view.remoteStatusOf(index);
};

describe('without a list', () => {
  test('nothing is fetched, the service is ready, and only the local store counts', async () => {
    const revocation = await openRevocation({ log: recorder.log });
    opened.push(revocation);
    expect([revocation.unreadyReasons, revocation.refreshIfStale()]).toEqual([[], null]);
    expect(revocation.view.remoteStatusOf(0)).toBe('not_configured');
    await revocation.revoke(asked(5));
    expect([revocation.view.isRevokedLocally(5), revocation.view.isRevokedLocally(6)]).toEqual([true, false]);
    expect([revocation.entries, revocation.listEntries, revocation.listAgeSecs]).toEqual([1, 0, Number.NaN]);
    expect([revocation.isStoreCurrent, revocation.storeAgeSecs]).toEqual([true, Number.NaN]);
  });
});

test('local lookups are observed, and an observer is not needed', async () => {
  const revocation = await open();
  await revocation.revoke(asked(5));
  revocation.view.isRevokedLocally(5);
  revocation.view.isRevokedLocally(6);
  expect(recorder.lookups).toEqual(['local true', 'local false']);

  server.serve(VC, listWith([7]));
  const statusList = { url: server.url, ttlSecs: 300, maxStaleSecs: 0 };
  const unobserved = await openRevocation({ statusList, log: recorder.log, now: () => now });
  opened.push(unobserved);
  expect(await ask(unobserved, 7)).toBe('revoked');
  expect(unobserved.view.isRevokedLocally(7)).toBe(false);
});

describe('readiness', () => {
  test('comes without traffic, as soon as the list has been fetched', async () => {
    const revocation = await open();
    expect([revocation.listEntries, revocation.listAgeSecs]).toEqual([0, Number.NaN]);
    await recorder.fetched(1);
    expect(revocation.unreadyReasons).toEqual(['status_list_not_fetched']);
    server.reset();
    vi.advanceTimersByTime(2_000);
    await recorder.fetched(2);
    expect(revocation.unreadyReasons).toEqual(['status_list_not_fetched']);
    server.serve(VC, listWith([7]));
    vi.advanceTimersByTime(4_000);
    await recorder.fetched(3);
    expect(revocation.unreadyReasons).toEqual([]);
    expect(recorder.outcomes).toEqual(['http_status', 'unreachable', 'updated']);
    expect(revocation.refreshIfStale()).toBe(null);
    expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
  });

  test('ends when the copy is too old and refusals have begun, and comes back without traffic', async () => {
    const revocation = await openWith([7], { maxStaleSecs: 60 });
    server.reset();
    now += 359_999;
    expect(await ask(revocation, 7)).toBe('revoked');
    await recorder.fetched(2);
    now += 1;
    // Nobody has been refused yet: the next verification may well find the list there.
    expect(revocation.unreadyReasons).toEqual([]);
    now += NEXT_FETCH_MS;
    expect(await ask(revocation, 7)).toBe('unavailable');
    expect(revocation.unreadyReasons).toEqual(['status_list_stale']);
    server.serve(VC, listWith([]));
    vi.advanceTimersByTime(4_000);
    await recorder.fetched(4);
    expect(revocation.unreadyReasons).toEqual([]);
    expect(revocation.view.remoteStatusOf(7)).toBe('not_revoked');
  });

  test('comes back with the clock that was set back for a moment', async () => {
    const revocation = await openWith([7]);
    server.reset();
    now -= 1;
    expect(revocation.view.remoteStatusOf(7)).toBe('unavailable');
    expect(revocation.unreadyReasons).toEqual(['status_list_stale']);
    now += 1;
    expect(revocation.unreadyReasons).toEqual([]);
  });

  test.each([
    [undefined, 2_000],
    [300, 300],
  ])(
    'with maxWaitMs %j, a verification waits for %i ms from the start of the fetch',
    async (maxWaitMs, wait) => {
      server.respond = () => undefined;
      const revocation = await open({ maxWaitMs });
      let isOver = false;
      vi.advanceTimersByTime(100);
      const waiting = revocation.refreshIfStale()?.then(() => (isOver = true));
      vi.advanceTimersByTime(wait - 101);
      await nextTurn();
      expect(isOver).toBe(false);
      vi.advanceTimersByTime(1);
      await waiting;
      expect(revocation.refreshIfStale()).toBe(null);
      expect(revocation.view.remoteStatusOf(7)).toBe('unavailable');
    },
  );

  test('without traffic, retries become rarer up to one in 30 s', async () => {
    const revocation = await openWith([7]);
    const fetches = countFetches();
    server.reset();
    now += 240_000;
    expect(revocation.refreshIfStale()).toBe(null);
    await recorder.fetched(2);
    const waits: number[] = [];
    for (let retry = 3; retry < 12; retry++) {
      const before = fetches.mock.calls.length;
      let waited = 0;
      for (; waited < 60_000 && fetches.mock.calls.length === before; waited += 100)
        vi.advanceTimersByTime(100);
      waits.push(waited);
      await recorder.fetched(retry);
    }
    const longest = [2, 4, 8, 16, 30, 30, 30, 30, 30].map((secs) => secs * 1000);
    waits.forEach((waited, at) => {
      expect(waited).toBeLessThanOrEqual((longest[at] as number) + 100);
      expect(waited).toBeGreaterThanOrEqual((longest[at] as number) / 2);
    });
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
    expect(revocation.view.remoteStatusOf(7)).toBe('unavailable');
    now += NEXT_FETCH_MS;
    expect(await ask(revocation, 7)).toBe('revoked');
  });
});

describe('the copy', () => {
  test('answers for every index, the last and those beyond', async () => {
    const revocation = await openWith([0, 131_071]);
    const status = (index: number) => revocation.view.remoteStatusOf(index);
    expect([0, 1, 131_070, 131_071].map(status)).toEqual([
      'revoked',
      'not_revoked',
      'not_revoked',
      'revoked',
    ]);
    // 2^32 and 2^32 + 131,071 would wrap round to entries that are set.
    const beyond = [131_072, 2 ** 32, 2 ** 32 + 131_071, Number.MAX_SAFE_INTEGER];
    expect(beyond.map(status)).toEqual(beyond.map(() => 'out_of_range'));
    expect(recorder.lookups).toEqual(['remote true', 'remote false', 'remote false', 'remote true']);
    now += 5000;
    expect([revocation.listEntries, revocation.listAgeSecs]).toEqual([131_072, 5]);
  });

  test('is asked for again a second after the last request, and not while one is under way', async () => {
    const begin = performance.now();
    const revocation = await openWith([7], { ttlSecs: 1, maxStaleSecs: 60 });
    expect(recorder.durations[0]).toBeLessThanOrEqual(performance.now() - begin);
    const fetches = countFetches();
    server.respond = () => undefined;
    now += 999;
    void revocation.refreshIfStale();
    expect(fetches).not.toHaveBeenCalled();
    now += 1;
    void revocation.refreshIfStale();
    expect(fetches).toHaveBeenCalledOnce();
    now += 5_000;
    void revocation.refreshIfStale();
    expect(fetches).toHaveBeenCalledOnce();
  });

  test('serves for its TTL; then one fetch serves 500 verifications at once', async () => {
    const revocation = await openWith([]);
    const fetches = countFetches();
    now += 239_999;
    expect(revocation.refreshIfStale()).toBe(null);
    expect(fetches).not.toHaveBeenCalled();

    server.serve(VC, listWith([7]));
    now += 60_001;
    const answers = await Promise.all(Array.from({ length: 500 }, () => ask(revocation, 7)));
    expect(new Set(answers)).toEqual(new Set(['revoked']));
    expect(server.requests).toHaveLength(2);
  });

  test('all who waited for a fetch that fails are refused; a second later the next one tries again', async () => {
    const revocation = await openWith([]);
    now += 300_000;
    server.reset();
    const answers = await Promise.all(Array.from({ length: 500 }, () => ask(revocation, 7)));
    expect(new Set(answers)).toEqual(new Set(['unavailable']));
    expect([revocation.refreshIfStale(), server.requests.length]).toEqual([null, 2]);
    server.serve(VC, listWith([7]));
    now += 999;
    // Refused at once: another fetch so soon would press a server that is in trouble.
    expect([revocation.refreshIfStale(), revocation.view.remoteStatusOf(7)]).toEqual([null, 'unavailable']);
    expect(server.requests).toHaveLength(2);
    now += 251;
    expect(await ask(revocation, 7)).toBe('revoked');
    expect(server.requests).toHaveLength(3);
  });

  test('is refreshed ahead in the last fifth of its TTL, and nobody waits', async () => {
    const revocation = await openWith([]);
    server.serve(VC, listWith([7]));
    now += 240_000;
    for (let verification = 0; verification < 500; verification++)
      expect(revocation.refreshIfStale()).toBe(null);
    expect(revocation.view.remoteStatusOf(7)).toBe('not_revoked');
    await recorder.fetched(2);
    expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
    expect(server.requests).toHaveLength(2);
    const fetches = countFetches();
    now += 239_999;
    expect(revocation.refreshIfStale()).toBe(null);
    expect(fetches).not.toHaveBeenCalled();
  });

  test('a refresh ahead that fails takes nothing away, and does not press the server', async () => {
    const revocation = await openWith([7]);
    server.reset();
    now += 240_000;
    expect(revocation.refreshIfStale()).toBe(null);
    await recorder.fetched(2);
    const fetches = countFetches();
    now += 999;
    expect(revocation.refreshIfStale()).toBe(null);
    expect(fetches).not.toHaveBeenCalled();
    expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
    now += 251;
    expect(revocation.refreshIfStale()).toBe(null);
    expect(fetches).toHaveBeenCalledOnce();
    await recorder.fetched(3);
  });

  test('past its TTL serves at once for STATUS_MAX_STALE_SECS more, while one fetch runs, and no longer', async () => {
    const revocation = await openWith([7], { maxStaleSecs: 60 });
    server.respond = () => undefined;
    const asked = server.asked();
    now += 300_000;
    for (let verification = 0; verification < 500; verification++) {
      expect(revocation.refreshIfStale()).toBe(null);
      expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
    }
    await asked;
    expect(server.requests).toHaveLength(2);
    now += 59_999;
    expect([revocation.refreshIfStale(), revocation.view.remoteStatusOf(7)]).toEqual([null, 'revoked']);
    now += 1;
    expect(revocation.view.remoteStatusOf(7)).toBe('unavailable');
    const waiting = revocation.refreshIfStale();
    expect(waiting).not.toBe(null);
    server.serve(VC, listWith([]));
    server.requests[1]?.socket.resetAndDestroy();
    await waiting;
    now += NEXT_FETCH_MS;
    expect(await ask(revocation, 7)).toBe('not_revoked');
  });

  test('ends with the validity of the list, stale or not', async () => {
    const list = credentialWith([7], { validUntil: '2026-06-01T12:01:00Z' });
    server.serve('application/vc', JSON.stringify(list));
    const revocation = await open({ maxStaleSecs: 3600 });
    await recorder.fetched(1);
    now += 59_999;
    expect(revocation.refreshIfStale()).toBe(null);
    expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
    now += 1;
    expect(await ask(revocation, 7)).toBe('unavailable');
    expect(recorder.outcomes.at(-1)).toBe('out_of_validity');
  });

  test('is fetched anew when the clock was set back behind the fetch', async () => {
    const revocation = await openWith([7]);
    now -= 3_600_000;
    server.serve(VC, listWith([]));
    expect(await ask(revocation, 7)).toBe('not_revoked');
    expect(server.requests).toHaveLength(2);
  });

  test('is fetched anew when the clock went ahead during its fetch, and back after it', async () => {
    const revocation = await openWith([]);
    now -= 11_000;
    server.respond = (_, response) => {
      now += 11_000;
      response.writeHead(200, { 'content-type': VC }).end(listWith([]));
    };
    expect(await ask(revocation, 7)).toBe('not_revoked');
    server.serve(VC, listWith([7]));
    // Before the time at which another fetch might start otherwise.
    now -= 10_500;
    expect(await ask(revocation, 7)).toBe('revoked');
    expect(server.requests).toHaveLength(3);
  });

  test('does not serve where the clock was set back behind its fetch: it would for as long again', async () => {
    const revocation = await openWith([7], { maxStaleSecs: 3600 });
    server.reset();
    now -= 1;
    expect(revocation.view.remoteStatusOf(7)).toBe('unavailable');
    expect(await ask(revocation, 7)).toBe('unavailable');
    now -= 3_600_000;
    expect(await ask(revocation, 7)).toBe('unavailable');
    expect(revocation.unreadyReasons).toEqual(['status_list_stale']);
    // Neither does a clock that was set back hold fetches up.
    expect(recorder.outcomes).toEqual(['updated', 'unreachable', 'unreachable']);
  });

  test('is taken over only from the pinned issuer', async () => {
    const issuer = newIssuer();
    server.serve('application/vc+jwt', await toJwt(credentialWith([7], { issuer: issuer.did }), issuer));
    const revocation = await open({ issuer: issuer.did });
    await recorder.fetched(1);
    expect(await ask(revocation, 7)).toBe('revoked');
    server.serve(VC, listWith([]));
    now += 300_000;
    expect(await ask(revocation, 7)).toBe('unavailable');
    expect(recorder.outcomes.at(-1)).toBe('untrusted');
  });

  describe('from a pinned issuer', () => {
    const issuer = newIssuer();
    const serveList = async (revoked: number[], changes: Record<string, unknown>) =>
      server.serve(
        'application/vc+jwt',
        await toJwt(credentialWith(revoked, { issuer: issuer.did, ...changes }), issuer),
      );

    test.each([
      ['an earlier validFrom', { validFrom: '2026-05-01T11:59:59Z' }, 'it is valid from 2026-05-01T11:59:59'],
      ['no validFrom', {}, 'it has no validFrom'],
    ])('is not replaced by a list with %s, which would un-revoke', async (_, older, message) => {
      await serveList([7], { validFrom: '2026-05-01T12:00:00Z' });
      const revocation = await open({ issuer: issuer.did, maxStaleSecs: 60 });
      await recorder.fetched(1);
      await serveList([], older);
      now += 300_000;
      expect(await ask(revocation, 7)).toBe('revoked');
      await recorder.fetched(2);
      expect(recorder.outcomes).toEqual(['updated', 'rollback']);
      expect(recorder.messages.at(-1)).toContain(message);
      expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
      now += 60_000;
      expect(await ask(revocation, 7)).toBe('unavailable');
    });

    test.each([
      ['the same validFrom', { validFrom: '2026-05-01T12:00:00Z' }],
      ['a later validFrom', { validFrom: '2026-05-01T14:00:00.001+02:00' }],
    ])('is replaced by a list with %s', async (_, changes) => {
      await serveList([7], { validFrom: '2026-05-01T12:00:00Z' });
      const revocation = await open({ issuer: issuer.did });
      await recorder.fetched(1);
      await serveList([8], changes);
      now += 300_000;
      expect(await ask(revocation, 7)).toBe('not_revoked');
      expect(recorder.outcomes).toEqual(['updated', 'updated']);
    });
  });

  test('without a pinned issuer any list that the server gives is taken over', async () => {
    const validFrom = '2026-05-01T12:00:00Z';
    server.serve('application/vc', JSON.stringify(credentialWith([7], { validFrom })));
    const revocation = await open();
    await recorder.fetched(1);
    server.serve('application/vc', JSON.stringify(credentialWith([8])));
    now += 300_000;
    expect(await ask(revocation, 7)).toBe('not_revoked');
  });
});

describe('conditional requests', () => {
  test('an unchanged list is confirmed for another TTL, without its bytes', async () => {
    server.serve(VC, listWith([7]), '"one"');
    const revocation = await open();
    await recorder.fetched(1);
    now += 300_000;
    expect(await ask(revocation, 7)).toBe('revoked');
    expect(recorder.outcomes).toEqual(['updated', 'not_modified']);
    now += 239_999;
    expect([revocation.refreshIfStale(), revocation.listAgeSecs]).toEqual([null, 239.999]);
    server.serve(VC, listWith([]), '"two"');
    now += 60_001;
    expect(await ask(revocation, 7)).toBe('not_revoked');
    expect(server.requests.map((request) => request.headers['if-none-match'])).toEqual([
      undefined,
      '"one"',
      '"one"',
    ]);
  });

  test('an unchanged list whose validity has ended is not confirmed', async () => {
    const list = credentialWith([7], { validUntil: '2026-06-01T12:02:00Z' });
    server.serve('application/vc', JSON.stringify(list), '"one"');
    const revocation = await open({ ttlSecs: 60 });
    await recorder.fetched(1);
    now += 60_000;
    expect(await ask(revocation, 7)).toBe('revoked');
    now += 60_000;
    expect(await ask(revocation, 7)).toBe('unavailable');
    expect(recorder.outcomes).toEqual(['updated', 'not_modified', 'out_of_validity']);
    expect(recorder.messages[0]).toContain(
      'it has not changed, and was valid until 2026-06-01T12:02:00.000Z',
    );
  });

  test('a 304 that nobody asked for confirms nothing', async () => {
    const revocation = await openWith([7]);
    server.respond = (_, response) => response.writeHead(304).end();
    now += 300_000;
    expect(await ask(revocation, 7)).toBe('unavailable');
    expect(recorder.outcomes).toEqual(['updated', 'http_status']);
  });
});

describe('what an operator sees', () => {
  test('a short list is accepted with a warning', async () => {
    server.serve(VC, listWith([7], 1024));
    const revocation = await open();
    await recorder.fetched(1);
    expect(revocation.view.remoteStatusOf(7)).toBe('revoked');
    expect(revocation.view.remoteStatusOf(1024)).toBe('out_of_range');
    expect(recorder.messages).toEqual([expect.stringContaining('fewer than 131072 entries')]);
    expect(recorder.details).toEqual([{ url: server.url, entries: 1024 }]);
  });

  test('one message for a row of equal failures, and none with the secrets of the URL', async () => {
    const revocation = await openWith([], { url: server.url.replace('//', '//user:word@') + '?key=secret' });
    server.reset();
    now += 300_000;
    const tryAgain = async () => {
      await ask(revocation, 1);
      now += NEXT_FETCH_MS;
    };
    for (let verification = 0; verification < 5; verification++) await tryAgain();
    expect(server.requests).toHaveLength(6);
    expect(recorder.messages).toEqual([
      expect.stringContaining('error the status list was not accepted'),
      expect.stringContaining('error there is no usable copy of the status list'),
    ]);
    server.respond = (_, response) => response.writeHead(503).end();
    await tryAgain();
    expect(recorder.messages[2]).toMatch(/list answers 503, expected 200/);
    server.serve(VC, listWith([]));
    await tryAgain();
    expect(recorder.messages.slice(3)).toEqual(['info the status list can be fetched again']);
    expect(recorder.messages.join()).not.toMatch(/secret|word/);
    const { url } = server;
    const ageSecs = 300;
    expect(recorder.details).toEqual([
      { err: expect.any(Error) as Error, url, fault: 'unreachable', copy: 'unusable', ageSecs },
      { url, ageSecs },
      {
        err: expect.any(Error) as Error,
        url,
        fault: 'http_status',
        copy: 'unusable',
        ageSecs: ageSecs + (5 * NEXT_FETCH_MS) / 1000,
      },
      { url },
    ]);
  });

  test('a failure that goes on is logged again after ten seconds', async () => {
    const revocation = await openWith([], { maxStaleSecs: 3600 });
    server.reset();
    const failAt = async (ms: number) => {
      now += ms;
      const count = recorder.outcomes.length;
      expect(revocation.refreshIfStale()).toBe(null);
      await recorder.fetched(count + 1);
      return recorder.messages.length;
    };
    expect(await failAt(300_000)).toBe(1);
    expect(await failAt(9_999)).toBe(1);
    expect(await failAt(1_250)).toBe(2);
    expect(await failAt(10_000)).toBe(3);
  });

  test('a fault of this program in a fetch is named, and the next fetch succeeds', async () => {
    const issuer = newIssuer();
    let isBroken = true;
    const keys: KeyResolver = {
      version: 0,
      expected: 'a name that this test knows',
      publicKeyOf(did) {
        // At the start the name resolves.
        if (isBroken && server.requests.length > 0) throw new Error('out of order');
        return did === 'did:web:lists.example' ? publicKeyOf(issuer.did) : null;
      },
      verificationMethodOf: (did) => `${did}#1`,
    };
    const credential = credentialWith([7], { issuer: 'did:web:lists.example' });
    server.serve('application/vc+jwt', await toJwt(credential, issuer));
    const statusList = { url: server.url, ttlSecs: 300, maxStaleSecs: 0, issuer: 'did:web:lists.example' };
    const options = { statusList, log: recorder.log, observer: recorder, now: () => now };
    const revocation = await openRevocation({ ...options, keys });
    opened.push(revocation);
    await recorder.fetched(1);
    expect(recorder.messages).toEqual(['error the status list was not accepted: out of order']);
    isBroken = false;
    now += NEXT_FETCH_MS;
    expect(await ask(revocation, 7)).toBe('revoked');
    expect(recorder.outcomes).toEqual(['internal', 'updated']);
    const unknown = { ...statusList, issuer: 'did:web:other.example' };
    await expect(openRevocation({ ...options, statusList: unknown, keys })).rejects.toThrow(
      'expected a name that this test knows',
    );
  });

  test.each([
    ['ftp://lists.example/', undefined, /expected http/],
    ['lists.example', undefined, /Invalid URL/],
    ['https://lists.example/', 'did:web:lists.example', /did:key of an Ed25519 key/],
  ])('%s with issuer %s does not open', async (url, issuer, message) => {
    const list = { url, ttlSecs: 300, maxStaleSecs: 0, issuer };
    await expect(openRevocation({ statusList: list, log: recorder.log })).rejects.toThrow(message);
  });
});

describe('closing', () => {
  test('ends a fetch under way and lets no other begin', async () => {
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
    expect([revocation.refreshIfStale(), revocation.view.remoteStatusOf(1)]).toEqual([null, 'unavailable']);
    expect(fetches).not.toHaveBeenCalled();
    expect([server.requests.length, recorder.outcomes, recorder.messages]).toEqual([1, [], []]);
  });

  test('is possible before anything was fetched', async () => {
    const options = { url: server.url, ttlSecs: 300, maxStaleSecs: 0 };
    const cache = new StatusListCache(options, { log: recorder.log, observer: recorder, now: () => now });
    await cache.close();
    expect([cache.refreshIfStale(), server.requests]).toEqual([null, []]);
  });
});
