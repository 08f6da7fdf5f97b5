import { readInvocationClaims, readReceiptClaims, type ClaimDefect } from '../protocol/claims.js';
import { digestOf, parseCompactJwt } from '../protocol/jwt.js';
import { equalsByJcs, isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { findPolicyTypeDefect, isCount } from '../protocol/policy.js';
import { findPolicyEscalation } from '../verify/attenuation.js';
import { show } from '../verify/codes.js';

/** The content of a bundle: decoded and compared, but not verified. */
export interface AuditReport {
  /** Always false: an audit is offline and checks no signature, no time and no revocation. */
  readonly signatures_verified: false;
  readonly bundle_version?: JsonValue;
  readonly receipts: readonly ReceiptReport[];
  /** Absent if only a chain was given. */
  readonly invocation?: InvocationReport;
}

/** One receipt. If it is malformed, `claims` has what could be read. */
export interface ReceiptReport {
  /** Digest of the JWT text; `null` if the entry is not a string. */
  readonly digest: string | null;
  readonly malformed?: string;
  readonly claims?: JsonObject;
  /** Whether `prev_dr_hash` is the digest of the receipt above (in the root: whether it is null). */
  readonly linked?: boolean;
  /** Whether a receipt above allows fewer delegations (`max_delegations`). A verifier refuses that. */
  readonly delegated_too_often?: true;
  /** Differences from the receipt above; absent for the root, or if one of the two policies cannot be read. */
  readonly policy_changes?: readonly PolicyChange[];
}

/** How a policy member changes from one level to the next. A verifier refuses `wider`. */
export interface PolicyChange {
  readonly member: string;
  readonly change: 'unchanged' | 'narrowed' | 'added' | 'left out' | 'wider';
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** The invocation. If it is malformed, `claims` has what could be read. */
export interface InvocationReport {
  readonly malformed?: string;
  readonly claims?: JsonObject;
  /** Whether `dr_chain` lists the digests of the receipts, root first. */
  readonly chain_matches?: boolean;
}

/**
 * Reports the content of a bundle. Never throws: unreadable parts are reported as malformed.
 *
 * @param bundle the value in a bundle file, or `{ receipts }` alone
 */
export function auditBundle(bundle: unknown): AuditReport {
  const { bundle_version, receipts, invocation } = isJsonObject(bundle) ? bundle : {};
  const reports: ReceiptReport[] = [];
  const entries = Array.isArray(receipts) ? receipts : receipts === undefined ? [] : [receipts];
  // The place of the last receipt that those above it allow.
  let last = Infinity;
  for (const [at, entry] of entries.entries()) {
    const report = auditReceipt(entry, reports);
    reports.push(at > last ? { ...report, delegated_too_often: true } : report);
    last = Math.min(last, at + maxDelegations(report));
  }
  return {
    signatures_verified: false,
    // Shortened unless it is a short string: a value that nests too deep could not be serialized in the report.
    ...(bundle_version !== undefined && {
      bundle_version: isScalar(bundle_version) ? bundle_version : show(bundle_version),
    }),
    receipts: reports,
    ...(invocation !== undefined && { invocation: auditInvocation(invocation, reports) }),
  };
}

function isScalar(value: JsonValue): boolean {
  return typeof value !== 'object' || value === null;
}

function auditReceipt(entry: JsonValue, above: readonly ReceiptReport[]): ReceiptReport {
  const { claims, malformed } = readClaims(entry);
  const digest = typeof entry === 'string' ? digestOf(entry) : null;
  if (claims === undefined) return { digest, ...(malformed !== undefined && { malformed }) };
  const [root] = above;
  const parent = above.at(-1);
  const { defect } = readReceiptClaims(claims, {
    isRoot: parent === undefined,
    underHumanRoot: root?.claims?.['drs_root_type'] === 'human',
  });
  const previous = claims['prev_dr_hash'] ?? null;
  const changes = parent === undefined ? null : comparePolicies(parent.claims?.['policy'], claims['policy']);
  return {
    digest,
    ...(defect && { malformed: describeDefect(defect) }),
    claims,
    linked: previous === (parent?.digest ?? null),
    ...(changes && { policy_changes: changes }),
  };
}

function maxDelegations({ claims }: ReceiptReport): number {
  const policy = claims?.['policy'];
  const limit = isJsonObject(policy) ? policy['max_delegations'] : null;
  return isCount(limit) ? limit : Infinity;
}

function auditInvocation(entry: JsonValue, receipts: readonly ReceiptReport[]): InvocationReport {
  const { claims, malformed } = readClaims(entry);
  if (claims === undefined) return { ...(malformed !== undefined && { malformed }) };
  const { defect } = readInvocationClaims(claims);
  return {
    ...(defect && { malformed: describeDefect(defect) }),
    claims,
    chain_matches: equalsByJcs(
      claims['dr_chain'] ?? null,
      receipts.map(({ digest }) => digest),
    ),
  };
}

function readClaims(entry: JsonValue): { claims?: JsonObject; malformed?: string } {
  if (typeof entry !== 'string') return { malformed: `it is ${show(entry)}, expected a compact JWT` };
  // No limit: an audit also shows bundles that a verifier refuses for their size.
  const parts = parseCompactJwt(entry, Infinity);
  return parts.defect === undefined ? { claims: parts.payload } : { malformed: parts.defect };
}

function describeDefect({ claim, found, expected }: ClaimDefect): string {
  return `${claim} is ${show(found)}, expected ${expected}`;
}

function comparePolicies(parent: JsonValue | undefined, child: JsonValue | undefined): PolicyChange[] | null {
  if (!isReadablePolicy(parent) || !isReadablePolicy(child)) return null;
  const members = new Set([...Object.keys(parent), ...Object.keys(child)]);
  return [...members].map((member) => {
    const from = ownMember(parent, member);
    const to = ownMember(child, member);
    return {
      member,
      change: changeOf(member, from, to),
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
    };
  });
}

function changeOf(
  member: string,
  from: JsonValue | undefined,
  to: JsonValue | undefined,
): PolicyChange['change'] {
  if (findPolicyEscalation(policyOf(member, from), policyOf(member, to)) !== null) return 'wider';
  if (from === undefined) return 'added';
  if (to === undefined) return 'left out';
  return equalsByJcs(from, to) ? 'unchanged' : 'narrowed';
}

// Object.fromEntries makes `__proto__` an ordinary member, as it is in a policy.
function policyOf(member: string, value: JsonValue | undefined): JsonObject {
  return value === undefined ? {} : Object.fromEntries([[member, value]]);
}

function ownMember(policy: JsonObject, member: string): JsonValue | undefined {
  return Object.hasOwn(policy, member) ? policy[member] : undefined;
}

function isReadablePolicy(policy: JsonValue | undefined): policy is JsonObject {
  return isJsonObject(policy) && findPolicyTypeDefect(policy) === null;
}
