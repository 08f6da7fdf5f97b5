// Causes real faults under traffic, and checks every answer. `npm run faults`; with `-- --only redis`, some of them.
import { parseArgs } from 'node:util';
import { FAULTS } from './all.js';
import { runFault, type Outcome } from './run-fault.js';

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    rate: { type: 'string', default: '60' },
    secs: { type: 'string', default: '3' },
  },
});
const [rate, secs] = [Number(options.rate), Number(options.secs)];
if (!(rate > 0) || !(secs > 0)) {
  console.error('--rate (calls a second) and --secs (how long a fault lasts) must be more than 0');
  process.exit(2);
}
const outcomes: Outcome[] = [];
let missing = 0;
for (const fault of FAULTS.filter(({ name }) => name.includes(options.only))) {
  const lacks = fault.missing?.() ?? null;
  if (lacks !== null) {
    missing++;
    console.log(`SKIP ${fault.name}: needs ${lacks}\n`);
    continue;
  }
  let outcome: Outcome;
  try {
    outcome = await runFault(fault, { rate, lastMs: secs * 1000 });
  } catch (error) {
    outcome = {
      ...{ name: fault.name, recoveryMs: Infinity, answers: {}, acknowledged: 0, notes: [], violations: [] },
      problems: [error instanceof Error ? (error.stack ?? error.message) : String(error)],
    };
  }
  outcomes.push(outcome);
  console.log(`${outcome.problems.length === 0 ? 'ok  ' : 'BAD '} ${outcome.name}`);
  console.log(
    `     recovered after ${Math.round(outcome.recoveryMs)} ms; ${outcome.acknowledged} revocations acknowledged; answers ${JSON.stringify(outcome.answers)}`,
  );
  for (const note of outcome.notes) console.log(`     ${note}`);
  for (const problem of outcome.problems) console.log(`     PROBLEM: ${problem}`);
  for (const violation of outcome.violations.slice(0, 5)) console.log(`     ${JSON.stringify(violation)}`);
  console.log('');
}
const bad = outcomes.filter(({ problems }) => problems.length > 0);
const calls = outcomes
  .flatMap(({ answers }) => Object.values(answers))
  .reduce((sum, count) => sum + count, 0);
console.log(
  `${outcomes.length} faults, ${missing} skipped, ${calls} answers checked, ${outcomes.flatMap(({ violations }) => violations).length} wrong valid: true; ${bad.length} not as stated`,
);
process.exitCode = bad.length > 0 ? 1 : 0;
