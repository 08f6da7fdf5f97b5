import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { command, RedisServer } from '../usage/redis-server.js';
import { FRESH, invoke, makeChain, sha256, type Chain } from '../support/chain.js';
import { startCuttableProxy, type CuttableProxy } from '../support/cuttable-proxy.js';
import { eventually } from '../support/eventually.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { metricOf, startService, type RunningService } from '../support/service.js';
import { needs } from '../support/programs.js';

const TOKEN = 'a-token-of-sixteen-and-more';

/** Three instances: if one has acknowledged a revocation, no instance that says that it is ready lets it pass. */
describe(
  'three instances that share revocations and replays over Redis',
  { ...needs('redis-server'), shuffle: false },
  () => {
    let redis: RedisServer;
    let replica: RedisServer;
    /** Which of the two is the primary. Its death and the fail-over are the last tests. */
    let proxy: CuttableProxy;
    /** The first two reach the primary directly, with both addresses; the third through a network that can be cut. */
    const services: RunningService[] = [];
    const acknowledged: number[] = [];
    // Of each number, the chain that is revoked by index, by receipt or by key, in turn.
    const chains = new Map<number, Chain>();
    let last = 100;
    const chainOf = (number: number): Chain => {
      const known = chains.get(number) ?? makeChain(1, { 0: { drs_status_list_index: number } });
      chains.set(number, known);
      return known;
    };
    const revocationOf = (number: number): object => {
      const { receipts, parties } = chainOf(number);
      const ways = [
        { status_list_index: number },
        { receipt: sha256(receipts[0] ?? '') },
        { did: parties[1]?.did, reason: 'stolen' },
      ];
      return ways[number % 3] ?? {};
    };

    const start = (url: string, open = startService) =>
      open({
        ...FRESH,
        REVOCATION_STORE: 'redis',
        REVOCATION_MIN_REPLICAS: '1',
        REPLAY_PROTECTION: 'redis',
        REDIS_URL: url,
        REDIS_TIMEOUT_MS: '20000',
        DRS_ADMIN_TOKEN: TOKEN,
        WORKER_THREADS: '0',
      });
    const both = () => `${redis.url},${replica.url}`;
    const revoke = async (service: RunningService, index: number) => {
      const { status } = await service.post('/admin/revoke', revocationOf(index), {
        Authorization: `Bearer ${TOKEN}`,
      });
      if (status === 200) acknowledged.push(index);
      return status;
    };
    const revokeOn = async (service: RunningService): Promise<number> => {
      const index = ++last;
      await eventually(async () => expect(await revoke(service, index)).toBe(200));
      return index;
    };
    const isReady = async (service: RunningService) => (await fetch(`${service.url}/readyz`)).status === 200;
    const codeOf = async (service: RunningService, index: number) => {
      const bundle = invoke(chainOf(index), { jti: `inv:${Math.random()}` });
      const { valid, error } = (await (await service.post('/verify', bundle)).json()) as {
        valid: boolean;
        error?: { code: string };
      };
      return valid ? 'valid' : error?.code;
    };
    /** Asks an instance that is ready about everything that was ever acknowledged. */
    const checkAll = async (service: RunningService) => {
      for (const index of acknowledged)
        expect(await codeOf(service, index)).toBe(index % 3 === 2 ? 'KEY_REVOKED' : 'RECEIPT_REVOKED');
    };
    const checkReady = async () => {
      for (const service of services) if (await isReady(service)) await checkAll(service);
    };
    const allReady = () =>
      eventually(async () => {
        for (const service of services) expect(await isReady(service)).toBe(true);
      });

    beforeAll(async () => {
      redis = await RedisServer.start('--appendonly', 'yes');
      replica = await RedisServer.start(
        '--appendonly',
        'yes',
        '--replicaof',
        '127.0.0.1',
        new URL(redis.url).port,
      );
      await eventually(async () => {
        expect(String(await command(replica, ['INFO', 'replication']))).toContain('master_link_status:up');
      });
      proxy = await startCuttableProxy(Number(new URL(redis.url).port));
      // One in the process of the test: only the first is killed.
      const cut = `redis://127.0.0.1:${proxy.port}`;
      services.push(...(await Promise.all([start(both()), start(both(), startServiceHere), start(cut)])));
    }, 120_000);
    afterAll(async () => {
      await Promise.all(services.map((service) => service.stop()));
      proxy.stop();
      await redis.stop();
      await replica.stop();
    });

    it('refuse everywhere what one has acknowledged, and measure how long that took', async () => {
      for (const service of services) {
        await revokeOn(service);
        await checkReady();
      }
      expect(await codeOf(services[0] as RunningService, 99)).toBe('valid');
      // Also those that were not confirmed in time, and were asked for again.
      const recorded = Number(await command(redis, ['XLEN', '{drs:revocations}:entries']));
      expect(recorded).toBeGreaterThanOrEqual(services.length);
      for (const service of services) {
        const text = await (await fetch(`${service.url}/metrics`)).text();
        const [count, sum] = ['count', 'sum'].map((part) =>
          metricOf(text, `drs_revocation_propagation_seconds_${part}`),
        ) as [number, number];
        expect(count).toBe(recorded);
        // Only printed, not asserted, since it depends on the machine. docs/scaling.md has measurements.
        console.log(`a revocation was in force ${((1000 * sum) / count).toFixed(1)} ms after Redis had it`);
        expect(metricOf(text, 'drs_dependency_up{dependency="redis"}')).toBe(1);
      }
      const metrics = await (await fetch(`${services[1]?.url}/metrics`)).text();
      expect(metrics).toMatch(/^drs_revocation_copy_age_seconds \d/m);
      const bundle = invoke(makeChain(1), { jti: 'inv:once' });
      const answers = await Promise.all(
        services.map(async (service) => (await (await service.post('/verify', bundle)).json()) as object),
      );
      expect(answers.filter((answer) => 'valid' in answer && answer.valid === true)).toHaveLength(1);
    });

    it('are not ready where the network is cut, and have caught up before they are again', async () => {
      const [one, , cut] = services as [RunningService, RunningService, RunningService];
      proxy.cut();
      const index = await revokeOn(one);
      // It was acknowledged, so the one that was cut off has lost its lease, and knows it.
      const response = await fetch(`${cut.url}/readyz`);
      expect([response.status, await response.json()]).toEqual([
        503,
        {
          status: 'not_ready',
          reason: 'revocation_store_unreachable',
          reasons: expect.arrayContaining(['revocation_store_unreachable']) as unknown,
        },
      ]);
      expect(await revoke(cut, index + 1000)).toBe(503);
      const metrics = await (await fetch(`${cut.url}/metrics`)).text();
      expect(metricOf(metrics, 'drs_dependency_up{dependency="redis"}')).toBe(0);
      proxy.heal();
      await allReady();
      expect(await codeOf(cut, index)).toMatch(/_REVOKED$/);
      await checkReady();
    });

    it('keep their copy and fail closed on replays when Redis is killed, and find the replica once it is promoted', async () => {
      const [one] = services as [RunningService];
      await redis.kill();
      await eventually(async () => {
        for (const service of services) expect(await isReady(service)).toBe(false);
      });
      expect(await revoke(one, ++last)).toBe(503);
      await checkAll(one);
      expect(await codeOf(one, 99)).toBe('REPLAY_STORE_UNAVAILABLE');

      await command(replica, ['REPLICAOF', 'NO', 'ONE']);
      proxy.lead(Number(new URL(replica.url).port));
      await allReady();
      await checkReady();
      // Nothing is acknowledged until there is a replica again.
      expect(await revoke(one, ++last)).toBe(503);
      await redis.restart('--replicaof', '127.0.0.1', new URL(replica.url).port);
      await revokeOn(one);
      await allReady();
      await checkReady();
    });
  },
);
