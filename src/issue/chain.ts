import sodium from 'sodium-native';
import {
  readReceiptClaims,
  type ClaimDefect,
  type ReceiptClaims,
  type ReceiptPlace,
} from '../protocol/claims.js';
import { publicKeyOf } from '../protocol/did-key.js';
import { digestOf } from '../protocol/digest.js';
import { parseCompactJwt, type CompactJwt } from '../protocol/jwt.js';
import { findEscalation } from '../verify/attenuation.js';
import { coversCommand } from '../verify/blocks/d-policy.js';
import { show, type Code } from '../verify/codes.js';
import { refusal, type IssueError } from './issue-error.js';

/** As many receipts as a verifier accepts by default (`MAX_CHAIN_DEPTH`). */
export const DEFAULT_MAX_CHAIN_DEPTH = 16;

/** A receipt of a chain, decoded as a verifier would. */
export interface Link {
  readonly jwt: string;
  readonly digest: string;
  readonly claims: ReceiptClaims;
  readonly parts: CompactJwt;
}

/**
 * Decodes a chain, root first, and checks the shape of each receipt (block A). Nothing between two receipts is
 * checked, and no signature.
 */
export function readChain(receipts: readonly string[]): [Link, ...Link[]] {
  const [root, ...rest] = receipts;
  if (root === undefined) {
    throw refusal('EMPTY_CHAIN', {
      subject: 'bundle',
      member: 'receipts',
      claimed: receipts,
      expected: 'at least a root receipt',
    });
  }
  const first = readLink(root, 0, { isRoot: true, underHumanRoot: false });
  const place = { isRoot: false, underHumanRoot: isHuman(first.claims) };
  return [first, ...rest.map((jwt, at) => readLink(jwt, at + 1, place))];
}

/** Refuses a chain of more receipts than a verifier accepts. */
export function requireDepth(depth: number, maxDepth: number): void {
  if (depth <= maxDepth) return;
  throw refusal('CHAIN_TOO_DEEP', {
    subject: 'bundle',
    member: 'receipts',
    claimed: depth,
    expected: `at most ${maxDepth}`,
  });
}

/** Whether a person stands at the root, so that every receipt below must expire. */
export function isHuman(root: ReceiptClaims): boolean {
  return root.drs_root_type === 'human';
}

/** Decodes one receipt and checks its shape. */
export function readLink(jwt: string, at: number, place: ReceiptPlace): Link {
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined) {
    throw refusal('MALFORMED_RECEIPT', { subject: at, reason: parts.defect });
  }
  const { claims, defect } = readReceiptClaims(parts.payload, place);
  if (defect) throw claimRefusal(at, defect);
  return { jwt, digest: digestOf(jwt), claims, parts };
}

/** Checks all that a verifier would check of a chain before a call: blocks B to E at `now` (Unix seconds). */
export function requireValidChain(chain: readonly [Link, ...Link[]], now: number): void {
  const [root, ...rest] = chain;
  if ((root.claims.prev_dr_hash ?? null) !== null) {
    throw refusal('CHAIN_BREAK', {
      subject: 0,
      claimed: root.claims.prev_dr_hash,
      expected: 'null in the root',
    });
  }
  if (root.claims.sub !== root.claims.iss) throw subjectRefusal(0, root.claims, root.claims.iss);
  let parent = root;
  rest.forEach((child, index) => {
    requireLinkage(parent, child, index + 1);
    requireNarrowing(parent.claims, child.claims, index + 1);
    parent = child;
  });
  chain.forEach((link, at) => {
    requireSignature(link, at);
    requireUnexpired(link.claims, at, now);
  });
}

/** Blocks B and D between two neighbours, but for the policy: who issued the child, under what, for which command. */
export function requireLinkage(parent: Link, child: Link, at: number): void {
  if (child.claims.prev_dr_hash !== parent.digest) {
    throw refusal('CHAIN_BREAK', {
      subject: at,
      claimed: child.claims.prev_dr_hash,
      expected: parent.digest,
    });
  }
  if (child.claims.iss !== parent.claims.aud) {
    throw refusal('ISSUER_MISMATCH', {
      subject: at,
      claimed: child.claims.iss,
      expected: show(parent.claims.aud),
    });
  }
  if (child.claims.sub !== parent.claims.sub) throw subjectRefusal(at, child.claims, parent.claims.sub);
}

