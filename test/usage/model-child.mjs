// An instance of test/usage/model.ts: uses what its parent sends, and is killed by it.
import { openRedisReplayStore } from '../../dist/middleware/index.js';

/**
 * @typedef {import('../../src/usage/usage-store.js').Charge} Charge
 * @typedef {{ id: string, key: string, now: number, charge?: Charge, receipts: string[], microUsd: number | null }} Asked
 */

const store = await openRedisReplayStore({ url: process.argv[2] ?? '', timeoutMs: 200 });
/** @param {string} id @param {object | null} result */
const answer = (id, result) => void process.send?.({ id, result });
process.on('message', (/** @type {Asked} */ { id, key, charge, now, receipts, microUsd }) => {
  const done = charge ? store.use(key, now, 961, charge) : store.refund?.(key, receipts, now, microUsd);
  Promise.resolve(done).then(
    (result) => answer(id, result ?? null),
    () => answer(id, null),
  );
});
process.on('disconnect', () => process.exit());
answer('ready', null);
