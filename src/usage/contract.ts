/// <reference types="node" preserve="true" />
/**
 * What a replay store of your own must do, as tests for the test runner that you have.
 *
 * @example
 * import { replayStoreContract } from 'drs-verify/replay-store-contract';
 *
 * @packageDocumentation
 */
import { deepStrictEqual } from 'node:assert';
import type { CountedLimits } from '../verify/limits.js';
import type { Charge, ReplayStore, Use } from './usage-store.js';

export type { Charge, CountedLimits, ReplayStore, Use };
export type { Refund, RefundPart, ReplayUnreadyReason, Usage } from './usage-store.js';
export type { ReachedLimit } from '../verify/limits.js';

/** A test: what a store must do, and what rejects with an `AssertionError` if it does not. */
export type ReplayStoreTest = readonly [name: string, run: () => Promise<void>];

/**
 * The tests of a replay store. Keys and receipts are new in each run, so the store may keep its data. A store must also do what no test
 * from outside can show: reject with a `ReplayStoreError` when it cannot tell, and say by `lostAt` and `emptiedAt` what it has lost.
 *
 * @param open opens the store for one test, which closes it: once, or twice on the same data if several processes may share it
 * @example
 * const open = () => Promise.all([MyStore.open(url), MyStore.open(url)]);
 * for (const [name, run] of replayStoreContract(open)) test(name, run);
 */
export function replayStoreContract(
  open: () => Promise<readonly [ReplayStore, ReplayStore?]>,
): ReplayStoreTest[] {
  return Object.entries(RULES).map(([name, rule]) => [
    name,
    async () => {
      const [one, other] = await open();
      try {
        await rule(one, other ?? one);
      } finally {
        await Promise.all([one.close(), other?.close()]);
      }
    },
  ]);
}

const TTL_SECS = 961;
const NOW = Math.floor(Date.now() / 1000);
const fresh = (): string => globalThis.crypto.randomUUID();
const use = (store: ReplayStore, charge: Charge | null = null, key = fresh(), now = NOW) =>
  store.use(key, now, TTL_SECS, charge, 'did:key:root');

function limit(level: number, maxCalls: number | null, maxTotalMicroUsd: number | null): CountedLimits {
  const receipt = `sha256:${(fresh() + fresh()).replaceAll('-', '')}`;
  return { level, receipt, maxCalls, maxTotalMicroUsd, nbf: NOW - 60, exp: NOW + 3_600 };
}
const charge = (costMicroUsd: number, ...limits: CountedLimits[]): Charge => ({ limits, costMicroUsd });

/** Fails unless both are the same, whatever the class of what the store answers. */
const same = (found: unknown, expected: unknown, what: string) =>
  deepStrictEqual(
    { [what]: JSON.parse(JSON.stringify(found)) as unknown },
    { [what]: JSON.parse(JSON.stringify(expected)) as unknown },
  );
const NEW = { kind: 'new', usage: [] };
const REPLAYED = { kind: 'replayed' };
const countNew = (uses: readonly Use[]) => uses.filter(({ kind }) => kind === 'new').length;