/** Blocks D and E between two neighbours: command, policy and window of the child stay within the parent's. */
export function requireNarrowing(parent: ReceiptClaims, child: ReceiptClaims, at: number): void {
  if (!coversCommand(parent.cmd, child.cmd)) {
    throw refusal('COMMAND_MISMATCH', { subject: at, claimed: child.cmd, expected: show(parent.cmd) });
  }
  const escalation = findEscalation(parent.policy, child.policy);
  if (escalation) {
    const { member, claimed, allowed } = escalation;
    throw refusal('POLICY_ESCALATION', { subject: at, member, claimed, expected: show(allowed) });
  }
  if (child.nbf < parent.nbf) {
    throw windowRefusal(at, 'nbf', child.nbf, `at least ${parent.nbf}`);
  }
  if (typeof parent.exp === 'number' && (typeof child.exp !== 'number' || child.exp > parent.exp)) {
    throw windowRefusal(at, 'exp', child.exp, `at most ${parent.exp}`);
  }
}

/** The window is not empty, and has not ended. It may begin later. */
export function requireUnexpired({ nbf, exp }: ReceiptClaims, at: number, now: number): void {
  if (typeof exp !== 'number') return;
  if (exp < nbf) throw windowRefusal(at, 'exp', exp, `at least its own nbf ${nbf}`);
  if (exp < now)
    throw refusal('EXPIRED', { subject: at, claimed: exp, expected: `at least ${now}, the time of issuing` });
}

/** A delegate that no signature can ever be checked against could neither delegate nor invoke. */
export function requireResolvable(did: string, subject: number): Uint8Array {
  const key = publicKeyOf(did);
  if (key !== null) return key;
  throw refusal('UNRESOLVABLE_DID', { subject, claimed: did, expected: 'the did:key of an Ed25519 key' });
}

/** Whether a JWT's signature verifies under a key, as a verifier checks it. RFC 8032 §5.1.7 */
export function isSignedBy(
  publicKey: Uint8Array,
  signed: { readonly jwt: string; readonly signingInputLength: number; readonly signature: Buffer },
): boolean {
  // sodium-native itself accepts a signature with bytes appended.
  if (signed.signature.length !== sodium.crypto_sign_BYTES) return false;
  const message = Buffer.from(signed.jwt.slice(0, signed.signingInputLength), 'latin1');
  return sodium.crypto_sign_verify_detached(signed.signature, message, Buffer.from(publicKey));
}

function requireSignature({ jwt, claims, parts }: Link, at: number): void {
  if (parts.algorithm !== 'EdDSA' && parts.algorithm !== 'Ed25519') {
    throw refusal('UNSUPPORTED_ALGORITHM', {
      subject: at,
      claimed: parts.algorithm,
      expected: '"EdDSA" or "Ed25519"',
    });
  }
  if (isSignedBy(requireResolvable(claims.iss, at), { jwt, ...parts })) return;
  throw refusal('INVALID_SIGNATURE', {
    subject: at,
    claimed: parts.signature.toString('base64url'),
    expected: `one by ${show(claims.iss)}`,
  });
}

function subjectRefusal(at: number, { sub }: ReceiptClaims, expected: string): IssueError {
  return refusal('SUBJECT_MISMATCH', { subject: at, claimed: sub, expected: show(expected) });
}

function windowRefusal(at: number, member: 'nbf' | 'exp', claimed: unknown, expected: string): IssueError {
  return refusal('TEMPORAL_BOUNDS_VIOLATION', { subject: at, member, claimed, expected });
}

const CODE_OF_DEFECT = {
  type: 'WRONG_TYPE',
  version: 'VERSION_MISMATCH',
  jti: 'INVALID_JTI',
  consent: 'MISSING_CONSENT',
} as const satisfies Record<Exclude<ClaimDefect['kind'], 'claim'>, Code>;

function claimRefusal(subject: number, { kind, claim, found, expected }: ClaimDefect): IssueError {
  if (kind !== 'claim') {
    return refusal(CODE_OF_DEFECT[kind], { subject, member: claim, claimed: found, expected });
  }
  return refusal('MALFORMED_RECEIPT', {
    subject,
    reason: `${claim} is ${show(found)}, expected ${expected}`,
  });
}
