import type { Command } from 'commander';
import { helpOnVariables } from '../variables.js';
import { readOrExit, serve } from '../../service/main.js';

const WHERE = 'docs/configuration.md says more of each variable, and which values it has.';

export const help = `
Examples:
  npx drs-verify serve
  npx drs-verify serve --check
  PORT=9000 DRS_ADMIN_TOKEN=… npx drs-verify serve`;

export function define(command: Command): void {
  command
    .description(
      'Runs the verification service until SIGTERM or SIGINT. It is configured by environment variables, which `drs-verify serve --help` lists; with a problem in the configuration it says so and exits with 2.',
    )
    .option(
      '--check',
      'check the configuration and what it names, but no port, and exit: with 0 if it can work, else with 2',
    )
    .addHelpText('after', () => `\nVariables:\n\n${helpOnVariables()}\n\n${WHERE}`)
    .action(({ check }: { check?: true }) => (check ? checkStart() : serve(process.env)));
}

async function checkStart(): Promise<void> {
  // A service starts without what this tries.
  const { findStartProblems, findStartWarnings } = await import('../start-problems.js');
  const { configuration, warnings } = readOrExit(process.env);
  for (const warning of [...warnings, ...(await findStartWarnings(configuration))])
    console.error(`warning: ${warning}`);
  const problems = await findStartProblems(configuration);
  if (problems.length > 0) {
    console.error(`drs-verify cannot start with this configuration here:\n  ${problems.join('\n  ')}`);
    process.exit(2);
  }
  console.log('The configuration can work.');
  process.exit(0);
}
