const FORM = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)(?:Z|([+-])(\d\d):(\d\d)))?$/;
const DAY_SECS = 86_400;

/** The accepted forms of a time, for messages. */
export const TIME_FORMS = 'a day such as "2026-11-01", or a time such as "2026-11-01T08:00:00Z" (RFC 3339)';

/**
 * Reads a day, or a time with whole seconds. A day is its first second, or its last, in UTC.
 *
 * @returns Unix seconds, or `null` if it is no such text or no such day
 * @see docs/spec/trust.md, "Files"
 * @example readTime('2026-11-01', 'end'); // 1793577599
 */
export function readTime(text: string, edge: 'start' | 'end'): number | null {
  const parts = FORM.exec(text);
  if (parts === null) return null;
  const [year, month, day] = [numberOf(parts[1]), numberOf(parts[2]), numberOf(parts[3])];
  const start = Date.UTC(year, month - 1, day) / 1000;
  // Date.UTC takes the 31st of June for the 1st of July.
  if (year < 1970 || new Date(start * 1000).getUTCMonth() !== month - 1) return null;
  if (parts[4] === undefined) return edge === 'start' ? start : start + DAY_SECS - 1;
  const [hour, minute, second] = [numberOf(parts[4]), numberOf(parts[5]), numberOf(parts[6])];
  const [hours, minutes] = [numberOf(parts[8]), numberOf(parts[9])];
  if (hour > 23 || minute > 59 || second > 59 || hours > 23 || minutes > 59) return null;
  const offset = (hours * 60 + minutes) * 60 * (parts[7] === '-' ? -1 : 1);
  return start + (hour * 60 + minute) * 60 + second - offset;
}

function numberOf(digits: string | undefined): number {
  return Number(digits ?? 0);
}
