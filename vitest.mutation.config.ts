import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { platformAliases } from './scripts/platform.mjs';

/**
 * The tests that mutation testing runs, for each folder of `src/`: those that call the code in this process and are
 * quick. A test that starts a service would run the unchanged code in `dist/`, and prove nothing.
 */
const TESTS: Readonly<Record<string, readonly string[]>> = {
  protocol: [
    'protocol/*',
    'verify/{binding,catalogue,key-resolver,precedence,verdicts}',
    'issue/{bundle,policy-document}',
  ],
  verify: [
    'verify/{attenuation,binding,bundle-text,catalogue,difference,hostile,judge,key-resolver,limits,precedence,receipt,receipt-cache,receipts-alone,revocation,verdicts}',
  ],
  gate: ['gate/*', 'middleware/{a2a,node,routes}'],
  signatures: ['signatures/*'],
  usage: ['usage/*'],
  trust: ['trust/*'],
  revocation: ['revocation/*', 'service/configuration'],
  service: [
    'service/*',
    'service/grpc/*',
    'gate/attacks',
    'e2e/{gate,gate-context,gate-routes,gate-wire,gate-wire-grpc,grpc,http,logs-and-traces,metrics,trust-proxy}',
  ],
};
/** These start programs, and wait for them in real time. */
const OUT_OF_PROCESS = [
  'status-list-outage',
  'store-processes',
  'redis-store',
  'redis-cluster',
  'redis-loss',
  'redis-watch',
];

/** A run ends at the first test that fails, so the tables of cases, which find most faults, run first. */
class TablesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isTable = ({ moduleId }: TestSpecification) =>
      /\/(?:verdicts|attacks|mcp)\.test\.ts$/.test(moduleId);
    return (await super.sort(files)).toSorted(
      (left, right) => Number(isTable(right)) - Number(isTable(left)),
    );
  }
}

const folder = process.env['MUTATED_FOLDER'] ?? '';
// `--tests` of scripts/mutation.mjs
const narrowed = process.env['MUTATION_TESTS'];
const tests = narrowed === undefined ? TESTS[folder] : narrowed.split(',');
if (tests === undefined)
  throw new Error(`MUTATED_FOLDER is "${folder}", expected one of ${Object.keys(TESTS).join(', ')}`);

export default defineConfig({
  // The tests of the service run it in their own process, where the faults are.
  resolve: {
    alias: [{ find: /^(.*\/support\/service)\.js$/, replacement: '$1-in-process.js' }, ...platformAliases],
  },
  test: {
    include: tests.map((pattern) => `test/${pattern}.test.ts`),
    exclude: OUT_OF_PROCESS.map((name) => `test/**/${name}.test.ts`),
    setupFiles: ['test/support/mutation-setup.ts'],
    sequence: { sequencer: TablesFirst },
    // A fault is planted in each test file's code once, not loaded anew for each of them.
    isolate: false,
    // uWebSockets.js ends the process if a fault lets an error reach it; `node:http` does not.
    env: { MUTATION_RUN: '1', ...(folder === 'service' && { TEST_FRONT_END: 'node' }) },
    // A planted fault that makes a test wait is found as soon as this is over; the tests themselves take seconds altogether.
    testTimeout: 10_000,
    hookTimeout: 10_000,
    expect: { poll: { timeout: 8_000 } },
  },
});
