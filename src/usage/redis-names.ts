import { createHash } from 'node:crypto';

/**
 * The version of the names below. Whoever changes what a name looks like, or what a key of `replayKey` stands for,
 * raises it and makes the name of today the {@link previousNameOf}: otherwise an upgrade accepts every replay.
 */
const VERSION = 2;

const DIGEST_BYTES = 16;

/** The name of an invocation in Redis. Its length is fixed, and a caller cannot choose its node in a cluster. */
export function nameOf(prefix: string, key: string): string {
  return `${prefix}${VERSION}:${digestOf(key)}`;
}

/** The name that the version before gave. Written, too, while instances of that version may run. */
export function previousNameOf(prefix: string, key: string): string {
  return prefix + digestOf(key);
}

/**
 * Names of still older versions. They are only looked at: a caller could choose their node in a cluster, and the oldest
 * one lacks the scope, so it would refuse calls that pass two places.
 */
export function olderNamesOf(prefix: string, key: string): string[] {
  const scope = /^(\d+):/.exec(key);
  const unscoped = scope === null ? key : key.slice(scope[0].length + Number(scope[1]));
  return [prefix + key, prefix + unscoped];
}

/**
 * A digest takes less memory than the key. It also keeps callers, who choose the `jti`, from choosing the node of a
 * cluster with `{…}` in the key. If two invocations had the same digest, one would be refused as a replay. With 128
 * bits, nobody can make one that has the digest of another.
 */
function digestOf(key: string): string {
  return createHash('sha256').update(key).digest().toString('base64url', 0, DIGEST_BYTES);
}

/**
 * The version of the names of what belongs to a limited chain. An invocation under limited receipts has such a name instead
 * of {@link nameOf}: on a cluster, a script reaches the keys of one slot only, and `{…}` says which.
 */
const LIMITED_VERSION = 3;

/** The names of a limited chain. */
export interface LimitedNames {
  /** Of an invocation. */
  use(key: string): string;
  /** Of the counter of a receipt. */
  counter(receipt: string): string;
}

/** @param first the digest of the first limited receipt of the chain, so that the nodes of a cluster share the chains */
export function limitedNamesOf(prefix: string, first: string): LimitedNames {
  const begin = `${prefix}${LIMITED_VERSION}:{${digestOf(first)}}`;
  return {
    use: (key) => `${begin}:${digestOf(key)}`,
    counter: (receipt) => begin + counterEndOf(receipt),
  };
}

/** What matches the names of the counter of a receipt, in whatever chain it is. */
export function counterPatternOf(prefix: string, receipt: string): string {
  return `${prefix.replaceAll(/[*?[\]\\^-]/g, '\\$&')}${LIMITED_VERSION}:{*}${counterEndOf(receipt)}`;
}

/** The whole digest: somebody may look for a receipt by it. */
function counterEndOf(receipt: string): string {
  return `#${receipt.slice('sha256:'.length)}`;
}
