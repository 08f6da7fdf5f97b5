// An instance of test/usage/model.ts: uses what its parent sends, and is killed by it.
import { openRedisReplayStore } from '../../dist/middleware/index.js';
import { FileReplayStore } from '../../dist/usage/file-store.js';

/** @typedef {{ id: string, key: string, now: number, charge?: import('../../src/usage/usage-store.js').Charge, refund?: import('../../src/usage/usage-store.js').Refund }} Asked */

const [, , where = ''] = process.argv;
const nothing = () => undefined;
const log = { info: nothing, warn: nothing, error: nothing };
const store = where.startsWith('redis:')
  ? await openRedisReplayStore({ url: where, timeoutMs: 200 })
  : await FileReplayStore.open(where, { maxEntries: 1e6, log });
/** @param {string} id @param {unknown} answer */
const send = (id, answer) => void process.send?.({ id, answer });
process.on('message', (/** @type {Asked} */ { id, key, charge, refund, now }) => {
  const answer =
    refund === undefined ? store.use(key, now, 961, charge ?? null) : store.refund?.(key, refund);
  answer?.then(
    (answer) => send(id, answer),
    () => send(id, null),
  );
});
process.on('disconnect', () => process.exit());
send('ready', null);
