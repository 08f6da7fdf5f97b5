import {
  DRS_VERSION,
  readInvocationClaims,
  readReceiptClaims,
  type ClaimDefect,
  type ReceiptPlace,
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

/** Block A: the bundle holds receipts and an invocation, each a JWT with the claims of its place. */
export function checkStructure(bundle: unknown, maxDepth: number, cache: ReceiptMemory): Structure | Failure {
  const parts = readBundle(bundle, maxDepth);
  if (parts instanceof Failure) return parts;
  const chain = cache.getChain(parts.receipts);
  const receipts = chain?.receipts ?? readReceipts(parts.receipts, cache);
  if (receipts instanceof Failure) return receipts;
  const invocation = readInvocation(parts.invocation);
  if (invocation instanceof Failure) return invocation;
  return { receipts, chain, invocation };
}

/** The strings of a bundle: at least one receipt, and a non-empty invocation. */
interface BundleParts {
  readonly receipts: readonly string[];
  readonly invocation: string;
}

/** A value that no parser has made may throw when it is read. That is a defect of the bundle, like any other. */
function readBundle(bundle: unknown, maxDepth: number): BundleParts | Failure {
  try {
    return readMembers(bundle, maxDepth);
  } catch {
    return malformed('the document', 'unreadable', 'a JSON object');
  }
}

function readMembers(bundle: unknown, maxDepth: number): BundleParts | Failure {
  if (!isJsonObject(bundle)) return malformed('the document', bundle, 'a JSON object');
  const version = own(bundle, 'bundle_version');
  const found = own(bundle, 'receipts');
  const receipts = found === undefined ? [] : textsOf(found, maxDepth);
  const invocation = own(bundle, 'invocation');
  if (typeof version !== 'string') return malformed('bundle_version', version, `the string "${DRS_VERSION}"`);
  if (receipts === null) return malformed('receipts', found, 'an array of JWT strings');
  if (invocation !== undefined && typeof invocation !== 'string') {
    return malformed('invocation', invocation, 'a JWT string');
  }
  const fail = (code: Code, member: string, claimed: unknown, expected: string) =>
    new Failure(code, { subject: 'bundle', member, claimed, expected });
  if (version !== DRS_VERSION) {
    return fail('VERSION_MISMATCH', 'bundle_version', version, JSON.stringify(DRS_VERSION));
  }
  if (receipts.length === 0) {
    return fail('EMPTY_CHAIN', 'receipts', found, 'at least one delegation receipt');
  }
  const { length } = found as readonly unknown[];
  if (length > maxDepth) return fail('CHAIN_TOO_DEEP', 'receipts', length, `at most ${maxDepth}`);
  if (invocation === undefined || invocation === '') {
    const expected = 'an invocation receipt (a JWT)';
    const details = { subject: 'bundle', member: 'invocation', claimed: invocation, expected } as const;
    return new Failure('MISSING_INVOCATION', details);
  }
  return { receipts, invocation };
}

/** The receipts of a chain, root first, each with the claims of its place. */
export function readReceipts(jwts: readonly string[], cache: ReceiptMemory): Receipt[] | Failure {
  const receipts: Receipt[] = [];
  for (const jwt of jwts) {
    const root = receipts[0];
    const place = { isRoot: root === undefined, underHumanRoot: root?.claims.drs_root_type === 'human' };
    const receipt = readReceipt(jwt, receipts.length, place, cache);
    if (receipt instanceof Failure) return receipt;
    receipts.push(receipt);
  }
  return receipts;
}

function readReceipt(
  jwt: string,
  index: number,
  place: ReceiptPlace,
  cache: ReceiptMemory,
): Receipt | Failure {
  const known = cache.getReceipt(jwt);
  // A root and a child are read by different rules: a receipt that was cached at another place is read again.
  if (known?.isRoot === place.isRoot && !(place.underHumanRoot && known.claims.exp === null)) return known;
  const parts = parseCompactJwt(jwt, MAX_RECEIPT_NODES);
  if (parts.defect !== undefined) {
    return new Failure('MALFORMED_RECEIPT', { subject: index, reason: parts.defect });
  }
  const { claims, limits, defect } = readReceiptClaims(parts.payload, place);
  return defect ? claimFailure(index, defect) : new Receipt(jwt, parts, claims, limits, place.isRoot);
}

/** The invocation receipt. */
export function readInvocation(jwt: string): Invocation | Failure {
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined) {
    return new Failure('MALFORMED_INVOCATION', { subject: 'invocation', reason: parts.defect });
  }
  const { claims, defect } = readInvocationClaims(parts.payload);
  if (defect) return claimFailure('invocation', defect);
  const { algorithm, signature, signingInputLength } = parts;
  return { jwt, claims, algorithm, signature, signingInputLength };
}

