import { env } from 'node:process';

/** The front end that this run of the tests is for: `vitest.config.ts` runs the HTTP suites once for each. */
export const FRONT_END = env['TEST_FRONT_END'] === 'node' ? 'node' : 'auto';
