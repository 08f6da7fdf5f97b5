import {
  DRS_VERSION,
  readInvocationClaims,
  readReceiptClaims,
  type ClaimDefect,
} from '../../protocol/claims.js';
import { parseCompactJwt } from '../../protocol/jwt.js';
import { isJsonObject } from '../../protocol/json.js';
import { Failure, show, type Code, type Subject } from '../codes.js';
import type { ReceiptMemory } from '../parts.js';
import { Receipt, type Chain, type Invocation } from '../receipt.js';

// Fewer than for other texts: a receipt has little besides its policy, and a bundle may have many receipts.
const MAX_RECEIPT_NODES = 2_048;

/** A bundle of the right structure. `receipts` is not empty. */
export interface Structure {
  readonly receipts: readonly Receipt[];
  /** The same receipts, if they are a known chain: then only the call is left to check. */
  readonly chain: Chain | null;
  readonly invocation: Invocation;
}

/** What is checked: a structure, or receipts without an invocation. */
export type Signed = Pick<Structure, 'receipts' | 'chain'> & { readonly invocation: Invocation | null };

/** Block A: the bundle holds receipts and an invocation, each a JWT with the claims of its place. */
export function checkStructure(
  bundle: unknown,
  maxDepth: number,
  cache: ReceiptMemory | null,
): Structure | Failure {
  let parts;
  try {
    parts = readBundle(bundle, maxDepth);
  } catch {
    // A value that no parser has made may throw when it is read. That is a defect of the bundle, like any other.
    parts = failure('MALFORMED_BUNDLE', 'the document', 'unreadable', 'a JSON object');
  }
  if (parts instanceof Failure) return parts;
  const chain = cache?.getChain(parts.receipts) ?? null;
  const receipts = chain?.receipts ?? readReceipts(parts.receipts, cache);
  if (receipts instanceof Failure) return receipts;
  const invocation = readInvocation(parts.invocation);
  if (invocation instanceof Failure) return invocation;
  return { receipts, chain, invocation };
}

/** The strings of a bundle: at least one receipt, and a non-empty invocation. */
function readBundle(bundle: unknown, maxDepth: number) {
  if (!isJsonObject(bundle)) return failure('MALFORMED_BUNDLE', 'the document', bundle, 'a JSON object');
  const version = own(bundle, 'bundle_version');
  const found = own(bundle, 'receipts');
  const receipts = found === undefined ? [] : textsOf(found, maxDepth);
  const invocation = own(bundle, 'invocation');
  const expectedVersion = JSON.stringify(DRS_VERSION);
  if (typeof version !== 'string')
    return failure('MALFORMED_BUNDLE', 'bundle_version', version, `the string ${expectedVersion}`);
  if (receipts === null) return failure('MALFORMED_BUNDLE', 'receipts', found, 'an array of JWT strings');
  if (invocation !== undefined && typeof invocation !== 'string')
    return failure('MALFORMED_BUNDLE', 'invocation', invocation, 'a JWT string');
  if (version !== DRS_VERSION) return failure('VERSION_MISMATCH', 'bundle_version', version, expectedVersion);
  if (receipts.length === 0)
    return failure('EMPTY_CHAIN', 'receipts', found, 'at least one delegation receipt');
  const { length } = found as readonly unknown[];
  if (length > maxDepth) return failure('CHAIN_TOO_DEEP', 'receipts', length, `at most ${maxDepth}`);
  if (invocation === undefined || invocation === '')
    return failure('MISSING_INVOCATION', 'invocation', invocation, 'an invocation receipt (a JWT)');
  return { receipts, invocation };
}

function failure(code: Code, member: string, claimed: unknown, expected: string): Failure {
  return new Failure(code, { subject: 'bundle', member, claimed, expected });
}

function own(bundle: object, member: 'bundle_version' | 'receipts' | 'invocation'): unknown {
  return Object.hasOwn(bundle, member) ? (bundle as Record<string, unknown>)[member] : undefined;
}

/** The first texts of a list, each read once: a value in this process can have any length. `null` if one is no text. */
function textsOf(list: unknown, limit: number): string[] | null {
  if (!Array.isArray(list)) return null;
  const texts: string[] = [];
  for (let at = 0; at < Math.min(list.length, limit); at++) {
    const text: unknown = list[at];
    if (typeof text !== 'string') return null;
    texts.push(text);
  }
  return texts;
}

