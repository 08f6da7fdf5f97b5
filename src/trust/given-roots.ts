import type { JsonValue } from '../protocol/json.js';
import { did } from '../protocol/key-resolver.js';
import { listOf, type Kind, type Reading } from '../protocol/options.js';
import type { Root } from '../verify/parts.js';
import { readGiven, readRoot, type LineDefect, type TrustedRoot } from './read-root.js';

/**
 * Makes roots of what a program names.
 *
 * @param given DIDs, or objects like the entries of a file
 * @returns the roots, or what is wrong with them
 */
export function readGivenRoots(given: readonly (string | TrustedRoot)[]): Reading<ReadonlyMap<string, Root>> {
  const read = (one: unknown, path: LineDefect['path']) =>
    readRoot(typeof one === 'string' ? { did: one } : copyOf(one), path);
  return readGiven(given, 'did', read, 'it is in another entry, too');
}

// Named, because otherwise the declarations reach the type by way of index.ts, whose types need Node's.
export interface RootsKind extends Kind<(string | TrustedRoot)[]> {}

/** DIDs, or, from a program, entries as in a file. */
export const roots: RootsKind = {
  ...listOf(did),
  check: (value) => {
    if (!Array.isArray(value) || !value.some((one) => typeof one === 'object'))
      return listOf(did).check(value);
    const given = value as (string | TrustedRoot)[];
    const read = readGivenRoots(given);
    return 'problem' in read ? read : { value: given };
  },
};

/** A copy, so that later changes of the object change no verdict. */
function copyOf(value: unknown): JsonValue {
  try {
    return structuredClone(value) as JsonValue;
  } catch {
    return null;
  }
}
