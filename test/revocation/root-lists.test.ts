import { deflateSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RootListCache, type RootListsOptions } from '../../src/revocation/lists/root-lists.js';
import type { RootList } from '../../src/verify/parts.js';
import { eventually } from '../support/eventually.js';
import { holdLimits } from '../support/held-limits.js';
import { ListServer } from './list-server.js';
import { credentialWith, newIssuer, toJwt } from './lists.js';
import { Recorder } from './recorder.js';
import { newTokenIssuer, tokenWith } from './tokens.js';

/** Lists of roots from a real server. Each name is a path; what is not served is not answered. */

const issuer = newTokenIssuer();
/** Ends the fetches that wait for an answer. */
const giveUp = holdLimits(5_000);
let server: ListServer;
let recorder: Recorder;
let now: number;
let opened: RootListCache[] = [];
/** What each path answers. */
let served: Map<string, string>;

beforeEach(async () => {
  server = await ListServer.start();
  recorder = new Recorder();
  now = Date.parse('2026-06-01T12:00:00Z');
  served = new Map();
  server.respond = (request, response) => {
    const body = served.get(request.url ?? '');
    if (body === '404') response.writeHead(404).end();
    else if (body !== undefined) {
      const etag = `"${body.length}-${body.slice(-20)}"`;
      const isKnown = request.headers['if-none-match'] === etag;
      response.writeHead(isKnown ? 304 : 200, { etag }).end(isKnown ? undefined : body);
    }
  };
});

afterEach(async () => {
  for (const cache of opened) await cache.close();
  opened = [];
  await server.close();
});

function open(options: Partial<RootListsOptions> = {}): RootListCache {
  const defaults = { ttlSecs: 300, maxWaitMs: 60_000, clockSkewSecs: 30 };
  const deps = { log: recorder.log, observer: recorder, now: () => now };
  const cache = new RootListCache({ ...defaults, ...options }, deps);
  opened.push(cache);
  return cache;
}

/** ZLIB data of zeros. */
const bitsOf = (bytes: number) => deflateSync(Buffer.alloc(bytes)).toString('base64url');

const at = (path: string) => new URL(path, server.url).href;

function named(path: string, changes: Partial<RootList> = {}): RootList {
  const list = {
    ...{ form: 'token' as const, name: at(path), url: at(path), issuer: issuer.did, maxStaleSecs: 0 },
    ...{ addresses: ['127.0.0.1'], owner: `row of ${path}` },
    ...changes,
  };
  return { key: JSON.stringify(list), ...list };
}

/** Serves a token at a path, in which these entries have values. */
function serve(path: string, values: Readonly<Record<number, number>>, changes: object = {}): RootList {
  served.set(path, tokenWith(values, issuer, { nowMs: now, changes: { sub: at(path), ...changes } }));
  return named(path);
}

const requestsOf = (path: string) => server.requests.filter(({ url }) => url === path).length;

async function ask(cache: RootListCache, list: RootList, index = 7): Promise<string> {
  await cache.refresh([list]);
  return cache.statusOf(list, index);
}

