import type { Command } from 'commander';
import { TrustedRootsError } from '../../trust/roots-files.js';
import { readTrustedRoots } from '../../trust/trusted-roots.js';
import { CommandError, EXIT } from '../command-error.js';
import { printable } from '../terminal.js';

/** Adds the options of `drs-verify roots`, and what it does. */
export function define(command: Command): void {
  command
    .description(
      'The files of trusted roots (TRUSTED_ROOTS_FILE), one JSON object a line: docs/trust.md. Change them with an editor: a running service reads a change within a few seconds.',
    )
    .command('check')
    .summary('find what is wrong')
    .description(
      'Checks a file, or a directory of files, and names each line that is wrong. Exits with 1 if there is one.',
    )
    .option('--file <path>', 'the file or directory (default: TRUSTED_ROOTS_FILE)')
    .action(async ({ file }: { readonly file?: string }) => {
      const place = file ?? process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '';
      if (place === '')
        throw new CommandError(
          'there is no file of trusted roots',
          'name it with --file, or set TRUSTED_ROOTS_FILE as the service has it',
        );
      const { size } = await readTrustedRoots(place).catch((error: unknown) => {
        if (!(error instanceof TrustedRootsError)) throw error;
        throw new CommandError(
          error.message.split('\n').join('; '),
          'correct what the message names; docs/trust.md has an example',
          EXIT.no,
        );
      });
      process.stdout.write(`${printable(place)} is in order: ${size} trusted roots\n`);
    });
}
