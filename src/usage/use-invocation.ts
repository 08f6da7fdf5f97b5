import type { InvocationClaims } from '../protocol/claims.js';
import { Failure, showTime, type Code } from '../verify/codes.js';
import { ReplayStoreError, type ReplayStore } from './usage-store.js';
import { sha256Hex } from '#platform';

// The global is an accessor in Node: each use of it would cost a call.
const { performance } = globalThis;

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

/** The result of a replay check. */
export type ReplayResult = 'accepted' | 'replayed' | 'stale' | 'unavailable';

/** Receives the result of each replay check, and its duration in milliseconds. */
export interface ReplayObserver {
  replayChecked?(result: ReplayResult, milliseconds: number): void;
}

/**
 * Checks whether an invocation may be used, and records that it was. Call this last, after every other check: a call
 * that is refused must not use up its invocation.
 *
 * @param now Unix seconds
 * @param observer is told how the check ended
 * @returns `null` if it is fresh and new; else `INVOCATION_STALE`, `REPLAY_DETECTED` or `REPLAY_STORE_UNAVAILABLE`
 * @example
 * const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 0 };
 * const failure = await useInvocation(invocation.claims, store, now, rules);
 */
export async function useInvocation(
  claims: Pick<InvocationClaims, 'iss' | 'jti' | 'iat'>,
  store: ReplayStore,
  now: number,
  rules: ReplayRules,
  observer: ReplayObserver = {},
): Promise<Failure | null> {
  const startedAt = performance.now();
  const failure = await use(claims, store, now, rules);
  observer.replayChecked?.(RESULT_OF.get(failure?.code) ?? 'unavailable', performance.now() - startedAt);
  return failure;
}

const RESULT_OF: ReadonlyMap<Code | undefined, ReplayResult> = new Map<Code | undefined, ReplayResult>([
  [undefined, 'accepted'],
  ['REPLAY_DETECTED', 'replayed'],
  ['INVOCATION_STALE', 'stale'],
]);

async function use(
  { iss, jti, iat }: Pick<InvocationClaims, 'iss' | 'jti' | 'iat'>,
  store: ReplayStore,
  now: number,
  { scope, windowSecs, clockSkewSecs }: ReplayRules,
): Promise<Failure | null> {
  const leeway = Math.max(clockSkewSecs, MIN_LEEWAY_SECS);
  if (iat < now - windowSecs || iat > now + leeway) {
    const [from, until] = [showTime(now - windowSecs), showTime(now + leeway)];
    const expected = `from ${from} to ${until}, ${windowSecs} s before now to ${leeway} s after`;
    return new Failure('INVOCATION_STALE', { subject: 'invocation', time: iat, expected });
  }
  try {
    // An invocation that was issued `leeway` in the future stays fresh for window + leeway, and must be recorded as long.
    const isNew = await store.record(replayKey(scope, iss, jti), now, windowSecs + leeway + 1);
    return isNew ? null : replayed(jti);
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

const MAX_PLAIN_LENGTH = 200;

/**
 * The key of an invocation in a replay store: different for any two of scope, issuer and `jti`, however they are chosen,
 * and of bounded length, since a caller chooses the `jti`.
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
