import type { Command } from 'commander';

/** `drs serve` */
export function addServe(program: Command): void {
  const command = program.command('serve');
  command
    .summary('run the verification service')
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
    // Not commander's own: the list of variables comes from modules that only this command needs.
    .helpOption(false)
    .option('-h, --help', 'display help for command, with all variables')
    .action(async ({ check, help }: { check?: true; help?: true }) => {
      if (help) {
        const { helpOnVariables } = await import('../../service/configuration/documents.js');
        const where = 'docs/configuration.md says more of each variable, and which values it has.\n';
        command.addHelpText('after', `\nVariables:\n\n${helpOnVariables()}\n\n${where}`).help();
      }
      // Only this command needs the native server; loading it would slow down every other.
      const { serve } = await import('../../service/main.js');
      await serve(process.env, check);
    });
}
