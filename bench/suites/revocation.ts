import { isBitSet } from '../../src/revocation/bitstring.js';
import { IndexSet } from '../../src/revocation/index-set.js';
import { timeOperation } from '../measure/time-operation.js';
import type { Suite } from '../run/suite.js';

const LIST_ENTRIES = 64 * 1024 * 1024;
const LOOKUPS = 4096;

/** Measures what a look-up of an index costs when very many are revoked. */
export const revocation: Suite = {
  name: 'revocation',
  about: 'look-ups with 10 million local entries and a status list of 64 Mi entries',
  isIsolated: true,
  run: ({ plan, recorder, say }) => {
    const entries = plan.localEntries;
    // Random indices below 2^53: the worst case for caches.
    const indices = Float64Array.from({ length: entries }, () => Math.floor(Math.random() * 2 ** 53));
    const revoked = indices.slice(0, LOOKUPS);
    const others = Float64Array.from({ length: LOOKUPS }, () => Math.floor(Math.random() * 2 ** 53));
    const before = process.memoryUsage();
    const set = new IndexSet();
    const start = performance.now();
    set.load(indices);
    const loadMs = performance.now() - start;
    const after = process.memoryUsage();
    if (!revoked.every((index) => set.has(index))) throw new Error('an index of the local set was not found');
    const bits = Buffer.alloc(LIST_ENTRIES / 8, 0b0101_0101);
    let at = 0;
    const turn = (list: Float64Array) => list[at++ % LOOKUPS] as number;
    const lookups: Readonly<Record<string, () => unknown>> = {
      'local-revoked': () => set.has(turn(revoked)),
      'local-not-revoked': () => set.has(turn(others)),
      'remote-bit': () => isBitSet(bits, turn(others) % LIST_ENTRIES),
    };
    for (let run = 1; run <= plan.runs; run++) {
      recorder.measureFloor();
      for (const [name, look] of Object.entries(lookups)) {
        const parameters = { lookup: name, entries: name === 'remote-bit' ? LIST_ENTRIES : entries };
        const value = timeOperation(look, plan.inProcessMs);
        recorder.record({ id: `revocation/${name}/time`, unit: 'µs', better: 'lower', value, parameters });
      }
    }
    const memory = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed;
    const parameters = { entries };
    const load = {
      id: 'revocation/load/time',
      unit: 'ms',
      better: 'lower',
      value: loadMs,
      parameters,
    } as const;
    recorder.record(load);
    const value = Math.max(0, memory / entries);
    recorder.record({
      id: 'revocation/load/bytes-per-entry',
      unit: 'bytes',
      better: 'lower',
      value,
      parameters,
    });
    say(`revocation · ${entries} local entries, ${LIST_ENTRIES} in the list`);
    return Promise.resolve();
  },
};
