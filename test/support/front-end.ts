import { createRequire } from 'node:module';
import { env } from 'node:process';
// Before the binary is loaded below: it reads them once.
import '../../src/service/http/front-end.js';

/**
 * The front end of the services in this run: `vitest.config.ts` runs the HTTP suites a second time over `node:http`.
 */
export const FRONT_END = env['TEST_FRONT_END'] === 'node' || !runsUws() ? 'node' : 'uws';

/**
 * Returns `all` in the first run, and the shorter `second` over `node:http`: most slow tests do not depend on the
 * front end.
 */
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
