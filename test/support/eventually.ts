import { vi } from 'vitest';

/** Waits until an assertion holds, long enough for a busy machine (vitest itself waits a second). */
export const eventually = <T>(assertion: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(assertion, { timeout: 60_000 });
