import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRedisReplayStore, replayKey, type ReplayStore } from '../../src/usage/index.js';
import { eventually } from '../support/eventually.js';
import { startRedisCluster, type RedisCluster } from './redis-cluster.js';
import { NEW } from '../../src/usage/usage-store.js';
import { command, type RedisServer } from './redis-server.js';
import { needs } from '../support/programs.js';

describe('replay protection on a Redis Cluster of three nodes', needs('redis-server'), () => {
  let cluster: RedisCluster;
  const stores: ReplayStore[] = [];
  beforeAll(async () => {
    cluster = await startRedisCluster(3);
    // One store knows only one node, the other knows all nodes.
    for (const url of [cluster.nodes[0]?.url ?? '', cluster.nodes.map((node) => node.url).join(',')])
      stores.push(await openRedisReplayStore({ url, timeoutMs: 20_000 }));
  }, 120_000);
  afterAll(async () => {
    for (const store of stores) await store.close();
    await cluster.stop();
  });
  const keysOf = async (node: RedisServer) => Number(await command(node, ['DBSIZE']));

  it('shares the invocations out among the nodes, also those of a caller who would choose one', async () => {
    const [one, other] = stores as [ReplayStore, ReplayStore];
    const keys = Array.from({ length: 300 }, (_, at) => replayKey('verify', 'did:key:z', `inv:{same}${at}`));
    const isNew = await Promise.all(keys.map(async (key) => (await one.use(key, 0, 900, null)) === NEW));
    expect(isNew.every(Boolean)).toBe(true);
    const again = await Promise.all(keys.map(async (key) => (await other.use(key, 0, 900, null)) === NEW));
    expect(again.some(Boolean)).toBe(false);
    // 100 each on average; fewer than 50 by chance is out of the question.
    for (const node of cluster.nodes) expect(await keysOf(node)).toBeGreaterThan(50);
  });

  it('refuses what belongs to a node that is away, and nothing else', async () => {
    const [one] = stores as [ReplayStore];
    const [, , away] = cluster.nodes as [RedisServer, RedisServer, RedisServer];
    await away.kill();
    const keys = Array.from({ length: 60 }, (_, at) => replayKey('verify', 'did:key:z', `inv:away${at}`));
    const results = await Promise.allSettled(
      keys.map(async (key) => (await one.use(key, 0, 900, null)) === NEW),
    );
    const recorded = results.filter((result) => result.status === 'fulfilled' && result.value).length;
    expect(recorded).toBeGreaterThan(10);
    expect(recorded).toBeLessThan(60);
    await away.restart();
    await eventually(async () => {
      const later = await Promise.allSettled(
        Array.from({ length: 60 }, async () => one.use(`${Math.random()}`, 0, 900, null)),
      );
      expect(later.filter(({ status }) => status === 'rejected')).toEqual([]);
    });
  });
});
