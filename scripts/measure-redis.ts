// Records invocations and revocations like the service, and prints what each costs: bytes in Redis, and processor time.
// Needs redis-server. `npm run compile && node .build/scripts/measure-redis.js [count]`
import { connectRedis } from '../src/redis/connection.js';
import { openRedisReplayStore, replayKey } from '../src/usage/index.js';
import { RedisLog } from '../src/revocation/store/redis-log.js';
import { RedisServer } from '../test/usage/redis-server.js';

const count = Number(process.argv[2] ?? 200_000);
const CONCURRENT = 256;

const server = await RedisServer.start();
const client = await connectRedis(server.url);

/** The sum of figures that Redis says of itself. */
async function figure(names: readonly string[]): Promise<number> {
  const [info] = await client.info();
  return names.reduce(
    (sum, name) => sum + Number(new RegExp(`^${name}:(\\S+)`, 'm').exec(info ?? '')?.[1]),
    0,
  );
}
const usedBytes = () => figure(['used_memory']);
const redisSeconds = () => figure(['used_cpu_sys', 'used_cpu_user']);

async function measure(name: string, record: (at: number) => Promise<unknown>): Promise<void> {
  const [bytes, redis, own, start] = [
    await usedBytes(),
    await redisSeconds(),
    process.cpuUsage(),
    performance.now(),
  ];
  let next = 0;
  await Promise.all(
    Array.from({ length: CONCURRENT }, async () => {
      while (next < count) await record(next++);
    }),
  );
  const rate = (1000 * count) / (performance.now() - start);
  const { user, system } = process.cpuUsage(own);
  const redisMicros = (1e6 * ((await redisSeconds()) - redis)) / count;
  console.log(
    `${name}: ${(((await usedBytes()) - bytes) / count).toFixed(0)} bytes each, ${rate.toFixed(0)} a second; ` +
      `processor time each: Redis ${redisMicros.toFixed(1)} µs, client ${((user + system) / count).toFixed(1)} µs`,
  );
}

try {
  const store = await openRedisReplayStore({ url: server.url, timeoutMs: 10_000 });
  const iss = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';
  await measure('replay key', async (at) =>
    store.use(replayKey('verify', iss, `inv:${at}-4f2c-9d1e`), 0, 961, null),
  );
  const limits = Array.from({ length: 4 }, (_, level) => ({
    ...{
      level,
      receipt: `sha256:${String(level).repeat(64)}`,
      maxCalls: 2 ** 50,
      maxTotalMicroUsd: 1e15,
      ...{ nbf: 0, exp: null },
    },
  }));
  await measure('call under four limited receipts', async (at) =>
    store.use(replayKey('verify', iss, `inv:${at}-limited`), 0, 961, {
      ...{ limits, costMicroUsd: 1 },
    }),
  );
  await measure('counter', async (at) =>
    store.use('used', 0, 961, {
      limits: limits
        .slice(0, 1)
        .map((limit) => ({ ...limit, receipt: `sha256:${at.toString(16).padStart(64, '0')}` })),
      ...{ costMicroUsd: 1 },
    }),
  );
  await store.close();
  const log = new RedisLog(client);
  await measure('revocation', (at) => log.append([{ target: at * 7, at: null, reason: null, exp: null }]));
} finally {
  client.destroy();
  await server.stop();
}
