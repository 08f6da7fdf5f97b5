import type { InvocationClaims } from '../protocol/claims.js';
import { Failure, showTime, type Code, type Details } from '../verify/codes.js';
import { costMicroUsdOf, limitReached, limitsLeft } from '../verify/limits.js';
import type { CountedLimits, LimitLeft, ReachedLimit } from '../verify/limits.js';
import { ReplayStoreError, type ReplayStore } from './usage-store.js';
import { sha256Hex } from '#platform';

export interface ReplayRules {
  /** Names the place where the invocation is used. Places that share a store need different names: a call that passes two is no replay. */
  readonly scope: string;
  /** How old it may be, in seconds; `REPLAY_WINDOW_SECS`. */
  readonly windowSecs: number;
  /** Seconds that it may be issued in the future: the clock of its agent may be ahead. */
  readonly clockSkewSecs: number;
}

/** The default of `REPLAY_WINDOW_SECS`. */
export const DEFAULT_REPLAY_WINDOW_SECS = 900;

/** The result of a replay check. `lost`: the store has lost what was used before the call was signed. */
export type ReplayResult = 'accepted' | 'replayed' | 'stale' | 'limit_reached' | 'lost' | 'unavailable';

/** Receives the result of each replay check, and its duration in milliseconds. */
export interface ReplayObserver {
  replayChecked?(result: ReplayResult, milliseconds: number): void;
  limitReached?(member: ReachedLimit['member']): void;
  /** Told of an invocation that was signed so many seconds in the future. */
  cameEarly?(secs: number): void;
}

/** The claims of an invocation that a use of it depends on. */
export type UsedInvocation = Pick<InvocationClaims, 'iss' | 'sub' | 'jti' | 'iat' | 'args'>;

/**
 * Uses an invocation: checks whether it may be used, records that it was, and charges the call to the limits of its
 * receipts. Call this last, after every other check: a call that is refused must not use up its invocation.
 *
 * @param limits of the chain, as `limitsOf` gives them
 * @param now Unix seconds
 * @param observer is told how the check ended
 * @param costMicroUsd what the call costs; default: what it states
 * @returns why it may not be used: `INVOCATION_STALE`, `REPLAY_DETECTED`, `REPLAY_STORE_UNAVAILABLE` or `LIMIT_REACHED`;
 *   else what is left of the limits, `null` if there are none
 */
export async function useInvocation(
  claims: UsedInvocation,
  limits: readonly CountedLimits[],
  store: ReplayStore,
  now: number,
  rules: ReplayRules,
  observer: ReplayObserver = {},
  costMicroUsd: number | null = costMicroUsdOf(claims.args, null),
): Promise<Failure | readonly LimitLeft[] | null> {
  const startedAt = performance.now();
  const ended = <T>(result: ReplayResult, used: T): T => {
    observer.replayChecked?.(result, performance.now() - startedAt);
    return used;
  };
  const refuse = (result: ReplayResult, code: Code, facts: Omit<Details, 'subject'>) =>
    ended(result, new Failure(code, { subject: 'invocation', ...facts }));
  const { iss, sub, jti, iat } = claims;
  const { scope, windowSecs, clockSkewSecs } = rules;
  if (iat > now) observer.cameEarly?.(iat - now);
  if (iat < now - windowSecs || iat > now + clockSkewSecs) {
    const [from, until] = [showTime(now - windowSecs), showTime(now + clockSkewSecs)];
    const expected = `from ${from} to ${until}, ${windowSecs} s before now to ${clockSkewSecs} s after`;
    return refuse('stale', 'INVOCATION_STALE', { time: iat, expected });
  }
  const charge = limits.length === 0 ? null : { limits, costMicroUsd: costMicroUsd ?? TOO_MUCH };
  const { lostAt = 0, emptiedAt = 0 } = store;
  const unavailable = (result: ReplayResult, reason: string, expected: string) =>
    refuse(result, 'REPLAY_STORE_UNAVAILABLE', { claimed: jti, reason, expected });
  if (mayBeFrom(iat, clockSkewSecs, lostAt)) {
    const expected = `a call that is signed after ${showTime(lostAt + clockSkewSecs)}`;
    return unavailable('lost', 'the store has lost what was used before', expected);
  }
  if (limits.some(({ nbf }) => mayBeFrom(nbf, clockSkewSecs, emptiedAt))) {
    const expected = `a receipt from after ${showTime(emptiedAt + clockSkewSecs)}, or LIMITS_AFTER_LOSS (limitsAfterLoss) set to pass`;
    return unavailable('lost', 'the store has lost what was used of a limit', expected);
  }
  try {
    // An invocation that was issued in the future stays fresh longer, and must be recorded as long.
    const ttlSecs = windowSecs + clockSkewSecs + 1;
    const used = await store.use(replayKey(scope, iss, jti), now, ttlSecs, charge, sub);
    if (used.kind === 'replayed')
      return refuse('replayed', 'REPLAY_DETECTED', { claimed: jti, expected: 'one that was not used' });
    if (used.kind === 'new')
      return ended('accepted', charge === null ? null : limitsLeft(limits, used.usage));
    observer.limitReached?.(used.limit.member);
    return ended('limit_reached', limitReached(used.limit));
  } catch (error) {
    const reason = error instanceof ReplayStoreError ? error.message : 'the store failed';
    return unavailable('unavailable', reason, 'a replay store that can tell');
  }
}

/** Whether what was signed with this time may have been used by a moment: a signer's clock may be ahead. */
const mayBeFrom = (time: number, clockSkewSecs: number, moment: number) =>
  moment > 0 && time - clockSkewSecs <= moment;

/** More than any limit, for a call whose cost cannot be counted. Under a limit of the cost, block D refuses such calls. */
const TOO_MUCH = Number.MAX_SAFE_INTEGER;

const MAX_PLAIN_LENGTH = 200;

/**
 * The key of an invocation in a replay store: another one for each scope, issuer and `jti`, however chosen, and of bounded length.
 *
 * @param scope the name of the place that uses the invocation up; see {@link ReplayRules.scope}
 * @example replayKey('verify', 'did:key:z6Mk…', 'inv:1'); // '6:verify13:did:key:z6Mk…inv:1'
 */
export function replayKey(scope: string, iss: string, jti: string): string {
  const plain = `${scope.length}:${scope}${iss.length}:${iss}${jti}`;
  if (plain.length <= MAX_PLAIN_LENGTH) return plain;
  // A plain key starts with a digit, so none can be taken for a digest.
  return `sha256:${sha256Hex(plain)}`;
}
