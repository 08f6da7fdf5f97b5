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
  command
    .command('list')
    .summary('show who is trusted')
    .description('Shows the principals, one a line.')
    .option('--file <path>', FILE)
    .action(async ({ file }: FileOptions) => {
      for (const [did, root] of await readRoots(placeOf(file)))
        process.stdout.write(`${printable(lineOf(did, root))}\n`);
    });
  command
    .command('check')
    .summary('find faults')
    .description(
      'Checks a file, or a directory of files, and names each fault with its line. Exits with 1 if there is one.',
    )
    .option('--file <path>', FILE)
    .action(async ({ file }: FileOptions) => {
      const place = placeOf(file);
      const { size } = await readRoots(place);
      process.stdout.write(`${printable(place)} is in order: ${size} trusted roots\n`);
    });
}

const FILE = 'the file or directory (default: TRUSTED_ROOTS_FILE)';

interface FileOptions {
  readonly file?: string;
}

function placeOf(named: string | undefined): string {
  const place = named ?? process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '';
  if (place !== '') return place;
  throw new CommandError(
    'there is no file of trusted roots',
    'name it with --file, or set TRUSTED_ROOTS_FILE as the service has it',
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
