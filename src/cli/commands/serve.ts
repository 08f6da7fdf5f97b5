import type { Command } from 'commander';
import { helpOnVariables } from '../../service/configuration/documents.js';
import { serve } from '../../service/main.js';

const WHERE = 'docs/configuration.md says more of each variable, and which values it has.';

/** Adds the options of `drs-verify serve`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'Runs the verification service until SIGTERM or SIGINT. It is configured by environment variables, which `drs-verify serve --help` lists; with a problem in the configuration it says so and exits with 2.',
    )
    .addHelpText(
      'after',
      `
Examples:
  npx drs-verify serve
  npx drs-verify serve --check
  PORT=9000 DRS_ADMIN_TOKEN=… npx drs-verify serve`,
    )
    .option(
      '--check',
      'check the configuration and what it names, but no port, and exit: with 0 if it can work, else with 2',
    )
    .addHelpText('after', () => `\nVariables:\n\n${helpOnVariables()}\n\n${WHERE}`)
    .action(({ check }: { check?: true }) => serve(process.env, check));
}
