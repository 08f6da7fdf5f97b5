import { setTimeout as pause } from 'node:timers/promises';

// With a planted fault, the assertion may never hold.
const timeout = process.env['MUTATION_RUN'] === undefined ? 60_000 : 5_000;

/**
 * Waits until an assertion holds, long enough for a busy machine. Programs outside of vitest use it as well.
 *
 * @param interval milliseconds between two tries; longer where a try costs the service much
 */
export async function eventually<T>(assertion: () => T | Promise<T>, interval = 50): Promise<T> {
  for (let waited = 0; ; waited += interval) {
    try {
      return await assertion();
    } catch (error) {
      if (waited >= timeout) throw error;
    }
    await pause(interval);
  }
}
