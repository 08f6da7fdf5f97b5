import { exitCodeOf, renderOutcome } from './compare/outcome.js';
import { compareWithParent } from './compare/parent.js';
import { compareVersions, readCompareOptions, USAGE } from './compare/run.js';
import { runMain } from './run/programs.js';

async function main(): Promise<number> {
  if (process.argv.slice(2).join(' ') === '--parent')
    return compareWithParent((what) => process.stdout.write(`${what}\n`));
  const options = readCompareOptions(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(USAGE);
    return 0;
  }
  const say = (what: string) => process.stderr.write(`${what}\n`);
  const outcome = await compareVersions(options, say);
  process.stdout.write(renderOutcome(outcome));
  return exitCodeOf(outcome.findings);
}

await runMain('bench:compare', main);
