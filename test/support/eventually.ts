import { vi } from 'vitest';

// With a planted fault, the assertion may never hold.
const timeout = process.env['MUTATION_RUN'] === undefined ? 60_000 : 5_000;

/**
 * Waits until an assertion holds, long enough for a busy machine (vitest itself waits a second).
 *
 * @param interval milliseconds between two tries; longer where a try costs the service much
 */
export const eventually = <T>(assertion: () => T | Promise<T>, interval = 50): Promise<T> =>
  vi.waitFor(assertion, { timeout, interval });
