import { IssueError } from './issue-error.js';
import { isJsonObject } from '../protocol/json.js';
import { typeName } from '../protocol/known-options.js';
import { didYouMean } from '../protocol/nearest-name.js';

/**
 * Requires of a value what the compiler requires of it, and JavaScript does not.
 *
 * @throws IssueError `INVALID_OPTION`
 */
export function requireKind(isRight: boolean, what: string, value: unknown, expected: string): void {
  if (isRight) return;
  throw new IssueError('INVALID_OPTION', `${what} is ${typeName(value)}, expected ${expected}`, 'pass it so');
}

/** The key among the options. */
export function keyOf<K>(options: { readonly key: K }): K {
  requireKind(isJsonObject(options), 'options', options, 'an object');
  return options.key;
}

/**
 * Refuses unknown options: a misspelt one would otherwise be silently ignored.
 *
 * @param known an object with the names of all options, so that the compiler finds a missing one
 * @throws IssueError `INVALID_OPTION`
 */
export function requireKnownOptions<T extends object>(
  options: T,
  known: { readonly [Name in keyof Required<T>]: true },
): void {
  const names = Object.keys(known);
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    throw new IssueError(
      'INVALID_OPTION',
      `there is no option ${JSON.stringify(name.slice(0, 60))}${didYouMean(name, names)}`,
      `the options are ${names.join(', ')}`,
    );
  }
}

const MAX_YEARS = 100;
// As milliseconds, this is the year 1973; as seconds, the year 5138.
const MIN_MILLISECONDS = 1e11;
const MAX_DISTANCE_SECS = MAX_YEARS * 365.25 * 86_400;

/**
 * Refuses times in the far future. Nearly always they are in milliseconds by mistake: a receipt would last 50,000
 * years.
 *
 * @param times Unix seconds by the name of the option. Values that are not numbers are refused later, by the blocks
 * @throws IssueError `INVALID_OPTION`
 */
export function requireNearTimes(times: Readonly<Record<string, number | null | undefined>>): void {
  const now = Date.now() / 1000;
  for (const [name, time] of Object.entries(times)) {
    if (typeof time !== 'number' || !(Math.abs(time - now) > MAX_DISTANCE_SECS)) continue;
    const isMilliseconds = time > MIN_MILLISECONDS && time / 1000 - now <= MAX_DISTANCE_SECS;
    throw new IssueError(
      'INVALID_OPTION',
      `${name} is ${time}, more than ${MAX_YEARS} years away; expected Unix seconds`,
      isMilliseconds
        ? `it looks like milliseconds: give ${Math.floor(time / 1000)}`
        : 'give Unix seconds, such as Math.floor(Date.now() / 1000)',
    );
  }
}

/** The current time in Unix seconds. */
export function clock(): number {
  return Math.floor(Date.now() / 1000);
}
