import { parseArgs } from 'node:util';
import { compareResults, renderComparison } from './comparison.js';
import { measureCommits } from './compare-commits.js';
import { readResults } from './read-results.js';
import type { Results } from './results.js';

const USAGE = `npm run bench:compare -- <a> <b>                two results: directories, or their results.json
npm run bench:compare -- --commits <a> <b>      two commits, built in work trees and measured in turn
    --rounds <n>        how often each is measured (default 4)
    -- <options>        for each measurement, as for npm run bench (default --only in-process,closed-loop)

Exit code: 0 no regression, 1 a regression past 5 % (throughput, processor time) or 10 % (p99), 2 it could not compare.
`;

function main(): number {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      commits: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '4' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const [a, b, ...options] = positionals;
  if (values.help || a === undefined || b === undefined) {
    process.stdout.write(USAGE);
    return values.help ? 0 : 2;
  }
  const [first, second] = values.commits
    ? measureCommits([a, b], Number(values.rounds), options)
    : [readResults(a), readResults(b)];
  const name = ({ commit, isDirty }: Results) => `${commit.slice(0, 9)}${isDirty ? '+' : ''}`;
  const comparisons = compareResults(first, second, values.commits ? 'in turn' : 'apart');
  if (comparisons.length === 0) throw new Error('the two results have no figure in common');
  process.stdout.write(renderComparison(comparisons, [name(first), name(second)]));
  const drift = second.floorMicroseconds / first.floorMicroseconds;
  if (Math.abs(Math.log(drift)) > Math.log(1.1)) {
    process.stdout.write(
      `Beware: the floor moved by ${((drift - 1) * 100).toFixed(0)} %, so the machine was not the same; ` +
        'use --commits, which takes turns\n',
    );
  }
  return comparisons.some(({ verdict, isGate }) => isGate && verdict === 'worse') ? 1 : 0;
}

try {
  process.exitCode = main();
} catch (error) {
  process.stderr.write(`bench:compare: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
