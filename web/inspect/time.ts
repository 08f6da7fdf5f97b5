import { numberClaim, type Token } from './decode.js';

/** The part of time that the picture shows, in Unix seconds. */
export interface Domain {
  readonly from: number;
  readonly to: number;
}

// What a picture can place: dates of JavaScript, without those that only a fault gives.
const MAX_SECONDS = 8.64e12;
/** Whether a picture can place a time. */
export const isPlaceable = (seconds: number | null): seconds is number =>
  seconds !== null && Math.abs(seconds) < MAX_SECONDS;

// A time that is further away stands at the edge: it would make all others one point.
const MAX_DISTANCE = 30 * 365 * 86_400;

/** Every window and now, with a little room on both sides. */
export function domainOf(receipts: readonly Token[], invocation: Token | null, now: number): Domain {
  const times = receipts.flatMap((receipt) => [numberClaim(receipt, 'nbf'), numberClaim(receipt, 'exp')]);
  if (invocation !== null) times.push(numberClaim(invocation, 'iat'));
  const known = [...times.filter(isPlaceable).filter((time) => Math.abs(time - now) < MAX_DISTANCE), now];
  const [from, to] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(60, (to - from) * 0.06);
  return { from: from - room, to: to + room };
}

/** Where a time is on the axis, in per cent of its length. */
export function percent({ from, to }: Domain, seconds: number): number {
  return Math.min(100, Math.max(0, (100 * (seconds - from)) / (to - from)));
}

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