describe('a list of a root', () => {
  it('is fetched when it is needed, once for all who wait', async () => {
    const cache = open();
    const list = serve('/a', { 7: 1 });
    expect(cache.statusOf(list, 7)).toBe('unavailable');
    expect(await ask(cache, serve('/b', {}))).toBe('not_revoked');
    expect(requestsOf('/a')).toBe(0);
    const asked = Array.from({ length: 500 }, () => ask(cache, list));
    expect(new Set(await Promise.all(asked))).toEqual(new Set(['revoked']));
    expect(requestsOf('/a')).toBe(1);
    expect(cache.refresh([list])).toBe(null);
    expect(server.requests[1]?.headers['accept']).toContain('application/statuslist+jwt');
  });

  it('has its own index: that of another root says nothing', async () => {
    const cache = open();
    const [a, b] = [serve('/a', { 7: 1 }), serve('/b', { 8: 1 })];
    await cache.refresh([a, b]);
    expect([7, 8].map((index) => cache.statusOf(a, index))).toEqual(['revoked', 'not_revoked']);
    expect([7, 8].map((index) => cache.statusOf(b, index))).toEqual(['not_revoked', 'revoked']);
  });

  it('says what each value means', async () => {
    const cache = open();
    const list = serve('/a', { 1: 1, 2: 2, 3: 3 });
    await cache.refresh([list]);
    expect([0, 1, 2, 3, 4095, 4096, 2 ** 53 - 1].map((index) => cache.statusOf(list, index))).toEqual([
      ...['not_revoked', 'revoked', 'suspended', 'unknown', 'not_revoked', 'out_of_range', 'out_of_range'],
    ]);
  });

  it('may be one of the W3C, which its issuer must have signed', async () => {
    const cache = open();
    const own = newIssuer();
    const credential = credentialWith([7], { id: at('/w'), issuer: own.did });
    served.set('/w', await toJwt(credential, own));
    served.set('/u', JSON.stringify({ ...credential, id: at('/u') }));
    const w3c = { form: 'w3c' as const, issuer: own.did };
    expect(await ask(cache, named('/w', w3c))).toBe('revoked');
    expect(await ask(cache, named('/w', w3c), 6)).toBe('not_revoked');
    expect(await ask(cache, named('/u', w3c))).toBe('unavailable');
    expect(await ask(cache, named('/w', { ...w3c, issuer: issuer.did }))).toBe('unavailable');
    expect(await ask(cache, named('/w', { ...w3c, form: 'token' }))).toBe('unavailable');
    expect(recorder.outcomes).toEqual([]);
    expect(recorder.rootOutcomes).toEqual(['updated', 'untrusted', 'untrusted', 'malformed']);
  });

  it('must have its name, which may be another one than its address', async () => {
    const cache = open();
    serve('/a', { 7: 1 });
    expect(await ask(cache, named('/a', { name: 'https://acme.example/1' }))).toBe('unavailable');
    serve('/mirror', { 7: 1 }, { sub: 'https://acme.example/1' });
    expect(await ask(cache, named('/mirror', { name: 'https://acme.example/1' }))).toBe('revoked');
  });

  it('is not fetched at an address that is not public, unless the row lists it', async () => {
    const cache = open();
    serve('/a', { 7: 1 });
    expect(await ask(cache, named('/a', { addresses: [] }))).toBe('unavailable');
    expect(await ask(cache, named('/a', { addresses: ['10.0.0.0/8'] }))).toBe('unavailable');
    expect(server.requests).toHaveLength(0);
    expect(recorder.rootOutcomes).toEqual(['unreachable', 'unreachable']);
  });

  it('is confirmed by its ETag, and fetched again when its time is over, if somebody needs it', async () => {
    const cache = open();
    const list = serve('/a', { 7: 1 }, { ttl: 100 });
    await cache.refresh([list]);
    now += 99_000;
    expect(cache.refresh([list])).toBe(null);
    await recorder.rootFetched(2);
    expect(recorder.rootOutcomes).toEqual(['updated', 'not_modified']);
    serve('/a', { 8: 1 }, { ttl: 100 });
    now += 101_000;
    expect(cache.statusOf(list, 7)).toBe('unavailable');
    expect(await ask(cache, list)).toBe('not_revoked');
    expect(recorder.rootOutcomes).toEqual(['updated', 'not_modified', 'updated']);
  });

  it('is used for max_stale after its time, and no longer', async () => {
    const cache = open();
    serve('/a', { 7: 1 });
    const list = named('/a', { maxStaleSecs: 60 });
    await cache.refresh([list]);
    served.set('/a', '404');
    now += 359_000;
    expect(cache.refresh([list])).toBe(null);
    expect(cache.statusOf(list, 7)).toBe('revoked');
    await recorder.rootFetched(2);
    now += 2_000;
    expect(await ask(cache, list)).toBe('unavailable');
  });

  it('may not become older, nor be used after its exp', async () => {
    const cache = open();
    const list = serve('/a', { 7: 1 }, { exp: now / 1000 + 100 });
    await cache.refresh([list]);
    serve('/a', {}, { iat: now / 1000 - 11 });
    now += 100_000;
    expect(cache.statusOf(list, 7)).toBe('unavailable');
    expect(await ask(cache, list)).toBe('unavailable');
    expect(recorder.rootOutcomes).toEqual(['updated', 'rollback']);
  });

  it('fails alone, is asked again with growing delays, and is named by its row until it is back', async () => {
    const cache = open();
    const [dead, live] = [named('/dead', { owner: 'Acme' }), serve('/live', { 7: 1 })];
    served.set('/dead', '404');
    await cache.refresh([dead, live]);
    expect([cache.statusOf(dead, 7), cache.statusOf(live, 7)]).toEqual(['unavailable', 'revoked']);
    expect([...cache.failing]).toEqual([['Acme', 1]]);
    // At once it is refused, and nothing is fetched.
    expect(cache.refresh([dead])).toBe(null);
    const starts: number[] = [];
    for (let second = 1; second <= 100; second++) {
      now += 1_000;
      const before = recorder.rootOutcomes.length;
      const wait = cache.refresh([dead]);
      if (wait === null) continue;
      await wait;
      await recorder.rootFetched(before + 1);
      starts.push(second);
    }
    expect(starts.length).toBeGreaterThan(4);
    expect(starts.length).toBeLessThan(9);
    expect(recorder.messages.filter((text) => text.includes('was not accepted'))).toHaveLength(1);
    expect(recorder.details[0]).toMatchObject({ root: 'Acme', url: at('/dead'), fault: 'http_status' });
    serve('/dead', {});
    now += 60_000;
    expect(await ask(cache, dead)).toBe('not_revoked');
    expect([...cache.failing]).toEqual([]);
  });

  it('is named for five minutes after it was last needed, and of many rows only some are', async () => {
    const cache = open();
    const dead = Array.from({ length: 30 }, (_, at) => named(`/${at}`, { owner: `row ${at % 25}` }));
    for (const { url } of dead) served.set(new URL(url).pathname, '404');
    await cache.refresh(dead);
    expect(cache.failing.size).toBe(20);
    expect(cache.failing.get('row 0')).toBe(2);
    now += 300_001;
    expect(cache.failing.size).toBe(0);
  });
});

