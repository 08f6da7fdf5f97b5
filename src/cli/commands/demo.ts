import type { Command } from 'commander';
import { EXIT } from '../command-error.js';

/** `drs demo` */
export function addDemo(program: Command): void {
  program
    .command('demo')
    .summary('play a whole story, with attacks, against a service of its own')
    .description(
      'Starts a service on a free port and plays a story against it: three parties, three delegations, one call, and several attacks. Reads no configuration and writes no file. Exits with 1 if a verdict is not as expected.',
    )
    .addHelpText(
      'after',
      `
Examples:
  npx drs-verify demo`,
    )
    .action(async () => {
      const { playDemo } = await import('../demo.js');
      process.exitCode = (await playDemo()) ? EXIT.ok : EXIT.no;
    });
}
