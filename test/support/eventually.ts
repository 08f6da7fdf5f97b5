import { vi } from 'vitest';

/** Waits until an assertion holds, with the patience that a busy machine needs (vitest's own is a second). */
export const eventually = <T>(assertion: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(assertion, { timeout: 60_000 });
