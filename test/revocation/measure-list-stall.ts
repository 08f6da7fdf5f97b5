// How long a status list of 14 MiB stops the event loop while it is fetched, checked and unpacked: the longest pause between
// two turns, for a plain credential and for a signed JWT. `npm run compile && node
// .build/test/revocation/measure-list-stall.js [fetches]`
import { fork } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { generateKey } from '../../src/issue/index.js';
import {
  createStatusList,
  signStatusList,
  toCredential,
} from '../../src/revocation/lists/make-status-list.js';
import { StatusListCache } from '../../src/revocation/lists/status-list-cache.js';

const MIB = 1024 * 1024;
const TYPES = { '/credential': 'application/vc', '/jwt': 'application/vc+jwt' };

if (process.argv[2] === 'serve') await serveLists();
else await measure(Number(process.argv[2] ?? 20));

/** In a process of its own, so that its work does not count. The bits are random: nothing about them can be packed. */
async function serveLists(): Promise<void> {
  const listOf = (mebibytes: number) => {
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
    const path = request.url as keyof typeof bodies;
    response.setHeader('Content-Type', TYPES[path]).end(bodies[path]);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sizes = Object.values(bodies).map((body) => body.length);
  process.send?.({ port: (server.address() as AddressInfo).port, sizes });
  process.once('disconnect', () => process.exit());
}

async function measure(fetches: number): Promise<void> {
  const server = fork(new URL(import.meta.url), ['serve']);
  const [{ port, sizes }] = (await once(server, 'message')) as [{ port: number; sizes: number[] }];
  for (const [at, [path, type]] of Object.entries(TYPES).entries()) {
    const cache = new StatusListCache(
      { url: `http://127.0.0.1:${port}${path}`, ttlSecs: 1, maxStaleSecs: 3600 },
      {
        log: { info: () => undefined, warn: console.warn, error: console.error },
        observer: {},
        now: Date.now,
      },
    );
    cache.start();
    while (cache.entries === 0) await sleep(10);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const longest: number[] = [];
    for (let fetch = 0; fetch < fetches; fetch++) {
      await sleep(1100);
      const before = cache.ageSecs;
      delay.reset();
      delay.enable();
      // What it returns is for calls, which wait no longer than they must.
      void cache.freshen();
      while (cache.ageSecs >= before) await sleep(5);
      delay.disable();
      longest.push(delay.max / 1e6);
    }
    longest.sort((a, b) => a - b);
    const at50 = longest[Math.floor(longest.length / 2)] ?? NaN;
    const size = ((sizes[at] ?? NaN) / MIB).toFixed(1);
    console.log(
      `${type}, ${size} MiB, ${fetches} fetches: the longest pause was ${at50.toFixed(1)} ms in the median, ` +
        `${longest.at(-1)?.toFixed(1)} ms at most`,
    );
    await cache.close();
  }
  server.disconnect();
}
