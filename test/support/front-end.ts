import { createRequire } from 'node:module';
import { env } from 'node:process';

/** What services of this run listen with: `vitest.config.ts` runs the HTTP suites a second time over `node:http`. */
export const FRONT_END = env['TEST_FRONT_END'] === 'node' || !runsUws() ? 'node' : 'uws';

/** Most of what costs time is not about the front end, so the second run makes do with less of it. */
export function fewer<T>(all: readonly T[], second: readonly T[]): readonly T[] {
  return env['TEST_FRONT_END'] === 'node' ? second : all;
}

function runsUws(): boolean {
  try {
    createRequire(import.meta.url)('uWebSockets.js');
    return true;
  } catch {
    return false;
  }
}
