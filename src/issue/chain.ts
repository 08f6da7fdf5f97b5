import { verifyAll } from '#ed25519';
import { documentUrlOf } from '../protocol/did-web.js';
import { DEFAULT_KEYS, type KeyResolver } from '../protocol/key-resolver.js';
import { Failure } from '../verify/codes.js';
import { openClaims, proveClaims, readReceipts } from '../verify/judge.js';
import type { Rules } from '../verify/parts.js';
import type { Invocation, Receipt } from '../verify/receipt.js';
import { asIssueError, refusal } from './issue-error.js';

/** The receipts of a chain, root first. */
export type Receipts = readonly [Receipt, ...Receipt[]];

/**
 * Decodes a chain, root first, and checks the shape of each receipt (block A): nothing between two of them, and no signature.
 *
 * @param suggestion other than that of the verdict
 * @throws IssueError if there is no receipt, or one is malformed
 */
export function readChain(jwts: readonly string[], suggestion?: string): Receipts {
  const [root, ...rest] = orThrow(readReceipts(jwts, null), suggestion);
  if (root !== undefined) return [root, ...rest];
  const expected = 'at least a root receipt';
  throw refusal('EMPTY_CHAIN', { subject: 'bundle', member: 'receipts', claimed: jwts, expected });
}

/** Receipts whose signature verified here, since agents make many calls under one chain. `requireValid` alone writes it. */
const proved = new Set<string>();
const MAX_PROVED = 64;

/** The keys of a `did:web` are known to verifiers alone. Who issues takes what it signs for signed. */
const UNKNOWN_KEY = new Uint8Array();
const KEYS: KeyResolver = {
  ...DEFAULT_KEYS,
  keysOf: (did, kid) => (documentUrlOf(did) === null ? DEFAULT_KEYS.keysOf(did, kid) : [UNKNOWN_KEY]),
};

/** How a verifier takes what a call does not state. */
export type StatingRules = Pick<Rules, 'tools' | 'allowsUnstated'>;

/** The verifiers' default limit for the number of receipts (`MAX_CHAIN_DEPTH`). */
const MAX_CHAIN_DEPTH = 16;

/**
 * Checks a chain like a verifier: its length, and blocks B to E; not the signatures of a `did:web`.
 *
 * @param invocation under the chain, if there is one
 * @param now Unix seconds
 * @param signed the token that was just signed, by its `iss`
 * @param rules what is known of the tools of the verifiers
 */
export async function requireValid(
  receipts: Receipts,
  invocation: Invocation | null,
  now: number,
  signed: string | null,
  rules?: StatingRules,
): Promise<void> {
  const { length } = receipts;
  if (length > MAX_CHAIN_DEPTH) {
    const expected = `at most ${MAX_CHAIN_DEPTH}`;
    throw refusal('CHAIN_TOO_DEEP', { subject: 'bundle', member: 'receipts', claimed: length, expected });
  }
  const plan = orThrow(openClaims({ receipts, chain: null, invocation }, KEYS));
  const known = plan.checks.map(
    ({ jwt, publicKey }) => publicKey === UNKNOWN_KEY || jwt === signed || proved.has(jwt),
  );
  const found = await verifyAll(plan.checks.filter((_, at) => !known[at]));
  for (const [at, { jwt }] of plan.checks.entries()) {
    if (known[at] === true) continue;
    known[at] = found.shift() === true;
    if (proved.size >= MAX_PROVED) proved.clear();
    if (known[at]) proved.add(jwt);
  }
  const failure = proveClaims({ receipts, chain: null, invocation }, plan, known, now, rules);
  if (failure !== null) throw asIssueError(failure);
}

export function orThrow<T extends object>(read: T | Failure, suggestion?: string): T {
  if (read instanceof Failure) throw asIssueError(read, suggestion);
  return read;
}
