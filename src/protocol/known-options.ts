import { nearestName } from './nearest-name.js';

/**
 * Refuses options that nobody reads: a misspelt one would have no effect, and nobody would notice.
 *
 * @param given the options; `undefined` counts as left out
 * @throws TypeError naming each member that is none of `known`
 * @example refuseUnknownOptions({ carrier: 'header' }, ['carriers']); // TypeError: carrier is not an option here, expected carriers
 */
export function refuseUnknownOptions(given: object, known: readonly string[]): void {
  const problems = Object.entries(given)
    .filter(([name, value]) => value !== undefined && !known.includes(name))
    .map(([name]) => {
      const expected = nearestName(name, known) ?? `one of ${known.join(', ')}`;
      return `${name} is not an option here, expected ${expected}`;
    });
  if (problems.length > 0) throw new TypeError(problems.join('\n'));
}
