// An instance of test/usage/model.ts: uses what its parent sends, and is killed by it.
import { openRedisReplayStore } from '../../dist/middleware/index.js';

/** @typedef {{ id: string, key: string, now: number, charge: import('../../src/usage/usage-store.js').Charge }} Asked */

const store = await openRedisReplayStore({ url: process.argv[2] ?? '', timeoutMs: 200 });
/** @param {string} id @param {import('../../src/usage/usage-store.js').Use | null} use */
const answer = (id, use) => void process.send?.({ id, use });
process.on('message', (/** @type {Asked} */ { id, key, charge, now }) => {
  store.use(key, now, 961, charge).then(
    (use) => answer(id, use),
    () => answer(id, null),
  );
});
process.on('disconnect', () => process.exit());
answer('ready', null);