const CODE_OF_DEFECT = {
  type: 'WRONG_TYPE',
  version: 'VERSION_MISMATCH',
  jti: 'INVALID_JTI',
  consent: 'MISSING_CONSENT',
  'consent form': 'INVALID_CONSENT',
} as const satisfies Record<Exclude<ClaimDefect['kind'], 'claim'>, Code>;

function claimFailure(subject: Subject, { kind, claim, found, expected }: ClaimDefect): Failure {
  if (kind !== 'claim') {
    return new Failure(CODE_OF_DEFECT[kind], { subject, member: claim, claimed: found, expected });
  }
  const code = subject === 'invocation' ? 'MALFORMED_INVOCATION' : 'MALFORMED_RECEIPT';
  return new Failure(code, {
    subject,
    member: claim,
    reason: `${claim} is ${show(found)}, expected ${expected}`,
  });
}

function malformed(member: string, claimed: unknown, expected: string): Failure {
  return new Failure('MALFORMED_BUNDLE', { subject: 'bundle', member, claimed, expected });
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

/** Block B for the call: it is invoked by the last delegate, and names every receipt. */
export function checkCallLinkage({
  receipts,
  invocation,
}: Pick<Structure, 'receipts' | 'invocation'>): Failure | null {
  const leaf = receipts.at(-1) as Receipt;
  const { iss, dr_chain } = invocation.claims;
  if (iss !== leaf.claims.aud) {
    return new Failure('INVOKER_MISMATCH', {
      subject: 'invocation',
      claimed: iss,
      expected: show(leaf.claims.aud),
    });
  }
  if (dr_chain.length !== receipts.length) {
    return new Failure('CHAIN_REFERENCE_MISMATCH', {
      subject: 'invocation',
      member: 'the length of dr_chain',
      claimed: dr_chain.length,
      expected: `${receipts.length}, one hash for each receipt`,
    });
  }
  for (let at = 0; at < receipts.length; at++) {
    const { digest } = receipts[at] as Receipt;
    if (dr_chain[at] === digest) continue;
    return new Failure('CHAIN_REFERENCE_MISMATCH', {
      subject: 'invocation',
      member: `dr_chain[${at}]`,
      claimed: dr_chain[at],
      expected: `"${digest}", the hash of receipt ${at}`,
    });
  }
  return null;
}

/** Block B for receipts: each names the one before it, by key and by hash. */
export function checkReceiptLinkage(receipts: readonly Receipt[]): Failure | null {
  let parent: Receipt | null = null;
  for (let subject = 0; subject < receipts.length; subject++) {
    const receipt = receipts[subject] as Receipt;
    const { iss, prev_dr_hash: claimed } = receipt.claims;
    if (parent === null) {
      if (claimed !== null)
        return new Failure('CHAIN_BREAK', { subject, claimed, expected: 'null in the root' });
    } else {
      if (claimed !== parent.digest) {
        const expected = `"${parent.digest}", the hash of receipt ${subject - 1}`;
        return new Failure('CHAIN_BREAK', { subject, claimed, expected });
      }
      if (iss !== parent.claims.aud) {
        const expected = show(parent.claims.aud);
        return new Failure('ISSUER_MISMATCH', { subject, claimed: iss, expected });
      }
    }
    parent = receipt;
  }
  return null;
}
