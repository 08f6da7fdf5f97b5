import { mkdirSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createVerifier } from 'drs-verify';
import { fileName, toCase } from './cases.js';
import { run, type Difference } from './run.js';
import { shrink } from './shrink.js';
import { LIBRARIES, SERVICES } from './targets.js';

const { values } = parseArgs({
  options: {
    verdicts: { type: 'string', default: '1e5' },
    seed: { type: 'string', default: '1' },
    targets: { type: 'string', default: '' },
    epoch: { type: 'string', default: '5e4' },
    /** To continue a run that was stopped: the number after the last epoch that it printed. */
    'first-epoch': { type: 'string', default: '0' },
    /** The most different requests that are asked together, each up to four times. */
    together: { type: 'string', default: '6' },
    'max-cases': { type: 'string', default: '12' },
    out: { type: 'string', default: 'test/oracle/cases' },
  },
});

const number = (name: 'together' | 'verdicts' | 'seed' | 'epoch' | 'first-epoch' | 'max-cases'): number => {
  const value = Number(values[name]);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  console.error(`--${name} is ${values[name]}, expected a whole number such as 100000 or 1e5`);
  process.exit(2);
};

const [verdicts, seed, epoch, firstEpoch, maxCases] = [
  number('verdicts'),
  number('seed'),
  number('epoch'),
  number('first-epoch'),
  number('max-cases'),
];
const kinds = [...LIBRARIES, ...SERVICES].filter(({ name }) => name.includes(values.targets));
if (kinds.length === 0) {
  console.error(
    `--targets ${values.targets} names none of: ${[...LIBRARIES, ...SERVICES].map(({ name }) => name).join('; ')}`,
  );
  process.exit(2);
}

/** The kinds of edits of a case, without their places and values: the same for differences with the same cause. */
const editNames = ({ request: { recipe } }: Difference) =>
  (recipe?.edits ?? [])
    .map((edit) => [
      edit.kind,
      ...('path' in edit ? edit.path.filter((step) => typeof step === 'string') : []),
    ])
    .map((names) => names.join('.'))
    .join(' and ') || 'unaltered';

const MAX_CASES_OF_A_PAIR = 3;
const cases = new Map<string, number>();
const seen = new Map<string, number>();
const started = Date.now();

async function onDifference(difference: Difference): Promise<void> {
  const [expected, actual] = [difference.expected.split(' ')[0], difference.actual.split(' ')[0]];
  const summary = `${actual} instead of ${expected} (${editNames(difference)})`;
  const times = (seen.get(summary) ?? 0) + 1;
  seen.set(summary, times);
  const pair = `${actual} instead of ${expected}`;
  const kept = (cases.get(pair) ?? 0) + 1;
  if (seen.size > maxCases || times > 1 || kept > MAX_CASES_OF_A_PAIR) return;
  cases.set(pair, kept);
  const small = toCase(await shrink(difference, createVerifier));
  mkdirSync(values.out, { recursive: true });
  const file = `${values.out}/${fileName(small)}`;
  writeFileSync(file, `${JSON.stringify(small, null, 2)}\n`);
  console.log(`\n${summary} (${difference.target.name}, ${difference.world.name}), kept as ${file}`);
  console.log(JSON.stringify({ ...small, steps: small.steps.length }, null, 2));
}

const result = await run({
  verdicts,
  seed,
  epoch,
  kinds,
  createVerifier,
  onDifference,
  firstEpoch,
  together: number('together'),
  onProgress: (done, last) => {
    const seconds = (Date.now() - started) / 1000;
    const differences = [...seen.values()].reduce((sum, times) => sum + times, 0);
    console.error(
      `seed ${seed}, epoch ${last} done: ${done} verdicts, ${Math.round(done / seconds)} a second, ${differences} differences`,
    );
  },
});

const seconds = (Date.now() - started) / 1000;
console.log(
  `\n${result.verdicts} verdicts of ${kinds.length} targets in ${Math.round(seconds)} s, seed ${seed}`,
);
for (const [code, count] of [...result.codes].sort(([, a], [, b]) => b - a))
  console.log(`  ${code} ${count}`);
for (const [summary, count] of seen) console.log(`DIFFERENCE, ${count} times: ${summary}`);
console.log(result.differences === 0 ? 'no difference' : `${result.differences} differences`);
process.exitCode = result.differences === 0 ? 0 : 1;
