// Preloaded into a service to cause faults inside its process. WORKER_FAULT names the fault; STALL_MS says how long a
// SIGUSR2 keeps the event loop busy.
import { isMainThread } from 'node:worker_threads';

const fault = process.env['WORKER_FAULT'];

if (isMainThread) {
  process.on('SIGUSR2', () => {
    const end = Date.now() + Number(process.env['STALL_MS'] ?? 2000);
    while (Date.now() < end);
  });
} else if (fault !== undefined) {
  let batches = 0;
  const { value: set } = /** @type {{ value: (source: ArrayLike<number>, offset: number) => void }} */ (
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), 'set')
  );
  // The worker calls `set` once for each batch, to copy it. Nothing else in the worker calls it.
  /** @this {Uint8Array} @param {ArrayLike<number>} source @param {number} [offset] */
  Uint8Array.prototype.set = function (source, offset) {
    if (++batches === 30) {
      if (fault === 'crash') process.exit(1);
      /** @type {unknown[]} */
      const kept = [];
      if (fault === 'memory') for (;;) kept.push(new Array(100_000).fill(batches));
    }
    Reflect.apply(set, this, [source, offset ?? 0]);
  };
}
