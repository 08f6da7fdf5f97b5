// Preloaded into the service by a test: every signature worker ends in the middle of its tenth batch (or of the one
// that CRASH_AT_BATCH says; 0: before it starts), its answers unsent, as a fault in native code would end it.
import { isMainThread } from 'node:worker_threads';

const crashAt = Number(process.env['CRASH_AT_BATCH'] ?? 10);

if (!isMainThread && crashAt === 0) process.exit(1);

if (!isMainThread) {
  let batches = 0;
  const { value: set } = /** @type {{ value: (source: ArrayLike<number>, offset: number) => void }} */ (
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), 'set')
  );
  // The worker copies each batch with `set`, once; nothing else in it does.
  /** @this {Uint8Array} @param {ArrayLike<number>} source @param {number} [offset] */
  Uint8Array.prototype.set = function (source, offset) {
    if (++batches === crashAt) process.exit(1);
    Reflect.apply(set, this, [source, offset ?? 0]);
  };
}
