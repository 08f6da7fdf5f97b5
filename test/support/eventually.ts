import { vi } from 'vitest';

// With a planted fault, what is waited for never comes.
const timeout = process.env['MUTATION_RUN'] === undefined ? 60_000 : 5_000;

/** Waits until an assertion holds, with the patience that a busy machine needs (vitest's own is a second). */
export const eventually = <T>(assertion: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(assertion, { timeout });
