import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What a front end could get wrong. These run a second time, over `node:http`. */
const HTTP_SUITES = [
  ...['front-ends', 'http', 'hostile-http', 'life-cycle', 'start'],
  ...['tls', 'unix-socket', 'gate-bodies', 'fairness'],
];

/**
 * Folders whose tests leave nothing behind in their process: their files share processes, so that each module is loaded once
 * in each, not once for each file. All others have a process of their own.
 */
const SHARING = [
  ...['bench', 'client', 'docs', 'engine', 'gate', 'issue', 'middleware', 'oracle', 'protocol', 'server'],
  ...['signatures', 'verify', 'worst-case'],
].map((folder) => `test/${folder}/**/*.test.ts`);

/** Files that start programs run first: they wait for most of their time, and none of them should be the last. */
class ProgramsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const order = ['node:http', 'drs', 'in-process'];
    const rank = ({ project }: TestSpecification) => order.indexOf(project.name);
    return (await super.sort(files)).toSorted((left, right) => rank(left) - rank(right));
  }
}

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'drs', include: ['test/**/*.test.ts'], exclude: SHARING } },
      { extends: true, test: { name: 'in-process', include: SHARING, isolate: false } },
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
    maxWorkers: Math.max(4, availableParallelism()),
    sequence: { sequencer: ProgramsFirst },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary'] },
  },
});
