import {
  readInvocationClaims,
  readReceiptClaims,
  type InvocationClaims,
  type ReceiptClaims,
  type ReceiptPlace,
} from '../protocol/claims.js';
import { isJsonObject, type JsonObject } from '../protocol/json.js';
import { digestOf, parseCompactJwt, type CompactJwt } from '../protocol/jwt.js';
import { readPolicy, type Policy } from '../protocol/policy.js';
import type { Binding } from '../verify/binding.js';
import {
  limitNamesOf,
  limitsOf,
  type CountedLimits,
  type LimitLeft,
  type ReachedLimit,
} from '../verify/limits.js';
import type { Root } from '../verify/root.js';

/** The facts about a verified call, besides the three members of a verdict's context. */
export interface CallContext {
  /** The DID of the last delegate, who signed the call: the invocation's `iss`. */
  readonly agent: string;
  /** The invocation's `cmd`. */
  readonly command: string;
  /** `args.tool`; `null` if the call names none. */
  readonly tool: string | null;
  /** The invocation's `jti`. */
  readonly invocation: string;
  /** The receipts' `jti`s, root first. */
  readonly receipts: readonly string[];
  /** The root's `drs_root_type`, such as `human`; `null` if it has none. */
  readonly root_type: string | null;
  /** The session id in the consent record; absent if there is none. */
  readonly session_id?: string;
  /** The earliest `exp` of the receipts, in Unix seconds; `null` if none of them expires. */
  readonly expires_at: number | null;
  /** What the operator calls the root principal, never what a bundle says; absent if it has no name. */
  readonly root_name?: string;
  /** What else the operator says of the root principal; absent if there is nothing. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** What the operator says of a root principal, as far as handlers get to know it. */
export type RootDescription = Pick<Root, 'name' | 'labels'>;

/** Everything that the handler gets to know about an allowed call. */
export interface GateContext extends CallContext {
  /** The DID of the root principal. */
  readonly root_principal: string;
  /** The number of delegation receipts. */
  readonly chain_depth: number;
  readonly leaf_policy: Policy;
  /** How the body compares with the signed arguments; absent if they were not compared. */
  readonly binding?: Binding;
  /** What is left of the chain's limits after this call; absent if there are none, or they are not counted. */
  readonly limits?: readonly LimitLeft[];
  /** The limits of the chain that are not counted, since invocations may be used again; absent if there are none. */
  readonly unenforced?: readonly ReachedLimit['member'][];
}

/** A context without the policy: reading that again takes longer than all the rest, and few need it. */
export type BriefContext = Omit<GateContext, 'leaf_policy'>;

/** The claims of a bundle. */
export interface BundleClaims {
  /** Root first. */
  readonly receipts: readonly [ReceiptClaims, ...ReceiptClaims[]];
  readonly limits: readonly CountedLimits[];
  readonly invocation: InvocationClaims;
}

/** The members of a receipt that the context of a call needs. */
export interface ContextReceipt {
  readonly jti: string;
  readonly exp?: number | null;
  readonly drs_root_type?: string | null;
  /** From the consent record. */
  readonly session_id?: string | null;
}

/**
 * Reads the context of a call from the claims of its verified chain.
 *
 * @param receipts at least one, root first
 * @param described what the operator says of the root
 * @example callContextOf(receipts, invocation, root).agent; // 'did:key:z6Mk…'
 */
export function callContextOf(
  receipts: readonly ContextReceipt[],
  invocation: Pick<InvocationClaims, 'iss' | 'cmd' | 'jti' | 'args'>,
  { name, labels }: RootDescription,
): CallContext {
  const { tool } = invocation.args;
  const root = receipts[0];
  const sessionId = root?.session_id ?? undefined;
  let expiresAt: number | null = null;
  for (const { exp } of receipts) {
    if (typeof exp === 'number') expiresAt = Math.min(exp, expiresAt ?? exp);
  }
  const context: CallContext & Optional = {
    agent: invocation.iss,
    command: invocation.cmd,
    tool: typeof tool === 'string' ? tool : null,
    invocation: invocation.jti,
    receipts: receipts.map(({ jti }) => jti),
    root_type: root?.drs_root_type ?? null,
    expires_at: expiresAt,
  };
  if (sessionId !== undefined) context.session_id = sessionId;
  if (name !== null) context.root_name = name;
  // A copy: receivers may change it, or freeze it.
  if (labels !== null) context.labels = { ...labels };
  return context;
}

interface Optional {
  session_id?: string;
  root_name?: string;
  labels?: Readonly<Record<string, string>>;
}

/**
 * The members of a context that tell of the chain's limits.
 *
 * @param left what is left of them; `null` if nobody counts
 */
export function countedOf(
  limits: readonly CountedLimits[],
  left: readonly LimitLeft[] | null,
): Pick<GateContext, 'limits' | 'unenforced'> {
  if (limits.length === 0) return {};
  return left === null ? { unenforced: limitNamesOf(limits) } : { limits: left };
}

/**
 * The limits that are to be counted for a call whose bundle a verifier has accepted.
 *
 * @param jwts the receipts of the bundle, and their claims
 */
function limitsOfBundle(jwts: readonly unknown[], claims: readonly ReceiptClaims[]): CountedLimits[] {
  const isLimited = ({ policy }: ReceiptClaims) =>
    typeof policy.max_calls === 'number' || typeof policy.max_total_cost_usd === 'number';
  if (!claims.some(isLimited)) return [];
  const receipts = claims.map(({ policy, exp }, level) => ({
    claims: { exp: exp ?? null },
    limits: readPolicy(policy as JsonObject).limits ?? [],
    digest: digestOf(jwts[level] as string),
  }));
  return limitsOf({ receipts });
}

/**
 * Reads the claims of a bundle that a verifier has accepted. The objects are new, so that no other call shares them.
 *
 * @throws Error if they cannot be read. Then the verifier has another version, or is not a verifier.
 */
export function readBundleClaims(bundle: unknown): BundleClaims {
  const { receipts, invocation } = isJsonObject(bundle) ? bundle : {};
  if (!Array.isArray(receipts)) throw unreadable('receipts');
  const [first, ...others] = receipts as readonly unknown[];
  const root = receiptOf(first, { isRoot: true, underHumanRoot: false });
  const place = { isRoot: false, underHumanRoot: root.drs_root_type === 'human' };
  const read = readInvocationClaims(partsOf(invocation, 'an invocation').payload);
  if (read.claims === undefined) throw unreadable('an invocation');
  const claims: BundleClaims['receipts'] = [root, ...others.map((jwt) => receiptOf(jwt, place))];
  return { receipts: claims, limits: limitsOfBundle(receipts, claims), invocation: read.claims };
}

function receiptOf(jwt: unknown, place: ReceiptPlace): ReceiptClaims {
  const read = readReceiptClaims(partsOf(jwt, 'a receipt').payload, place);
  if (read.claims === undefined) throw unreadable('a receipt');
  return read.claims;
}

function partsOf(jwt: unknown, what: string): CompactJwt {
  const parts = typeof jwt === 'string' ? parseCompactJwt(jwt) : null;
  if (parts === null || parts.defect !== undefined) throw unreadable(what);
  return parts;
}

function unreadable(what: string): Error {
  return new Error(`the verifier accepted ${what} that the gate cannot read: use the same version of both`);
}
