import type { JsonValue } from '../protocol/json.js';
import { did } from '../protocol/key-resolver.js';
import { listOf, type Kind } from '../protocol/options.js';
import type { Root } from '../verify/parts.js';
import { readRoot, sentence, type TrustedRoot } from './read-root.js';

/**
 * Makes roots of what a program names.
 *
 * @param given DIDs, or objects like the entries of a file
 * @returns the roots, or what is wrong with them
 */
export function readGivenRoots(
  given: readonly (string | TrustedRoot)[],
): { readonly roots: ReadonlyMap<string, Root> } | { readonly problem: string } {
  const roots = new Map<string, Root>();
  const problems: string[] = [];
  for (const [at, one] of given.entries()) {
    const read = readRoot(typeof one === 'string' ? { did: one } : copyOf(one), [at]);
    if (!('key' in read)) problems.push(...read.map(sentence));
    else if (!roots.has(read.key)) roots.set(read.key, read.value);
    else if (typeof one !== 'string') problems.push(`[${at}].did: it is in another entry, too`);
  }
  return problems.length > 0 ? { problem: problems.join('; ') } : { roots };
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
