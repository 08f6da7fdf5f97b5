import type { Command } from 'commander';
import { TrustedRootsError } from '../../trust/roots-files.js';
import { readTrustedRoots } from '../../trust/trusted-roots.js';
import type { Root } from '../../verify/parts.js';
import { CommandError, EXIT } from '../command-error.js';
import { printable, showTime } from '../terminal.js';

/** Adds the options of `drs-verify roots`, and what it does. */
export function define(command: Command): void {
  command.description(
    'Reads the files of trusted roots (TRUSTED_ROOTS_FILE), one JSON object a line: docs/trust.md. Change them with an editor: a running service reads a change within a few seconds.',
  );
  const add = (name: string, show: (roots: ReadonlyMap<string, Root>, place: string) => readonly string[]) =>
    command
      .command(name)
      .option('--file <path>', 'the file or directory (default: TRUSTED_ROOTS_FILE)')
      .action(async ({ file }: { readonly file?: string }) => {
        const place = file ?? process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '';
        if (place === '')
          throw new CommandError(
            'there is no file of trusted roots',
            'name it with --file, or set TRUSTED_ROOTS_FILE as the service has it',
          );
        const lines = show(await readRoots(place), place);
        process.stdout.write(lines.map((line) => `${printable(line)}\n`).join(''));
      });
  add('list', (roots) => Array.from(roots, ([did, root]) => lineOf(did, root)))
    .summary('show who is trusted')
    .description('Shows the principals, one a line.');
  add('check', ({ size }, place) => [`${place} is in order: ${size} trusted roots`])
    .summary('find what is wrong')
    .description(
      'Checks a file, or a directory of files, and names each line that is wrong. Exits with 1 if there is one.',
    );
}

async function readRoots(place: string): Promise<ReadonlyMap<string, Root>> {
  try {
    return await readTrustedRoots(place);
  } catch (error) {
    if (!(error instanceof TrustedRootsError)) throw error;
    throw new CommandError(
      error.message.split('\n').join('; '),
      'correct what the message names; docs/trust.md has an example',
      EXIT.no,
    );
  }
}

function lineOf(did: string, { name, from, until, policy, labels }: Root): string {
  return [
    name ?? '-',
    did,
    ...(from === null ? [] : [`from ${showTime(from)}`]),
    ...(until === null ? [] : [`until ${showTime(until)}`]),
    ...(policy === null ? [] : [JSON.stringify(policy.policy)]),
    ...Object.entries(labels ?? {}).map(([label, text]) => `${label}=${text}`),
  ].join('  ');
}
