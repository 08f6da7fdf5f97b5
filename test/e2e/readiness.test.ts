import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { problemsOf } from '../service/problems-of.js';
import { RedisServer } from '../usage/redis-server.js';
import { FRESH, makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { callOnce, clientOf, grpcPortOf, HEALTH } from '../support/grpc.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { startService, type RunningService } from '../support/service.js';
import { needs } from '../support/programs.js';

const readinessOf = async ({ url }: RunningService) => {
  const response = await fetch(`${url}/readyz`);
  return [response.status, await response.json()];
};
const healthOf = async (service: RunningService) => {
  const client = clientOf(HEALTH, grpcPortOf(service));
  const answer = await callOnce(client, 'Check', { service: '' });
  client.close();
  return answer['status'];
};
const READY = [200, { status: 'ready' }];
const notReady = (...reasons: string[]) => [503, { status: 'not_ready', reason: reasons[0], reasons }];

describe('readiness, with used invocations in Redis', needs('redis-server'), () => {
  let redis: RedisServer;
  let services: RunningService[] = [];
  beforeAll(async () => {
    redis = await RedisServer.start();
    const env = {
      ...FRESH,
      REPLAY_PROTECTION: 'redis',
      GATE_REPLAY: 'redis',
      REDIS_URL: redis.url,
      GRPC_PORT: '0',
      WORKER_THREADS: '0',
    };
    services = await Promise.all([startService(env), startServiceHere({ ...env, READY_WITHOUT: 'replay' })]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all(services.map((service) => service.stop()));
    await redis.stop();
  });

  it('ends with Redis, without any call, and comes back with it', async () => {
    const [strict, lenient] = services as [RunningService, RunningService];
    expect(await readinessOf(strict)).toEqual(READY);
    await redis.kill();
    const reasons = ['replay_store_unreachable', 'gate_replay_store_unreachable'];
    await eventually(async () => expect(await readinessOf(strict)).toEqual(notReady(...reasons)));
    expect(await healthOf(strict)).toBe('NOT_SERVING');
    // The other is ready without it, and still refuses every call.
    expect(await readinessOf(lenient)).toEqual([200, { status: 'ready', reasons }]);
    expect(await healthOf(lenient)).toBe('SERVING');
    for (const service of services)
      expect(await (await service.post('/verify', makeBundle(1))).json()).toMatchObject({
        error: { code: 'REPLAY_STORE_UNAVAILABLE' },
      });
    await redis.restart();
    await eventually(async () => expect(await readinessOf(strict)).toEqual(READY));
    expect(await healthOf(strict)).toBe('SERVING');
    // Each line says whose record it is about.
    for (const said of ['does not record', 'records again'])
      await eventually(() => {
        const lines = strict.log.filter(({ msg }) => String(msg).includes(said));
        expect(lines.map(({ scope }) => scope).toSorted()).toEqual(['gate', 'verify']);
      });
  });
});

describe('readiness, with used invocations in memory', () => {
  it('ends where a record is full, for /verify and for the gate', async () => {
    const service = await startServiceHere({
      ...FRESH,
      REPLAY_PROTECTION: 'memory',
      REPLAY_MAX_ENTRIES: '1',
    });
    try {
      expect(await readinessOf(service)).toEqual(READY);
      await service.post('/verify', makeBundle(1));
      expect(await readinessOf(service)).toEqual(notReady('replay_store_full'));
      await service.post('/gate/mcp', toolCall(), { 'X-DRS-Bundle': mcpBundle() });
      expect(await readinessOf(service)).toEqual(notReady('replay_store_full', 'gate_replay_store_full'));
    } finally {
      await service.stop();
    }
  });
});

it('refuses to be ready without anything else', () => {
  for (const value of ['replay,status_list', 'none,replay'])
    expect(problemsOf({ READY_WITHOUT: value })).toEqual([
      expect.stringContaining(`READY_WITHOUT is "${value}"`),
    ]);
});
