import { nearestName } from './nearest-name.js';

/**
 * Refuses options that nobody reads: a misspelt one would have no effect, and nobody would notice.
 *
 * @param given the options; `undefined` counts as left out
 * @throws TypeError naming each member that is none of `known`
 * @example refuseUnknownOptions({ carrier: 'header' }, ['carriers']); // TypeError: carrier is not an option here, expected carriers
 */
export function refuseUnknownOptions(given: object, known: readonly string[]): void {
  // Not shown: a URL in place of the options may have a password.
  if (typeof given !== 'object' || (given as unknown) === null)
    throw new TypeError(`the options are ${typeName(given)}, expected an object with ${known.join(', ')}`);
  const problems = Object.entries(given)
    .filter(([name, value]) => value !== undefined && !known.includes(name))
    .map(([name]) => {
      const expected = nearestName(name, known) ?? `one of ${known.join(', ')}`;
      return `${name} is not an option here, expected ${expected}`;
    });
  if (problems.length > 0) throw new TypeError(problems.join('\n'));
}

/** What a value is, without showing it: it may be a secret. */
export function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'missing';
  return Array.isArray(value) ? 'an array' : `of type ${typeof value}`;
}
