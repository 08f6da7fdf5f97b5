import { kindOf, readOptions, type FilledOptions, type Kind, type Table } from '../protocol/options.js';
import { IssueError } from './issue-error.js';

/**
 * Reads the options of a function that issues.
 *
 * @throws IssueError `INVALID_OPTION` with all problems
 */
export function issueOptions<Rows extends Table>(given: unknown, rows: Rows): FilledOptions<Rows> {
  const { options, problems } = readOptions(given, rows);
  if (problems.length === 0) return options;
  throw new IssueError('INVALID_OPTION', problems.join('\n'), 'Correct these options.');
}

const MAX_YEARS = 100;
const MAX_DISTANCE_SECS = MAX_YEARS * 365.25 * 86_400;

/** Unix seconds. Times far away are refused: nearly always they are milliseconds. The blocks refuse what is no number. */
export const time: Kind<number> = kindOf(
  'Unix seconds',
  (value) => typeof value !== 'number' || !(Math.abs(value - clock()) > MAX_DISTANCE_SECS),
  `Unix seconds, not milliseconds, at most ${MAX_YEARS} years away`,
);

/** No verifier can be told to take more. */
const MAX_RECEIPTS = 1024;

export const receipts = kindOf<readonly string[]>('an array of receipts', (value) => {
  const isChain = Array.isArray(value) && value.length <= MAX_RECEIPTS;
  // A hole becomes undefined.
  return isChain && Array.from(value).every((item) => typeof item === 'string');
});

/** A value that the blocks check, like those that come from elsewhere. */
export function claim<T>(): Kind<T> {
  return kindOf('a claim', () => true);
}

/** The current time in Unix seconds. */
export function clock(): number {
  return Math.floor(Date.now() / 1000);
}
