import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { openVerification, proveVerification } from '../../src/verify/pipeline.js';
import { Failure } from '../../src/verify/codes.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import type { Suite } from '../run/suite.js';
import { makeCall, makeChain } from '../workload/chains.js';
import { RULES } from './rules.js';

const DEPTH = 4;
const WARM_UP_SHARE = 1 / 3;
const MEBIBYTE = 1024 * 1024;

/** Shows how large the receipt cache must be. */
export const cache: Suite = {
  name: 'cache',
  about: 'the size of the receipt cache against its hit ratio, under calls that follow a Zipf distribution',
  run: ({ plan, recorder, say }) => {
    const chains = plan.mode === 'quick' ? 400 : 2_000;
    const calls = 10 * chains;
    const bundles = Array.from(
      { length: chains },
      () => JSON.parse(makeCall(makeChain(DEPTH)).body) as unknown,
    );
    const order = zipf(chains, calls);
    // Signatures count as verified here, since they do not affect the hit ratio.
    for (const mebibytes of [0, 1, 2, 4, 8, 16, 32, 64]) {
      const receipts = new ReceiptCache(mebibytes * MEBIBYTE);
      const deps = { rules: RULES, cache: receipts, keys: DEFAULT_KEYS };
      let { hits, misses, bytes } = receipts.stats;
      for (const [at, index] of order.entries()) {
        if (at === Math.floor(calls * WARM_UP_SHARE)) ({ hits, misses } = receipts.stats);
        const opened = openVerification(bundles[index], deps);
        if (opened instanceof Failure)
          throw new Error(`a bundle of the suite was refused: ${opened.message}`);
        proveVerification(opened, opened.plan.checks.map(isTrue), Date.now() / 1000, deps);
      }
      hits = receipts.stats.hits - hits;
      misses = receipts.stats.misses - misses;
      ({ bytes } = receipts.stats);
      const parameters = { mebibytes, depth: DEPTH, chains };
      const ratio = hits / (hits + misses);
      recorder.record({
        ...{
          id: `cache/${mebibytes}MiB/hit-ratio`,
          unit: 'ratio',
          better: 'higher',
          value: ratio,
          parameters,
        },
      });
      recorder.record({
        ...{ id: `cache/${mebibytes}MiB/bytes`, unit: 'bytes', better: 'neither', value: bytes, parameters },
      });
      say(`cache · ${mebibytes} MiB: ${(100 * ratio).toFixed(1)} % hits`);
    }
    return Promise.resolve();
  },
};

const isTrue = () => true;

/** A fixed sequence of indices 0 … count−1, in which index k occurs in proportion to 1 / (k + 1). */
function zipf(count: number, length: number): number[] {
  const cumulative: number[] = [];
  let sum = 0;
  for (let at = 1; at <= count; at++) cumulative.push((sum += 1 / at));
  let state = 42;
  return Array.from({ length }, () => {
    // A linear congruential generator is reproducible, and random enough to shuffle requests.
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    const target = (state / 2 ** 31) * sum;
    let low = 0;
    let high = count - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((cumulative[middle] ?? 0) < target) low = middle + 1;
      else high = middle;
    }
    return low;
  });
}
