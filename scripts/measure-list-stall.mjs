// How long a status list of 14 MiB stops the event loop while it is fetched, checked and unpacked: the longest pause between
// two turns, for a plain credential and for a signed JWT. Needs a build (`npm run setup`).
// `node scripts/measure-list-stall.mjs [fetches]`
import { fork } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

const MIB = 1024 * 1024;
const TYPES = { '/credential': 'application/vc', '/jwt': 'application/vc+jwt' };

if (process.argv[2] === 'serve') await serveLists();
else await measure(Number(process.argv[2] ?? 20));

/** In a process of its own, so that its work does not count. The bits are random: nothing about them can be packed. */
async function serveLists() {
  const { generateKey } = await import('../dist/issue/index.js');
  const { createStatusList, signStatusList, toCredential } =
    await import('../dist/revocation/make-status-list.js');
  const listOf = (/** @type {number} */ mebibytes) => {
    const list = createStatusList({ id: 'http://127.0.0.1/list', entries: Math.floor(mebibytes * MIB) * 8 });
    randomFillSync(list.bits);
    return list;
  };
  const signer = generateKey();
  // Base64url adds a third, in a JWT twice.
  const bodies = {
    '/credential': JSON.stringify(await toCredential(listOf(10.5), { issuer: signer.did })),
    '/jwt': await signStatusList(listOf(7.87), { signer }),
  };
  const server = createServer((request, response) => {
    const path = /** @type {keyof typeof bodies} */ (request.url);
    response.setHeader('Content-Type', TYPES[path]).end(bodies[path]);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sizes = Object.values(bodies).map((body) => body.length);
  process.send?.({ port: /** @type {import('node:net').AddressInfo} */ (server.address()).port, sizes });
  process.once('disconnect', () => process.exit());
}

/** @param {number} fetches */
async function measure(fetches) {
  const { StatusListCache } = await import('../dist/revocation/status-list-cache.js');
  const server = fork(new URL(import.meta.url), ['serve']);
  const [{ port, sizes }] = await once(server, 'message');
  for (const [at, path] of Object.keys(TYPES).entries()) {
    const cache = new StatusListCache(
      { url: `http://127.0.0.1:${port}${path}`, ttlSecs: 1, maxStaleSecs: 3600 },
      {
        log: { info() {}, warn: console.warn, error: console.error },
        observer: {},
        now: Date.now,
      },
    );
    cache.start();
    while (cache.entries === 0) await sleep(10);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const longest = [];
    for (let fetch = 0; fetch < fetches; fetch++) {
      await sleep(1100);
      const before = cache.ageSecs;
      delay.reset();
      delay.enable();
      cache.freshen();
      while (cache.ageSecs >= before) await sleep(5);
      delay.disable();
      longest.push(delay.max / 1e6);
    }
    longest.sort((a, b) => a - b);
    const at50 = longest[Math.floor(longest.length / 2)] ?? Number.NaN;
    const size = (sizes[at] / MIB).toFixed(1);
    console.log(
      `${TYPES[path]}, ${size} MiB, ${fetches} fetches: the longest pause was ${at50.toFixed(1)} ms in the median, ` +
        `${longest.at(-1)?.toFixed(1)} ms at most`,
    );
    await cache.close();
  }
  server.disconnect();
}
