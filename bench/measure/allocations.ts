import { GCProfiler, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes in use. Read after a full garbage collection, so that only what the operations allocate is counted. */
const used = () => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

/**
 * Bytes that an operation allocates, on the JavaScript heap and in buffers.
 *
 * @param operate called some hundred times; it may be asynchronous
 * @returns the mean, or `null` if every attempt was interrupted by a garbage collection
 */
export async function measureAllocations(operate: () => unknown): Promise<number | null> {
  for (let count = 1000; count >= 10; count = Math.floor(count / 4)) {
    collectGarbage();
    const profiler = new GCProfiler();
    profiler.start();
    const before = used();
    for (let at = 0; at < count; at++) {
      const pending = operate();
      // Awaiting a result that is already there would allocate memory too.
      if (pending instanceof Promise) await pending;
    }
    const after = used();
    if (profiler.stop().statistics.length === 0) return Math.max(0, (after - before) / count);
  }
  return null;
}

export { collectGarbage };
