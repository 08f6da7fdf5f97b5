import { createHash } from 'node:crypto';

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
  return `sha256:${createHash('sha256').update(plain).digest('hex')}`;
}
