import { readTrustedRoots } from '../trust/trusted-roots.js';
import { CommandError } from './command-error.js';

/** What the operator calls a principal; `null` if nobody says. */
export type NameOf = (did: string) => string | null;

/** The names in the files of trusted roots, if `TRUSTED_ROOTS_FILE` names any. */
export async function readRootNames(): Promise<NameOf> {
  const place = process.env['TRUSTED_ROOTS_FILE']?.trim() ?? '';
  if (place === '') return () => null;
  try {
    const roots = await readTrustedRoots(place);
    return (did) => roots.get(did)?.name ?? null;
  } catch (error) {
    throw new CommandError(
      `cannot read names from TRUSTED_ROOTS_FILE: ${(error as Error).message.split('\n').join('; ')}`,
      'correct what the message names, or unset the variable',
    );
  }
}
