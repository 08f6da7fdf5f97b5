// Starts a Redis, records invocations and revocations like the service, and prints what each costs: bytes in Redis, and
// calls per second of one client. Needs redis-server and a build (`npm run setup`). `node test/replay/measure-redis.mjs
// [count]`
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { createClient } from 'redis';
import { openRedisReplayStore, replayKey } from '../../dist/replay/index.js';
import { RedisLog } from '../../dist/revocation/redis-log.js';
import { startOnPort } from '../support/ports.mjs';

const count = Number(process.argv[2] ?? 200_000);
const CONCURRENT = 256;

const { server, port } = await startOnPort(async (port) => {
  const server = spawn('redis-server', ['--port', String(port), '--save', '', '--bind', '127.0.0.1'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: server.stdout })) {
    if (!line.includes('Ready to accept')) continue;
    server.stdout.resume();
    return { server, port };
  }
  throw new Error('redis-server ended before it was ready');
});

const url = `redis://127.0.0.1:${port}`;
const client = await createClient({ url, RESP: 2 }).connect();
const usedBytes = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))[1]);
const redisSeconds = async () => {
  const info = await client.info('cpu');
  return ['sys', 'user'].reduce(
    (sum, kind) => sum + Number(new RegExp(`used_cpu_${kind}:([\\d.]+)`).exec(info)[1]),
    0,
  );
};

/**
 * @param {string} name
 * @param {(at: number) => Promise<unknown>} record
 */
async function measure(name, record) {
  const [bytes, cpu, ownCpu, started] = [
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
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(ownCpu);
  const microsOf = (secondsInAll) => ((secondsInAll * 1e6) / count).toFixed(1);
  console.log(
    `${name}: ${(((await usedBytes()) - bytes) / count).toFixed(0)} bytes each, ${Math.round(count / seconds)} a second; ` +
      `processor time each: Redis ${microsOf((await redisSeconds()) - cpu)} µs, client ${microsOf((user + system) / 1e6)} µs`,
  );
}

try {
  const store = await openRedisReplayStore({ url, timeoutMs: 10_000 }, { rollMs: -Infinity });
  const iss = 'did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw';
  await measure('replay key', (at) => store.record(replayKey('verify', iss, `inv:${at}-4f2c-9d1e`), 0, 961));
  await store.close();
  const log = new RedisLog({ send: (_, command) => client.sendCommand(command) });
  await measure('revocation', (at) => log.append([at * 7]));
} finally {
  client.destroy();
  server.kill();
}
