import { Option, type Command } from 'commander';
import { parseIndex } from './policy-options.js';
import { takeStatusIndex } from './status-index-file.js';
import { printable } from './terminal.js';

/** The values of the options that {@link addStatusIndexOptions} adds. */
export interface StatusIndexOptions {
  readonly statusIndex?: number;
  readonly statusIndexFrom?: string;
}

/** Adds the options that make a receipt revocable. */
export function addStatusIndexOptions(command: Command): Command {
  return command
    .option(
      '--status-index <n>',
      'its index in the status list, by which `npx drs-verify revoke` can end it',
      parseIndex,
    )
    .addOption(
      new Option(
        '--status-index-from <file>',
        'take the index out of a file of free ones: a line for each, or 8-131071 for many; no command gets it again',
      ).conflicts('statusIndex'),
    );
}

/**
 * The index that a receipt gets, if any. Call it last before signing: an index that was taken out of a file is lost if
 * nothing is issued.
 */
export async function takeStatusIndexOf({
  statusIndex,
  statusIndexFrom,
}: StatusIndexOptions): Promise<{ readonly statusListIndex?: number }> {
  if (statusIndexFrom === undefined) return statusIndex === undefined ? {} : { statusListIndex: statusIndex };
  const taken = await takeStatusIndex(statusIndexFrom);
  process.stderr.write(
    `took status list index ${taken} from ${printable(statusIndexFrom)}: \`npx drs-verify revoke ${taken}\` ends the receipt\n`,
  );
  return { statusListIndex: taken };
}

/** Says if no status list can end a receipt. */
export function noteWithoutIndex({ statusIndex, statusIndexFrom }: StatusIndexOptions): void {
  if (statusIndex !== undefined || statusIndexFrom !== undefined) return;
  process.stderr.write(
    'note: this receipt has no status list index, so before it ends only those who run verifiers can revoke it, each at their own (`npx drs-verify revoke --receipt`); --status-index or --status-index-from gives it one\n',
  );
}
