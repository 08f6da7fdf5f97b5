import { LRUCache } from 'lru-cache';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { judge } from '../../src/verify/judge.js';
import { NOTHING_REVOKED } from '../../src/verify/parts.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import { readVerifierOptions } from '../../src/verifier/options.js';
import { CLOCKS, type Rules } from '../../src/verify/parts.js';
import { uniform } from '../load/open-loop-core.js';
import type { Suite } from '../run/suite.js';
import { makeCall, makeChain } from '../workload/chains.js';

const { maxChainDepth } = readVerifierOptions({});
const RULES: Rules = { maxChainDepth, ...CLOCKS, serverIdentity: null, trustedRoots: null };
const DEPTH = 4;
const WARM_UP_SHARE = 1 / 3;
const MEBIBYTE = 1024 * 1024;
const SIZES = [1, 2, 4, 8, 16, 32, 64];

/** Shows how large the receipt cache must be, and what its rule of admission gains over a plain LRU. */
export const cache: Suite = {
  name: 'cache',
  about:
    'hit ratios of the receipt cache, of an LRU and of the optimum, by size; for calls that follow a Zipf distribution, and half of them by chains used once',
  run: async ({ plan, recorder, say }) => {
    const chains = plan.mode === 'quick' ? 400 : 2_000;
    const calls = 10 * chains;
    // Every second call of the second kind is the only one under its chain.
    const bundles = Array.from(
      { length: chains + calls / 2 },
      () => JSON.parse(makeCall(makeChain(DEPTH)).body) as unknown,
    );
    const popular = zipf(chains, calls);
    const halfOnce = popular.map((index, at) => (at % 2 === 0 ? index : chains + (at >> 1)));
    const { bytes: chainBytes } = await replay([0], bundles, 64);
    for (const [traffic, order] of Object.entries({ zipf: popular, 'half one-off': halfOnce })) {
      for (const mebibytes of SIZES) {
        const places = Math.floor((mebibytes * MEBIBYTE) / chainBytes);
        const { isHit } = await replay(order, bundles, mebibytes);
        const rows = { ours: isHit, lru: lru(order, places), optimum: optimum(order, places) };
        const id = `cache/${traffic}/${mebibytes}MiB`;
        const ratios = Object.entries(rows).map(([name, hits]) => {
          const start = Math.floor(hits.length * WARM_UP_SHARE);
          const [warmUp, steady] = [shareOf(hits.slice(0, start)), shareOf(hits.slice(start))];
          recorder.record(`${id}/${name}/warm-up`, warmUp);
          recorder.record(`${id}/${name}/steady`, steady);
          return `${name} ${(100 * warmUp).toFixed(1)} % then ${(100 * steady).toFixed(1)} %`;
        });
        say(`cache · ${traffic}, ${mebibytes} MiB: ${ratios.join(', ')}`);
      }
    }
  },
};

/** Verifies the calls in order, with a receipt cache of this size. A call is a hit if all its receipts are cached. */
async function replay(order: readonly number[], bundles: readonly unknown[], mebibytes: number) {
  const cache = new ReceiptCache(mebibytes * MEBIBYTE);
  const parts = {
    ...{ rules: RULES, cache, keys: DEFAULT_KEYS, requiresBinding: false, use: null },
    clock: () => Date.now() / 1000,
    // Signatures count as verified here, since they do not affect the hit ratio.
    signatures: { verify: (checks: readonly unknown[]) => checks.map(() => true) },
    revocation: { refreshIfStale: () => null, view: NOTHING_REVOKED },
  };
  const isHit: boolean[] = [];
  for (const index of order) {
    const { misses } = cache.stats;
    const { failure } = await judge({ bundle: bundles[index], body: null }, parts);
    if (failure !== null) throw new Error(`a bundle of the suite was refused: ${failure.message}`);
    isHit.push(cache.stats.misses === misses);
  }
  return { isHit, bytes: cache.stats.bytes };
}

/** The least recently used chain makes room; every chain enters. @param places for chains, which all have the same size */
function lru(order: readonly number[], places: number): boolean[] {
  const cached = new LRUCache<number, true>({ max: places });
  return order.map((index) => {
    const isHit = cached.get(index) === true;
    cached.set(index, true);
    return isHit;
  });
}

/** Belady's rule: the chain that is used again last makes room, or does not enter. Nothing that is possible hits more often. */
function optimum(order: readonly number[], places: number): boolean[] {
  const nextUse = new Array<number>(order.length);
  const seen = new Map<number, number>();
  for (const [at, index] of [...order.entries()].toReversed()) {
    nextUse[at] = seen.get(index) ?? Infinity;
    seen.set(index, at);
  }
  const cached = new Map<number, number>();
  return order.map((index, at) => {
    const isHit = cached.has(index);
    cached.set(index, nextUse[at] as number);
    if (cached.size > places) {
      const [last] = [...cached].reduce((a, b) => (b[1] > a[1] ? b : a));
      cached.delete(last);
    }
    return isHit;
  });
}

const shareOf = (hits: readonly boolean[]) => hits.filter(Boolean).length / hits.length;

/** A fixed sequence of indices 0 … count−1, in which index k occurs in proportion to 1 / (k + 1). */
function zipf(count: number, length: number): number[] {
  let sum = 0;
  const cumulative = Array.from({ length: count }, (_, at) => (sum += 1 / (at + 1)));
  const random = uniform(42);
  return Array.from({ length }, () => {
    const target = random() * sum;
    return cumulative.findIndex((upTo) => upTo > target);
  });
}
