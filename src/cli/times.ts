import { InvalidArgumentError } from 'commander';

const SECONDS_OF = { s: 1, m: 60, h: 3600, d: 86_400 } as const;
const ISO_WITH_ZONE = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

/** The accepted forms of a time, for help texts. */
export const TIME_FORMS = '90s, 30m, 8h, 7d from now; 2030-01-31T12:00:00Z; or Unix seconds';

/**
 * Reads the time in an option.
 *
 * @param now Unix seconds, to which a duration is added
 * @returns Unix seconds
 * @throws InvalidArgumentError, which commander reports
 * @example parseTime('8h', 1_900_000_000); // 1_900_028_800
 */
export function parseTime(text: string, now: number): number {
  const [, count, unit] = /^(\d{1,10})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return now + Number(count) * SECONDS_OF[unit as keyof typeof SECONDS_OF];
  const time = /^\d{1,15}$/.test(text)
    ? Number(text)
    : ISO_WITH_ZONE.test(text)
      ? Math.floor(Date.parse(text) / 1000)
      : NaN;
  if (time >= 0) return time;
  throw new InvalidArgumentError(`Expected ${TIME_FORMS}.`);
}

/**
 * Reads the end of a validity period. Returns the word `never`, not null, since Commander treats null as "not given".
 */
export function parseEnd(text: string, now: number): number | 'never' {
  return text === 'never' ? text : parseTime(text, now);
}

/** The end of a validity period, as an option for issuing. */
export function toExpiresAt(end: number | 'never'): number | null {
  return end === 'never' ? null : end;
}

/**
 * A time for people, in UTC.
 *
 * @param seconds Unix seconds
 * @example showTime(1_900_000_000); // '2030-03-17 17:46:40 UTC'
 */
export function showTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return `${seconds} (Unix seconds, beyond the calendar)`;
  return date.toISOString().replace('T', ' ').replace('.000Z', ' UTC');
}
