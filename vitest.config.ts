import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { platformAliases } from './scripts/platform.mjs';

/** What a front end could get wrong. These run a second time, over `node:http`. */
const HTTP_SUITES = [
  ...['front-ends', 'http', 'hostile-http', 'life-cycle', 'start'],
  ...['tls', 'unix-socket', 'gate-bodies', 'fairness', 'batches'],
];

/**
 * Files that need a process of their own. With faked timers, those of undici stop for good if a request is sent
 * meanwhile: its connections are then kept for too long. And V8 counts what each function in a process does while a fuzzer
 * asks for it: in one that has run other files, that takes twice as long.
 */
const ALONE = [
  ...['local-store', 'model', 'status-list-cache', 'status-list-faults'].map(
    (name) => `test/revocation/${name}.test.ts`,
  ),
  'test/fuzz/*.test.ts',
];

/**
 * Files that take some four seconds of processor time and more, for what few changes touch and no promise of the threat
 * model names. `npm test` leaves them out, `npm run test:long` and the gate run them. z3, of `proof`, has threads that do
 * not end: it needs a process of its own.
 */
const LONG = [
  'approve/demo',
  'deploy/chart',
  'deploy/image',
  'deploy/prometheus',
  'docs/{extending,snippets}',
  'faults/faults',
  'package/{commonjs,dev,production,types}',
  'proof/*',
  'service/overload',
  'stress',
  'trust/drill-keys',
  'worst-case/families',
].map((name) => `test/${name}.test.ts`);

/** In the order in which they run: a worker serves one project, and starts anew for another. */
const PROJECTS = ['long', 'alone', 'node:http', 'drs'];

/** Files that compute for long: the last of them would end alone. In a fresh clone only their sizes are known. */
const COMPUTING =
  /\/test\/(?:docs|package|cli|deploy|verify|faults)\/|\/(?:differential|gate-cases|examples|conformance)\.test/;

/**
 * The order of projects; and in the first ones, files that compute less and wait more: none of them should be the last. Those
 * that wait for most of their time come in turn with others, or all workers would wait at once.
 */
class WaitingAmongOthers extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project, moduleId }: TestSpecification) =>
      2 * PROJECTS.indexOf(project.name) + (COMPUTING.test(moduleId) ? 0 : 1);
    const sorted = (await super.sort(files)).toSorted((left, right) => rank(left) - rank(right));
    const waits = ({ project, moduleId }: TestSpecification) =>
      project.name === 'drs' && moduleId.includes('/test/e2e/');
    const waiting = sorted.filter(waits);
    return sorted
      .filter((file) => !waits(file))
      .flatMap((file) => (file.project.name === 'drs' ? [...waiting.splice(0, 1), file] : [file]))
      .concat(waiting);
  }
}

export default defineConfig({
  resolve: { alias: platformAliases },
  test: {
    projects: [
      { extends: true, test: { name: 'drs', include: ['test/**/*.test.ts'], exclude: [...ALONE, ...LONG] } },
      { extends: true, test: { name: 'alone', include: ALONE, isolate: true } },
      { extends: true, test: { name: 'long', include: LONG, isolate: true } },
      {
        extends: true,
        test: {
          name: 'node:http',
          include: HTTP_SUITES.map((suite) => `test/e2e/${suite}.test.ts`),
          env: { TEST_FRONT_END: 'node' },
        },
      },
    ],
    // Real services, browsers and worker pools start inside tests: no limit here may decide anything but that a test hangs.
    // Most of a test that starts a service is waiting, so one file a core leaves cores idle.
    maxWorkers: Math.max(5, availableParallelism()),
    // Those that run side by side in a file wait for limits.
    maxConcurrency: 20,
    // Each module is loaded once in a process, not once for each file.
    isolate: false,
    sequence: { sequencer: WaitingAmongOthers },
    // Whoever has a proxy: the servers of tests are on this machine.
    env: { NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost' },
    globalSetup: 'test/support/global-setup.ts',
    setupFiles: process.env['TEST_SEED'] === undefined ? [] : ['test/support/seed-setup.ts'],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary'] },
  },
});