const RULES: Readonly<Record<string, (one: ReplayStore, other: ReplayStore) => Promise<void>>> = {
  async 'knows an invocation until its time is over, in each instance'(one, other) {
    const key = fresh();
    same(one.unreadyReason, null, 'unreadyReason once it is open');
    same(await use(one, null, key), NEW, 'the first use');
    same(await use(one, null, key), REPLAYED, 'the second use');
    same(await use(other, null, key, NOW + TTL_SECS - 1), REPLAYED, 'a use in its last second');
  },
  async 'lets one of equal uses at the same time through'(one, other) {
    const key = fresh();
    const uses = Array.from({ length: 20 }, (_, at) => use(at % 2 === 0 ? one : other, null, key));
    same(countNew(await Promise.all(uses)), 1, 'new uses');
  },
  async 'tells any two keys apart'(one) {
    const key = fresh();
    const endings = ['', ' ', 'a', 'A', '\n', '\u0000', '{a}', "'", '%', '*', 'é', 'e\u0301', '\ud83d\ude00'];
    const long = ['1', '2'].map((end) => 'x'.repeat(160) + end);
    for (const end of [...endings, ...long])
      same(await use(one, null, key + end), NEW, `first use of the key with ${JSON.stringify(end)} added`);
  },
  async 'counts calls and costs under each receipt'(one, other) {
    const [root, leaf] = [limit(0, 9, 1_000), limit(2, 5, null)];
    same(await one.usageOf(root.receipt), null, 'usageOf before a call');
    await use(one, charge(30, root, leaf));
    const usage = [
      { calls: 2, microUsd: 42 },
      { calls: 2, microUsd: 0 },
    ] as const;
    same(await use(other, charge(12, root, leaf)), { kind: 'new', usage }, 'the second call');
    same(await one.usageOf(root.receipt), usage[0], 'usageOf the root');
    same(await one.usageOf(leaf.receipt), usage[1], 'usageOf the leaf');
  },
  async 'lets as many calls through as a limit says, of many at the same time'(one, other) {
    const root = limit(0, 7, null);
    const uses = Array.from({ length: 20 }, (_, at) => use(at % 2 === 0 ? one : other, charge(0, root)));
    same(countNew(await Promise.all(uses)), 7, 'new uses');
    const reached = { level: 0, member: 'max_calls', limit: 7, used: 7, asked: 1, exp: root.exp };
    same(await use(one, charge(0, root)), { kind: 'reached', limit: reached }, 'one more');
  },
  async 'lets costs through up to a limit, and exactly'(one) {
    const [most, limits] = [Number.MAX_SAFE_INTEGER, limit(1, null, Number.MAX_SAFE_INTEGER)];
    const usage = [{ calls: 1, microUsd: most - 1 }];
    same(await use(one, charge(most - 1, limits)), { kind: 'new', usage }, 'all but one');
    const reached = { level: 1, member: 'max_total_cost_usd', limit: most, used: most - 1, asked: most };
    const refused = { kind: 'reached', limit: { ...reached, exp: limits.exp } };
    same(await use(one, charge(most, limits)), refused, 'more than is left');
    same(countNew([await use(one, charge(1, limits))]), 1, 'uses of what is left');
  },
  async 'charges all limits or none, and a call that reached one may be made again'(one) {
    const [root, leaf, key] = [limit(0, 9, 1_000), limit(1, null, 10), fresh()];
    same((await use(one, charge(11, root, leaf), key)).kind, 'reached', 'a call that costs too much');
    same((await one.usageOf(root.receipt))?.calls ?? 0, 0, 'calls under the root');
    same((await use(one, charge(10, root, leaf), key)).kind, 'new', 'the call at a lower cost');
  },
  async 'charges nothing for a call that is on record, and says so also where a limit is reached'(one) {
    const [root, key] = [limit(0, 1, null), fresh()];
    await use(one, charge(0, root), key);
    same(await use(one, charge(0, root), key), REPLAYED, 'the second use');
    same((await one.usageOf(root.receipt))?.calls, 1, 'calls');
  },
  async 'gives back once, if it gives back at all'(one, other) {
    if (one.refund === undefined || other.refund === undefined) return;
    const [root, key] = [limit(0, 1, 100), fresh()];
    const refund = { calls: 1, parts: [{ receipt: root.receipt, microUsd: 40 }] } as const;
    same(await one.refund(key, refund), 'unknown', 'a refund before the call');
    await use(one, charge(40, root), key);
    const answers = await Promise.all([one.refund(key, refund), other.refund(key, refund)]);
    same(answers.sort(), ['refunded', 'repeated'], 'two refunds');
    same(await one.usageOf(root.receipt), { calls: 0, microUsd: 0 }, 'usageOf after them');
    same(await use(one, charge(40, root), key), REPLAYED, 'the call again');
    same(countNew([await use(one, charge(100, root))]), 1, 'another call');
  },
};
