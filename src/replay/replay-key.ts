import { createHash } from 'node:crypto';

const LONGEST_PLAIN = 200;

/**
 * The key of an invocation in a replay store: different for any two triples, however their parts are chosen, and of
 * bounded length, since a caller chooses the `jti`.
 *
 * @param scope names the place that consumes the invocation
 * @example replayKey('did:key:z6Mk…', 'inv:1', 'http'); // '4:http13:did:key:z6Mk…inv:1'
 */
export function replayKey(iss: string, jti: string, scope: string): string {
  const plain = `${scope.length}:${scope}${iss.length}:${iss}${jti}`;
  if (plain.length <= LONGEST_PLAIN) return plain;
  // A plain key starts with a digit, so none can be taken for a digest.
  return `sha256:${createHash('sha256').update(plain).digest('hex')}`;
}
