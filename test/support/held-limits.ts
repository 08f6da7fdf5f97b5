import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { afterEach, beforeEach, vi } from 'vitest';

const [set, wait] = [setTimeout, timers.setTimeout];
const DAY_MS = 86_400_000;

/**
 * In the tests of a file, limits of so many milliseconds are over when a test says so: a machine that stands still for
 * seconds runs into none of them.
 *
 * @returns ends those that have begun, and says how many
 */
export function holdLimits(ms: number): () => number {
  const held: (() => void)[] = [];
  const lengthOf = (after?: number) => (after === ms ? DAY_MS : after);
  beforeEach(() => {
    vi.stubGlobal('setTimeout', (run: () => void, after?: number) => {
      if (after === ms) held.push(run);
      return set(run, lengthOf(after));
    });
    vi.spyOn(timers, 'setTimeout').mockImplementation((after, value, options) => {
      const timer = wait(lengthOf(after), value, options);
      if (after !== ms) return timer;
      return Promise.race([timer, new Promise<typeof value>((end) => held.push(() => end(value)))]);
    });
    syncBuiltinESMExports();
  });
  afterEach(() => {
    held.length = 0;
    vi.unstubAllGlobals();
    vi.mocked(timers.setTimeout).mockRestore();
    syncBuiltinESMExports();
  });
  return () => held.splice(0).map((end) => end()).length;
}
