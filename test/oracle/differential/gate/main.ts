// `npm run differential:gate -- --decisions 1e6`: compares every way to ask a gate with the oracle.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { toGateCase } from './cases.js';
import { runGates, type GateDifference } from './run.js';
import { shrinkGates } from './shrink.js';

const { values } = parseArgs({
  options: {
    decisions: { type: 'string', default: '5e4' },
    seed: { type: 'string', default: '1' },
    epoch: { type: 'string', default: '2e4' },
    'first-epoch': { type: 'string', default: '0' },
    out: { type: 'string', default: 'test/oracle/gate-cases' },
  },
});
const [decisions, seed, epoch, firstEpoch] = (['decisions', 'seed', 'epoch', 'first-epoch'] as const).map(
  (name) => {
    const value = Number(values[name]);
    if (Number.isSafeInteger(value) && value >= 0) return value;
    console.error(`--${name} is ${values[name]}, expected a whole number such as 100000 or 1e5`);
    process.exit(2);
  },
) as [number, number, number, number];

const MAX_CASES = 10;
const from = performance.now();
const seen = new Map<string, number>();
const kept: GateDifference[] = [];

function onDifference(difference: GateDifference): void {
  const brief = (text: string) => text.split(' ').slice(0, 3).join(' ').slice(0, 60);
  const summary = `${difference.way}: ${brief(difference.actual)} instead of ${brief(difference.expected)}`;
  seen.set(summary, (seen.get(summary) ?? 0) + 1);
  if (seen.get(summary) === 1) console.error(`difference: ${summary}`);
  if (seen.get(summary) === 1 && kept.length < MAX_CASES) kept.push(difference);
}

const result = await runGates({
  decisions,
  seed,
  epoch,
  firstEpoch,
  onDifference,
  onProgress: (done, last) =>
    console.error(
      `seed ${seed}, epoch ${last} done: ${done} decisions, ${Math.round((1000 * done) / (performance.now() - from))} a second, ${seen.size} kinds of difference`,
    ),
});
// Cases are shrunk after the run, because that needs new gates and sets the clock.
for (const difference of kept) {
  const small = await shrinkGates(difference);
  const text = JSON.stringify(toGateCase(small), null, 1);
  const file = `${values.out}/${createHash('sha256').update(text).digest('hex').slice(0, 10)}.json`;
  mkdirSync(values.out, { recursive: true });
  writeFileSync(file, `${text}\n`);
  const { way, expected, actual, request, steps } = small;
  console.log(
    `${way}, kept as ${file} (${steps.length} steps)\n  expected ${expected}\n  found    ${actual}`,
  );
  console.log(`  ${request.protocol} ${request.method} ${request.body.slice(0, 400)}`);
}
for (const [name, times] of [...result.lines].sort(([, a], [, b]) => b - a))
  console.log(`  ${name} ${times}`);
for (const [name, times] of [...result.doors].sort(([a], [b]) => (a < b ? -1 : 1)))
  console.log(`  ${name} ${times}`);
for (const [summary, times] of seen) console.log(`DIFFERENCE, ${times} times: ${summary}`);
console.log(
  `${result.decisions} decisions, seed ${seed}: ${result.differences === 0 ? 'no difference' : `${result.differences} differences`}`,
);
process.exitCode = result.differences === 0 ? 0 : 1;
