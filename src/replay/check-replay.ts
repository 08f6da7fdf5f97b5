import type { InvocationClaims } from '../protocol/claims.js';
import { Failure, showTime } from '../verify/codes.js';
import { replayKey } from './replay-key.js';
import { ReplayStoreError, type ReplayStore } from './replay-store.js';

/** The rules by which an invocation may be used. */
export interface ReplayRules {
  /**
   * The name of the place where the invocation is used. Places that share a store need different names: a call that
   * passes two of them on its way is not a replay.
   */
  readonly scope: string;
  /** How old it may be, in seconds; `REPLAY_WINDOW_SECS`. */
  readonly windowSecs: number;
  /** Clock tolerance in seconds. An invocation may be issued this far in the future, and at least 60 s. */
  readonly clockSkewSecs: number;
}

/** The default of `REPLAY_WINDOW_SECS`. */
export const DEFAULT_REPLAY_WINDOW_SECS = 900;

const MIN_LEEWAY_SECS = 60;

/**
 * Checks whether an invocation may be used, and records that it was. Call this last, after every other check: a call
 * that is refused must not use up its invocation.
 *
 * @param now Unix seconds
 * @returns `null` if it is fresh and new; else `INVOCATION_STALE`, `REPLAY_DETECTED` or `REPLAY_STORE_UNAVAILABLE`.
 *   A promise only if the store returned one.
 * @example
 * const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 0 };
 * const checked = checkReplay(invocation.claims, store, now, rules);
 * const failure = checked instanceof Promise ? await checked : checked;
 */
export function checkReplay(
  { iss, jti, iat }: Pick<InvocationClaims, 'iss' | 'jti' | 'iat'>,
  store: ReplayStore,
  now: number,
  { scope, windowSecs, clockSkewSecs }: ReplayRules,
): Failure | null | Promise<Failure | null> {
  const leeway = Math.max(clockSkewSecs, MIN_LEEWAY_SECS);
  if (iat < now - windowSecs || iat > now + leeway) {
    const [from, until] = [showTime(now - windowSecs), showTime(now + leeway)];
    const expected = `from ${from} to ${until}, ${windowSecs} s before now to ${leeway} s after`;
    return new Failure('INVOCATION_STALE', { subject: 'invocation', time: iat, expected });
  }
  // An invocation that was issued `leeway` in the future stays fresh for window + leeway, and must be recorded as long.
  const ttlSecs = windowSecs + leeway + 1;
  try {
    const recorded = store.record(replayKey(scope, iss, jti), now, ttlSecs);
    if (typeof recorded === 'boolean') return recorded ? null : replayed(jti);
    return recorded.then(
      (isNew) => (isNew ? null : replayed(jti)),
      (error: unknown) => unavailable(jti, error),
    );
  } catch (error) {
    return unavailable(jti, error);
  }
}

function replayed(jti: string): Failure {
  return new Failure('REPLAY_DETECTED', {
    subject: 'invocation',
    claimed: jti,
    expected: 'one that was not used',
  });
}

function unavailable(jti: string, error: unknown): Failure {
  const reason = error instanceof ReplayStoreError ? error.message : 'the store failed';
  return new Failure('REPLAY_STORE_UNAVAILABLE', {
    subject: 'invocation',
    claimed: jti,
    expected: 'a replay store that can tell',
    reason,
  });
}
