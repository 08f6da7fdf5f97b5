import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisServer } from '../usage/redis-server.js';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service-in-process.js';
import { needs } from '../support/programs.js';

describe('a service that cannot start', needs('redis-server'), () => {
  let redis: RedisServer;
  let client: ReturnType<typeof createClient>;
  beforeAll(async () => {
    redis = await RedisServer.start('--appendonly', 'yes');
    client = createClient({ url: redis.url, socket: { reconnectStrategy: false } });
    await client.connect();
  });
  afterAll(async () => {
    client.destroy();
    await redis.stop();
  });

  it.each([
    ['its decision log cannot be written', { DECISION_LOG: '/nowhere/log' }, 'DECISION_LOG'],
    ['it cannot listen for scrapes', { METRICS_ADDR: '192.0.2.1:9' }, '192.0.2.1'],
    ['it cannot listen for gRPC', { GRPC_PORT: '0', HOST: '192.0.2.1' }, '192.0.2.1'],
  ])('closes what it has opened where %s', async (_, env, says) => {
    const stores = { GATE_REPLAY: 'redis', REPLAY_PROTECTION: 'redis', REVOCATION_STORE: 'redis' };
    await expect(startService({ ...stores, REDIS_URL: redis.url, ...env })).rejects.toThrow(says);
    await eventually(async () => expect(await client.clientList()).toHaveLength(1));
  });
});
