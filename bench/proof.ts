import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { exitCodeOf, renderOutcome, type Outcome } from './compare/outcome.js';
import { compareVersions, withVersions } from './compare/run.js';

const USAGE = `npm run bench:proof -- [--runs 20] [--planted 5,10,30] [--minutes 3] [--out <file>]

Shows that bench:compare can be believed on this machine: so many comparisons of this working copy with itself, which
must find nothing but once in twenty, and one for each planted slow-down, which must be found. 1 to 1.5 hours where
nothing else runs; --minutes is the longest that a single comparison may take.
Exit code: 0 as promised, 1 not.
`;

const ALLOWED_FALSE_ALARMS = 1;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '20' },
      planted: { type: 'string', default: '5,10,30' },
      minutes: { type: 'string', default: '3' },
      out: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const say = (what: string) => process.stderr.write(`${what}\n`);
  const outcomes: Outcome[] = [];
  const slowDowns = values.planted.split(',').map((text) => Number(text) / 100);
  // The planted ones first, so that a comparison that misses them is known after minutes, not after an hour.
  const plan = [...slowDowns, ...Array.from({ length: Number(values.runs) }, () => 0)];
  await withVersions(['HEAD', 'HEAD'], say, async (built) => {
    for (const [at, planted] of plan.entries()) {
      const outcome = await compareVersions(
        built,
        {
          ...{ cases: [{ traffic: 'warm', depth: 4 }], detect: 0.05, planted },
          ...{ minutes: Number(values.minutes), gates: ['cpu', 'latency p50'], workers: null },
        },
        () => undefined,
      );
      outcomes.push(outcome);
      const what = planted === 0 ? 'A against A' : `planted ${Math.round(100 * planted)} %`;
      process.stdout.write(
        `\n== ${at + 1} of ${plan.length}: ${what}, exit code ${exitCodeOf(outcome.findings)}\n`,
      );
      process.stdout.write(renderOutcome(outcome));
      if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(outcomes, null, 1)}\n`);
    }
  });
  return conclude(outcomes);
}

function conclude(outcomes: readonly Outcome[]): number {
  const same = outcomes.filter(({ planted }) => planted === 0).map(({ findings }) => exitCodeOf(findings));
  const count = (code: number) => same.filter((one) => one === code).length;
  const missed = outcomes.filter(({ planted, findings }) => planted > 0 && exitCodeOf(findings) !== 1);
  process.stdout.write(
    `\nA against A: ${count(0)} no regression, ${count(1)} false alarms, ${count(2)} cannot tell\n` +
      `planted: ${outcomes.length - same.length - missed.length} found, ${missed.length} missed\n`,
  );
  return count(1) <= ALLOWED_FALSE_ALARMS && missed.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`bench:proof: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
