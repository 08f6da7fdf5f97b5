import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Real services, browsers and worker pools start inside tests: no limit here may decide anything but that a test hangs.
    // Most of a test that starts a service is waiting, so one file a core leaves cores idle.
    maxWorkers: Math.max(3, availableParallelism()),
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary'] },
  },
});