/** The receipts of a chain, root first, each with the claims of its place. */
export function readReceipts(jwts: readonly string[], cache: ReceiptMemory | null): Receipt[] | Failure {
  const receipts: Receipt[] = [];
  for (const jwt of jwts) {
    const [root] = receipts;
    const isRoot = root === undefined;
    const underHumanRoot = root?.claims.drs_root_type === 'human';
    const known = cache?.getReceipt(jwt);
    // A root and a child are read by different rules: a receipt that was cached at another place is read again.
    if (known?.isRoot === isRoot && !(underHumanRoot && known.claims.exp === null)) {
      receipts.push(known);
      continue;
    }
    const subject = receipts.length;
    const parts = parseCompactJwt(jwt, MAX_RECEIPT_NODES);
    if (parts.defect !== undefined)
      return new Failure('MALFORMED_RECEIPT', { subject, reason: parts.defect });
    const { claims, limits, defect } = readReceiptClaims(parts.payload, isRoot, underHumanRoot);
    if (defect) return claimFailure(subject, defect);
    receipts.push(new Receipt(jwt, parts, claims, limits, isRoot));
  }
  return receipts;
}

export function readInvocation(jwt: string): Invocation | Failure {
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined)
    return new Failure('MALFORMED_INVOCATION', { subject: 'invocation', reason: parts.defect });
  const { claims, defect } = readInvocationClaims(parts.payload);
  if (defect) return claimFailure('invocation', defect);
  const { algorithm, kid, signature, signingInputLength } = parts;
  return { jwt, claims, algorithm, kid, signature, signingInputLength };
}

const CODE_OF_DEFECT = {
  type: 'WRONG_TYPE',
  version: 'VERSION_MISMATCH',
  jti: 'INVALID_JTI',
  consent: 'MISSING_CONSENT',
  'consent form': 'INVALID_CONSENT',
} as const satisfies Record<Exclude<ClaimDefect['kind'], 'claim'>, Code>;

function claimFailure(
  subject: Subject,
  { kind, claim: member, found: claimed, expected }: ClaimDefect,
): Failure {
  if (kind !== 'claim') return new Failure(CODE_OF_DEFECT[kind], { subject, member, claimed, expected });
  const code = subject === 'invocation' ? 'MALFORMED_INVOCATION' : 'MALFORMED_RECEIPT';
  const reason = `${member} is ${show(claimed)}, expected ${expected}`;
  return new Failure(code, { subject, member, reason });
}

/** Block B: each receipt names the one before it, by key and by hash; the last delegate invokes, and names every receipt. */
export function checkLinkage({ receipts, chain, invocation }: Signed): Failure | null {
  // What the cache knows of a chain is not checked again.
  const unlinked = chain === null ? checkReceiptLinkage(receipts) : null;
  if (unlinked !== null || invocation === null) return unlinked;
  const subject = 'invocation';
  const { aud } = (receipts.at(-1) as Receipt).claims;
  const { iss, dr_chain } = invocation.claims;
  if (iss !== aud) return new Failure('INVOKER_MISMATCH', { subject, claimed: iss, expected: show(aud) });
  if (dr_chain.length !== receipts.length) {
    const [member, claimed] = ['the length of dr_chain', dr_chain.length];
    const expected = `${receipts.length}, one hash for each receipt`;
    return new Failure('CHAIN_REFERENCE_MISMATCH', { subject, member, claimed, expected });
  }
  for (let at = 0; at < receipts.length; at++) {
    const { digest } = receipts[at] as Receipt;
    if (dr_chain[at] === digest) continue;
    const [member, claimed] = [`dr_chain[${at}]`, dr_chain[at]];
    const expected = `"${digest}", the hash of receipt ${at}`;
    return new Failure('CHAIN_REFERENCE_MISMATCH', { subject, member, claimed, expected });
  }
  return null;
}

function checkReceiptLinkage(receipts: readonly Receipt[]): Failure | null {
  for (let subject = 0; subject < receipts.length; subject++) {
    const { iss, prev_dr_hash: claimed } = (receipts[subject] as Receipt).claims;
    const parent = receipts[subject - 1];
    if (parent === undefined) {
      if (claimed === null) continue;
      return new Failure('CHAIN_BREAK', { subject, claimed, expected: 'null in the root' });
    }
    if (claimed !== parent.digest) {
      const expected = `"${parent.digest}", the hash of receipt ${subject - 1}`;
      return new Failure('CHAIN_BREAK', { subject, claimed, expected });
    }
    if (iss !== parent.claims.aud)
      return new Failure('ISSUER_MISMATCH', { subject, claimed: iss, expected: show(parent.claims.aud) });
  }
  return null;
}
