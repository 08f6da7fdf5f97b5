// Dates of JavaScript, without those that only a fault gives.
const MAX_SECONDS = 8.64e12;
/** Whether a time is a date. */
export const isPlaceable = (seconds: number | null): seconds is number =>
  seconds !== null && Math.abs(seconds) < MAX_SECONDS;

const UNITS: readonly (readonly [seconds: number, name: string])[] = [
  [60, 'min'],
  [3600, 'h'],
  [86_400, 'd'],
];

/** A length of time for a person: `3 h`, `21 d`. */
export function showSpan(seconds: number): string {
  const size = Math.abs(seconds);
  const [unit, name] = UNITS.findLast(([least]) => size >= least) ?? [1, 's'];
  return `${Math.round(size / unit)} ${name}`;
}

/** A time for a person, in UTC. */
export function showDate(seconds: number | null): string {
  if (!isPlaceable(seconds)) return 'never';
  const text = new Date(seconds * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}
