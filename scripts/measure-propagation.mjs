// Revokes through one of three services that share a Redis, and prints how long it takes until the revocation is in
// force on all of them: as the caller sees it (an acknowledgement means: in force everywhere), and as each service
// measured it. Needs redis-server and a build (`npm run setup`). `node scripts/measure-propagation.mjs [revocations]`
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startOnPort } from '../test/support/ports.mjs';

const count = Number(process.argv[2] ?? 500);
const TOKEN = 'only-for-this-measurement';
const folder = mkdtempSync(path.join(tmpdir(), 'drs-propagation-'));

const { redis, port } = await startOnPort(async (port) => {
  const redis = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'yes', '--dir', folder],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  for await (const line of createInterface({ input: redis.stdout })) {
    if (!line.includes('Ready to accept')) continue;
    redis.stdout.resume();
    return { redis, port };
  }
  throw new Error('redis-server ended before it was ready');
});

const drs = fileURLToPath(new URL('drs.mjs', import.meta.url));
const services = await Promise.all(
  [0, 1, 2].map(async () => {
    const child = spawn(process.execPath, [drs, 'serve'], {
      env: {
        PATH: process.env.PATH,
        PORT: '0',
        REVOCATION_STORE: 'redis',
        REDIS_URL: `redis://127.0.0.1:${port}`,
        DRS_ADMIN_TOKEN: TOKEN,
        WORKER_THREADS: '0',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const url = await new Promise((resolve) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const { msg, url } = JSON.parse(line);
        if (msg === 'listening') resolve(url);
      });
    });
    return { child, url };
  }),
);

const waits = [];
for (let index = 0; index < count; index++) {
  const sentAt = performance.now();
  const answer = await fetch(`${services[0].url}/admin/revoke`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ status_list_index: index }),
  });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  await answer.text();
  waits.push(performance.now() - sentAt);
}
waits.sort((one, other) => one - other);
const at = (share) => waits[Math.min(count - 1, Math.floor(share * count))].toFixed(1);
console.log(
  `${count} revocations, until acknowledged: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`,
);
for (const { url } of services) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const buckets = [...text.matchAll(/^drs_revocation_propagation_seconds_bucket{le="(.*)"} (\d+)/gm)];
  const within = (share) => buckets.find(([, , seen]) => Number(seen) >= share * count)?.[1];
  console.log(`${url}: p50 within ${within(0.5)} s, p99 within ${within(0.99)} s, all within ${within(1)} s`);
}
for (const { child } of services) {
  child.kill();
  await once(child, 'exit');
}
redis.kill();
await once(redis, 'exit');
rmSync(folder, { recursive: true, force: true });
