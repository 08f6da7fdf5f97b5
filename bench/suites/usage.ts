import { randomUUID } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createMemoryReplayStore, useInvocation } from '../../src/usage/index.js';
import { Failure } from '../../src/verify/codes.js';
import type { Suite } from '../run/suite.js';

const LEVELS = 4;
const CHAINS = 1_000;
const RULES = { scope: 'bench', windowSecs: 900, clockSkewSecs: 0 };
const NOW = Math.floor(Date.now() / 1000);

/** Measures what the limits of a call cost in memory: time, and the bytes of a counter. */
export const usage: Suite = {
  name: 'usage',
  about: 'what four limited levels add to the use of an invocation in memory, and the bytes of a counter',
  run: async ({ plan, recorder, say }) => {
    const [calls, counters] = plan.mode === 'smoke' ? [2_000, 2_000] : [200_000, 100_000];
    // V8 compiles.
    for (const levels of [0, LEVELS]) await microsecondsOf(levels, CHAINS);
    for (let run = 1; run <= plan.runs; run++) {
      recorder.measureFloor();
      for (const levels of [0, LEVELS]) {
        const cpu = await microsecondsOf(levels, calls);
        recorder.record(`usage/${levels}-levels/cpu`, cpu);
        say(
          `usage · ${levels} limited levels: ${cpu.toFixed(2)} µs of ${recorder.floor.toFixed(1)}, the floor`,
        );
      }
      // Without the records of the calls that made them.
      const chains = counters / LEVELS;
      const bytes = ((await heapOf(LEVELS, chains)) - (await heapOf(0, chains))) / counters;
      recorder.record('usage/counter', bytes, 'bytes');
      say(`usage · ${counters} counters: ${bytes.toFixed(0)} bytes each`);
    }
  },
};

/** Processor time of the use of an invocation, under one of many chains with so many limited receipts. */
async function microsecondsOf(levels: number, calls: number): Promise<number> {
  const store = createMemoryReplayStore({ maxEntries: calls + CHAINS * LEVELS * LEVELS });
  const chains = Array.from({ length: CHAINS }, () => limitsOf(levels));
  const one = { iss: 'did:key:z6Mk', iat: NOW, args: { estimated_cost_usd: 0.01 } };
  const claims = Array.from({ length: calls }, () => ({ ...one, jti: randomUUID() }));
  const start = process.cpuUsage();
  for (const [at, call] of claims.entries()) {
    const used = await useInvocation(call, chains[at % CHAINS] ?? [], store, NOW, RULES);
    if (used instanceof Failure) throw new Error(`a call of the suite was refused: ${used.message}`);
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / calls;
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes on the heap of a store, after one call under each of so many chains. */
async function heapOf(levels: number, chains: number): Promise<number> {
  collect();
  const before = process.memoryUsage().heapUsed;
  const store = createMemoryReplayStore({ maxEntries: chains * LEVELS * LEVELS });
  for (let at = 0; at < chains; at++) {
    const charge = { limits: limitsOf(levels), costMicroUsd: 1, clockSkewSecs: 0 };
    await store.use(`a call ${randomUUID()}`, NOW, 961, levels === 0 ? null : charge);
  }
  collect();
  const bytes = process.memoryUsage().heapUsed - before;
  await store.close();
  return bytes;
}

/** The limits of new receipts, which no call exceeds. */
function limitsOf(levels: number) {
  return Array.from({ length: levels }, (_, level) => {
    const receipt = `sha256:${randomUUID().replaceAll('-', '').repeat(2)}`;
    return { level, receipt, maxCalls: 1e9, maxTotalMicroUsd: 1e15, exp: null };
  });
}
