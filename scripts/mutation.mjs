// Plants faults in files and sees whether a test notices: `npm run mutation -- src/replay/within.ts --tests test/replay`.
// Without files, in all that stryker.config.json names; that takes hours. Of the tests, those that start no service.
import { spawnSync } from 'node:child_process';
import { writeFileSync, rmSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tests: {
      type: 'string',
      default: 'test/{protocol,verify,signatures,replay,revocation,gate,oracle,issue}',
    },
  },
});
const config = '.stryker-vitest.config.ts';
const include = JSON.stringify([`${values.tests}/**/*.test.ts`]);
writeFileSync(
  config,
  `import base from './vitest.config.js';\nexport default { ...base, test: { ...base.test, include: ${include} } };\n`,
);
const { status } = spawnSync(
  process.execPath,
  [
    'node_modules/@stryker-mutator/core/bin/stryker.js',
    'run',
    ...(positionals.length > 0 ? ['--mutate', positionals.join(',')] : []),
  ],
  { stdio: 'inherit' },
);
rmSync(config, { force: true });
process.exitCode = status ?? 1;
