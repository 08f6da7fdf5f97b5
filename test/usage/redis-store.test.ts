import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useInvocation, openRedisReplayStore, ReplayStoreError } from '../../src/usage/index.js';
import type { RedisReplayStoreOptions, ReplayStore } from '../../src/usage/index.js';
import { markAsUsed, RedisServer } from './redis-server.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';

const NOW = 1_800_000_000;
const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 0 };
let serial = 0;
const fresh = () => ({
  iss: 'did:key:z6Mk',
  sub: 'did:key:z6Mk',
  jti: `inv:${++serial}`,
  iat: NOW,
  args: {},
});

describe('the Redis replay store', needs('redis-server'), () => {
  let redis: RedisServer;
  const open: ReplayStore[] = [];
  const openStore = async (options: Partial<RedisReplayStoreOptions> = {}) => {
    const store = await openRedisReplayStore({ url: redis.url, timeoutMs: 20_000, ...options });
    open.push(store);
    return store;
  };

  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(async () => {
    for (const store of open) await store.close();
    await redis.stop();
  });

  it('lets Redis forget by itself', async () => {
    const { createClient } = await import('redis');
    const client = await createClient({ url: redis.url, socket: { reconnectStrategy: false } }).connect();
    const store = await openStore({ keyPrefix: 'ttl-test:' });
    await store.use('key', NOW, 961, null);
    const keys = (await client.keys('ttl-test:*')).filter((key) => key !== 'ttl-test:mark').sort();
    // A digest: a long `jti` takes no more memory, and `{…}` in it does not choose the node of a cluster.
    expect(keys).toEqual([expect.stringMatching(/^ttl-test:1:[\w-]{22}$/)]);
    for (const key of keys) {
      const ttl = await client.pTTL(key);
      expect(ttl).toBeGreaterThan(900_000);
      expect(ttl).toBeLessThanOrEqual(961_000);
    }
    await client.close();
  });

  /** A log, and the lines that were written to it. */
  const logInto = (lines: string[]) => ({
    info: (_: object, message: string) => lines.push(`info ${message}`),
    warn: (_: object, message: string) => lines.push(`warn ${message}`),
    error: (_: object, message: string) => lines.push(`error ${message}`),
  });
  const away = expect.stringMatching(/^error Redis at redis:.* does not record: calls are refused/) as string;
  const lost = expect.stringMatching(
    /^error Redis at redis:.* may have lost records and counts of calls/,
  ) as string;
  const back = expect.stringMatching(/^info Redis at redis:.* records again/) as string;

  it('refuses while Redis is frozen: three after a bounded wait, then all at once, with one log line', async () => {
    const lines: string[] = [];
    const store = await openStore({ timeoutMs: 50, log: logInto(lines) });
    redis.freeze();
    try {
      for (let call = 0; call < 3; call++) {
        expect(await useInvocation(fresh(), [], store, NOW, rules)).toMatchObject({
          code: 'REPLAY_STORE_UNAVAILABLE',
          message: expect.stringContaining('(Redis did not record it)') as string,
        });
      }
      expect(lines).toEqual([away]);
      // None of these waits for a timer: they all end before one that was set first.
      let waited = false;
      const timer = setTimeout(() => (waited = true), 0);
      for (let call = 0; call < 1000; call++) {
        expect(await useInvocation(fresh(), [], store, NOW, rules)).toMatchObject({
          code: 'REPLAY_STORE_UNAVAILABLE',
        });
      }
      expect(waited).toBe(false);
      clearTimeout(timer);
      expect(lines).toEqual([away]);
    } finally {
      redis.thaw();
    }
    await eventually(() => expect(lines).toEqual([away, back]));
    await eventually(async () => expect(await useInvocation(fresh(), [], store, NOW, rules)).toBeNull());
  });

  it('refuses when Redis dies, at once and before, and recovers by itself', async () => {
    // Longer than this test may take: what refuses is the lost connection, not the wait.
    const lines: string[] = [];
    const store = await openStore({ timeoutMs: 600_000, log: logInto(lines) });
    redis.freeze();
    const inFlight = useInvocation(fresh(), [], store, NOW, rules);
    await redis.kill();
    expect(await inFlight).toMatchObject({ code: 'REPLAY_STORE_UNAVAILABLE' });
    // The lost connection is enough to know: no further call has to fail for it.
    await eventually(() => expect(lines).toEqual([away]));
    expect(await useInvocation(fresh(), [], store, NOW, rules)).toMatchObject({
      code: 'REPLAY_STORE_UNAVAILABLE',
    });
    await redis.restart();
    await eventually(async () => expect(await useInvocation(fresh(), [], store, NOW, rules)).toBeNull());
    expect(lines).toEqual([away, lost, back]);
  });

  it('does not come back to a Redis that answers later than a call may wait', async () => {
    const lines: string[] = [];
    let [delayMs, connections] = [0, 0];
    const proxy = createServer((socket) => {
      connections++;
      const upstream = connect(Number(new URL(redis.url).port), '127.0.0.1');
      for (const end of [socket, upstream]) end.on('error', () => undefined);
      socket.pipe(upstream);
      upstream.on('data', (answer: Buffer) => setTimeout(() => socket.write(answer), delayMs));
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    const options = { url: `redis://127.0.0.1:${port}`, timeoutMs: 100, keyPrefix: 'slow:' };
    await markAsUsed(redis, 'slow:');
    const store = await openStore({ ...options, log: logInto(lines) });
    delayMs = 300;
    await eventually(async () => {
      await useInvocation(fresh(), [], store, NOW, rules);
      expect(lines).toEqual([away]);
    });
    const before = connections;
    await eventually(() => expect(connections).toBeGreaterThan(before + 2));
    expect(lines).toEqual([away]);
    expect(store.unreadyReason).toBe('replay_store_unreachable');
    delayMs = 0;
    await eventually(() => expect(lines).toEqual([away, back]));
    proxy.close();
  });

  it('gives up a connection that stays silent, for one that answers', async () => {
    const lines: string[] = [];
    // What a network does that drops every packet: the connection stays, and nothing comes any more.
    const pairs: { socket: Socket; upstream: Socket }[] = [];
    const proxy = createServer((socket) => {
      const upstream = connect(Number(new URL(redis.url).port), '127.0.0.1');
      pairs.push({ socket, upstream });
      for (const end of [socket, upstream]) end.on('error', () => undefined);
      socket.pipe(upstream).pipe(socket);
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    await markAsUsed(redis, 'silent:');
    const store = await openStore({
      url: `redis://127.0.0.1:${port}`,
      timeoutMs: 50,
      keyPrefix: 'silent:',
      log: logInto(lines),
    });
    for (const { socket, upstream } of pairs) socket.unpipe(upstream).resume();
    await eventually(async () => {
      await useInvocation(fresh(), [], store, NOW, rules);
      expect(lines).toEqual([away]);
    });
    await eventually(() => expect(lines).toEqual([away, back]));
    expect(pairs.length).toBeGreaterThan(1);
    await store.close();
    for (const { socket } of pairs) socket.destroy();
    proxy.close();
  });

  it('refuses at once where Redis answers and does not record, until it does', async () => {
    const lines: string[] = [];
    const store = await openStore({ log: logInto(lines) });
    const { createClient } = await import('redis');
    const client = await createClient({ url: redis.url, socket: { reconnectStrategy: false } }).connect();
    await client.sendCommand(['REPLICAOF', '127.0.0.1', '1']);
    for (let call = 0; call < 5; call++) {
      expect(await useInvocation(fresh(), [], store, NOW, rules)).toMatchObject({
        code: 'REPLAY_STORE_UNAVAILABLE',
      });
    }
    expect(lines).toEqual([away]);
    await client.sendCommand(['REPLICAOF', 'NO', 'ONE']);
    // Meanwhile it may have taken over what another one has.
    await eventually(() => expect(lines).toEqual([away, lost, back]));
    expect(await useInvocation(fresh(), [], store, NOW, rules)).toBeNull();
    await client.close();
  });

  it('is closed in the middle of an outage', async () => {
    // No look falls into this test: nothing but the time-out ends a call.
    const url = redis.url;
    const store = await openRedisReplayStore({ url, timeoutMs: 50 }, { lookMs: 3_600_000 });
    open.push(store);
    redis.freeze();
    for (let call = 0; call < 3; call++) await useInvocation(fresh(), [], store, NOW, rules);
    await store.close();
    redis.thaw();
    expect(await useInvocation(fresh(), [], store, NOW, rules)).toMatchObject({
      code: 'REPLAY_STORE_UNAVAILABLE',
    });
  });

  describe('opened with a Redis', () => {
    const withRedis = async (options: string[], use: (server: RedisServer) => Promise<void>) => {
      const server = await RedisServer.start(...options);
      try {
        await use(server);
      } finally {
        await server.stop();
      }
    };

    it.each(['allkeys-lru', 'volatile-ttl'])('that evicts keys (%s) is refused', async (policy) => {
      await withRedis(['--maxmemory-policy', policy], async ({ url }) => {
        const opening = openRedisReplayStore({
          url,
        });
        await expect(opening).rejects.toThrow(ReplayStoreError);
        await expect(opening).rejects.toThrow(
          `Redis at ${url} has the maxmemory-policy ${policy}, expected noeviction: `,
        );
        await expect(opening).rejects.toThrow('set `maxmemory-policy noeviction`');
      });
    });

    it('whose provider took CONFIG away is checked by what INFO says', async () => {
      const withoutConfig = ['--rename-command', 'CONFIG', ''];
      await withRedis([...withoutConfig, '--maxmemory-policy', 'allkeys-lru'], async ({ url }) => {
        await expect(openRedisReplayStore({ url })).rejects.toThrow('has the maxmemory-policy allkeys-lru');
      });
    });

    it('that says nothing of it is used, with a warning', async () => {
      await withRedis(['--rename-command', 'CONFIG', '', '--rename-command', 'INFO', ''], async ({ url }) => {
        const lines: string[] = [];
        const store = await openStore({ url, log: logInto(lines) });
        expect(lines).toEqual([
          expect.stringMatching(
            /^warn Redis at .* does not tell its settings: without noeviction and appendonly it may forget/,
          ),
        ]);
        expect(await useInvocation(fresh(), [], store, NOW, rules)).toBeNull();
        await store.close();
      });
    });
  });

  it('is not opened where there is no Redis, and says where it looked', async () => {
    await redis.kill();
    const opening = openRedisReplayStore({ url: redis.url.replace('//', '//user:hunter2@') });
    await expect(opening).rejects.toThrow(ReplayStoreError);
    await expect(opening).rejects.toThrow(`cannot connect to Redis at ${redis.url}: `);
    await expect(opening).rejects.not.toThrow('hunter2');
    await redis.restart();
  });
});
