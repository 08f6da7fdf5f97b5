import { defineConfig } from 'vitest/config';

/** The tests of the load generators. `npm run bench -- --smoke` runs them from the build that it measures with. */
export default defineConfig({
  test: { include: ['test/bench/*.smoke.ts'], testTimeout: 180_000, hookTimeout: 180_000 },
});
