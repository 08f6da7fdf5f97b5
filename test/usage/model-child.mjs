// An instance of test/usage/model.ts: uses what its parent sends, and is killed by it.
import { openRedisReplayStore } from '../../dist/middleware/index.js';

const store = await openRedisReplayStore({ url: process.argv[2] ?? '', timeoutMs: 200 });
process.on('message', ({ id, key, charge, now }) => {
  store.use(key, now, 961, charge).then(
    (use) => process.send?.({ id, use }),
    () => process.send?.({ id, use: null }),
  );
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 'ready', use: null });
