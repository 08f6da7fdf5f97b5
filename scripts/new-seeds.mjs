// Runs the tests of random properties with new seeds, forty times: `npm run test:seeds [times]`, each night. The gate takes its
// seed from the commit, so that it says the same twice; what new seeds would find, this finds.
import { execFileSync, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';

const times = Number(process.argv[2] ?? 40);
if (!Number.isInteger(times) || times < 1)
  throw new Error(`the number of runs is ${process.argv[2]}, expected 1 or more`);
const files = execFileSync('git', ['grep', '-l', "from 'fast-check'", '--', 'test/*.test.ts'], {
  encoding: 'utf8',
})
  .trimEnd()
  .split('\n');
for (let run = 1; run <= times; run++) {
  const seed = String(randomInt(2 ** 31));
  console.log(`\nrun ${run} of ${times}: TEST_SEED=${seed}, ${files.length} files`);
  const { status } = spawnSync('npx', ['vitest', 'run', '--reporter=dot', ...files], {
    env: { ...process.env, TEST_SEED: seed },
    stdio: 'inherit',
  });
  if (status === 0) continue;
  console.error(`a property failed; repeat it: TEST_SEED=${seed} npm test -- <its file>`);
  process.exit(1);
}