describe('many lists', () => {
  it('10,000 take bounded memory, and what was not used for longest goes first', async () => {
    const cache = open();
    // 16 KiB each, as the W3C's minimum: 160 MiB in all.
    const lst = bitsOf(16 * 1024);
    const lists = Array.from({ length: 10_000 }, (_, index) => named(`/${index}`));
    server.respond = ({ url = '' }, response) => {
      const changes = { sub: at(url), status_list: { bits: 1, lst } };
      response.writeHead(200).end(tokenWith({}, issuer, { nowMs: now, changes }));
    };
    const often = lists[0] as RootList;
    for (let start = 0; start < lists.length; start += 50) {
      await cache.refresh([often, ...lists.slice(start, start + 50)]);
      expect(cache.stats.bytes).toBeLessThanOrEqual(64 * 1024 * 1024);
    }
    expect(cache.stats.lists).toBeGreaterThan(3_500);
    expect(cache.statusOf(often, 7)).toBe('not_revoked');
    expect(cache.statusOf(lists[1] as RootList, 7)).toBe('unavailable');
    expect(requestsOf('/0')).toBe(1);
    now += 1_000;
    expect(await ask(cache, lists[1] as RootList)).toBe('not_revoked');
  });

  it('a copy that was dropped may not come back older', async () => {
    const cache = open();
    const big = { status_list: { bits: 1, lst: bitsOf(4 * 1024 * 1024) } };
    const lists = Array.from({ length: 20 }, (_, index) => serve(`/${index}`, {}, big));
    for (const list of lists) await cache.refresh([list]);
    expect(cache.stats.lists).toBe(15);
    serve('/0', {}, { iat: now / 1000 - 11 });
    now += 1_000;
    expect(await ask(cache, lists[0] as RootList)).toBe('unavailable');
    expect(recorder.rootOutcomes.at(-1)).toBe('rollback');
  });

  it('a list that is too large is refused', async () => {
    const cache = open();
    const list = serve('/a', {}, { status_list: { bits: 1, lst: bitsOf(4 * 1024 * 1024 + 1) } });
    expect(await ask(cache, list)).toBe('unavailable');
    expect(recorder.rootOutcomes).toEqual(['too_large']);
  });

  it('200 that hang hold up none that answers for longer than callers wait', async () => {
    const cache = open({ maxWaitMs: 100 });
    const hanging = Array.from({ length: 200 }, (_, index) => named(`/hang/${index}`));
    const live = serve('/live', { 7: 1 });
    const isLive = () => eventually(() => expect(cache.statusOf(live, 7)).toBe('revoked'));
    void cache.refresh(hanging);
    // All places are taken, and who asks is told so.
    expect(await ask(cache, live)).toBe('unavailable');
    giveUp();
    await isLive();
    giveUp();
    await recorder.rootFetched(201);
    // From now on the dead ones have failed: those that keep their places leave some to the live one.
    for (let round = 0; round < 5; round++) {
      now += 301_000;
      void cache.refresh([...hanging, live]);
      await isLive();
    }
  });

  it('leave others a share of the callers that may wait', async () => {
    const cache = open({ maxWaiting: 10 });
    const [a, b] = [named('/a'), named('/b')];
    for (const path of ['/a', '/b']) served.set(path, '404');
    const waits = (list: RootList) =>
      Array.from({ length: 20 }, () => cache.refresh([list])).filter((wait) => wait !== null);
    const [ofA, ofB] = [waits(a), waits(b)];
    expect([ofA.length, ofB.length]).toEqual([5, 3]);
    // Who needs both is not held up where one may not wait.
    expect(cache.refresh([named('/c'), a])).toBe(null);
    await Promise.all([...ofA, ...ofB]);
    now += 100_000;
    expect(waits(named('/d'))).toHaveLength(5);
  });
});
