import { isPlaceable } from '../shared/time.js';
import { numberClaim, type Token } from './decode.js';

/** The part of time that the picture shows, in Unix seconds. */
export interface Domain {
  readonly from: number;
  readonly to: number;
}

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
