import { detachText } from '#platform';
import type { InvocationClaims, ReceiptClaims } from '../protocol/claims.js';
import { labelIn, rulesIn, type Consent, type Regulatory } from '../protocol/consent.js';
import { digestOf, parseCompactJwt, type CompactJwt } from '../protocol/jwt.js';
import type { JsonObject } from '../protocol/json.js';
import type { KeyResolver } from '../protocol/key-resolver.js';
import { readStatusClaims, type ListedStatus } from '../protocol/status-claims.js';
import { limitsOf, type CountedLimits, type ReachedLimit } from './limits.js';
import { isKnownMember, type Policy, type PolicyLimit } from '../protocol/policy.js';

/** The claims of a receipt that are used after block A. What is absent or `null` in the receipt is `null` here. */
export interface KeptClaims {
  readonly iss: string;
  readonly aud: string;
  readonly sub: string;
  readonly cmd: string;
  readonly jti: string;
  readonly nbf: number;
  readonly exp: number | null;
  readonly prev_dr_hash: string | null;
  readonly drs_root_type: string | null;
  readonly drs_consent: Consent | null;
  readonly drs_regulatory: Regulatory | null;
  readonly session_id: string | null;
  readonly correlation_id: string | null;
  readonly drs_status_list_index: number | null;
  /** What it names in lists of its root; or the first claim about its status that nobody here reads; `null` if it has none. */
  readonly listed: readonly ListedStatus[] | ListedStatus['member'] | null;
}

/** A delegation receipt that passed block A. Answers get copies of its values, never the values themselves. */
export class Receipt {
  /** Only {@link shrink} changes it: it puts an equal text in its place, in memory of its own. */
  jwt: string;
  readonly claims: KeptClaims;
  /** The limits that its policy sets. */
  readonly limits: readonly PolicyLimit[];
  /** Whether its policy has members that are not evaluated, which a child must repeat. */
  readonly hasOtherMembers: boolean;
  /** Whether the claims were read as those of a root. */
  readonly isRoot: boolean;
  readonly algorithm: unknown;
  readonly signingInputLength: number;
  /** The signature and what the header says of its key, until it has verified; `null` from then on. Only block C changes them. */
  signature: Uint8Array | null;
  kid: string | null;
  #policy: JsonObject | null;
  #digest: string | undefined;

  constructor(jwt: string, parts: CompactJwt, claims: ReceiptClaims, limits: PolicyLimit[], isRoot: boolean) {
    this.jwt = jwt;
    this.claims = keep(claims, isRoot);
    this.limits = limits;
    this.isRoot = isRoot;
    this.algorithm = parts.algorithm;
    this.signingInputLength = parts.signingInputLength;
    this.signature = parts.signature;
    this.kid = parts.kid;
    // A payload is JSON, and so is its policy.
    this.#policy = claims.policy as JsonObject;
    this.hasOtherMembers = Object.keys(claims.policy).some((name) => !isKnownMember(name));
  }

  /** See {@link digestOf}. */
  get digest(): string {
    return (this.#digest ??= digestOf(this.jwt));
  }

  /** The policy as the receipt has it. It is shared: nobody may change it. */
  get policy(): JsonObject {
    if (this.#policy !== null) return this.#policy;
    // The receipt was read before, so this cannot fail.
    const { payload } = parseCompactJwt(this.jwt) as CompactJwt;
    return payload['policy'] as JsonObject;
  }

  /**
   * Called before the cache keeps this. Drops what later calls do not need: the decoded policy, and the larger text of
   * which this receipt's text may be a slice.
   */
  shrink(): void {
    if (this.#policy === null) return;
    this.#policy = null;
    this.jwt = detachText(this.jwt);
  }
}

/** An invocation receipt that passed block A. */
export interface Invocation {
  readonly jwt: string;
  readonly claims: InvocationClaims;
  readonly algorithm: unknown;
  readonly kid: string | null;
  readonly signature: Uint8Array;
  readonly signingInputLength: number;
}

/** Receipts, root first, that passed every check that does not depend on a call, the time or revocation. */
export class Chain {
  readonly receipts: readonly Receipt[];
  readonly root: Receipt;
  readonly leaf: Receipt;
  /** Whether any receipt can be revoked by a `drs_status_list_index`. */
  readonly isRevocable: boolean;
  /** Whether any receipt has another claim about its status. */
  readonly isListed: boolean;
  /** Whether any receipt has `approve_tools`. */
  readonly asks: boolean;
  /** The limits that are to be counted for each call. */
  readonly limits: readonly CountedLimits[];
  /** What the verdict's `context` member says of the chain, as JSON. */
  readonly contextJson: string;
  /**
   * `RevocationView.names` when none of its receipts and DIDs was among them. Asking for each of them again takes
   * microseconds if a million are revoked. Only block F changes it.
   */
  clearOf: object | null = null;
  /** The last delegate's keys; `null` if they can change while this is in use. */
  readonly invokerKeys: readonly Uint8Array[] | null;

  /** @param receipts not empty */
  constructor(receipts: readonly Receipt[], keys: KeyResolver) {
    this.receipts = receipts;
    this.root = receipts[0] as Receipt;
    this.leaf = receipts.at(-1) as Receipt;
    this.isRevocable = receipts.some(({ claims }) => claims.drs_status_list_index !== null);
    this.isListed = receipts.some(({ claims }) => claims.listed !== null);
    this.asks = receipts.some(({ limits }) => limits.some(({ member }) => member.name === 'approve_tools'));
    this.limits = limitsOf(receipts);
    this.contextJson = JSON.stringify({
      root_principal: this.root.claims.iss,
      chain_depth: receipts.length,
      leaf_policy: this.leaf.policy,
    });
    const key = keys.publicKeyOf(this.leaf.claims.aud);
    this.invokerKeys = key && [key];
  }

  /** Whether these are, character for character, the receipts of this chain. */
  consistsOf(jwts: readonly string[]): boolean {
    const { receipts } = this;
    return jwts.length === receipts.length && receipts.every(({ jwt }, at) => jwt === jwts[at]);
  }
}

/** What a valid verdict tells. */
export interface VerdictContext {
  /** The DID of the root principal. */
  readonly root_principal: string;
  /** The number of delegation receipts. */
  readonly chain_depth: number;
  /** The policy of the last receipt. */
  readonly leaf_policy: Policy;
  /** The `tool_server` of the invocation: for whom the call was signed. */
  readonly tool_server: string;
  /** The limits of the chain that are not counted, since replay protection is off; absent if there are none. */
  readonly unenforced?: readonly ReachedLimit['member'][];
}

/** A copy of a consent record that has been checked, without unknown members. */
export function copyOfConsent(from: Consent): Consent {
  const { locale, method, policy_hash, session_id, timestamp } = from;
  return { locale, method, policy_hash, session_id, timestamp };
}

/** Picks the claims that later calls need. Claims of a root mean nothing in another receipt, and may have any type. */
function keep(claims: ReceiptClaims, isRoot: boolean): KeptClaims {
  const { iss, aud, sub, cmd, jti, nbf, exp = null } = claims;
  const { prev_dr_hash = null, drs_status_list_index = null } = claims;
  const ofRoot: Partial<ReceiptClaims> = isRoot ? claims : {};
  const { drs_root_type = null, session_id, correlation_id, drs_consent, drs_regulatory } = ofRoot;
  // Its members one by one: of objects that are spread, V8 makes larger ones.
  return {
    iss,
    aud,
    sub,
    cmd,
    jti,
    nbf,
    exp,
    prev_dr_hash,
    drs_status_list_index,
    listed: readStatusClaims(claims),
    drs_root_type,
    session_id: labelIn(session_id),
    correlation_id: labelIn(correlation_id),
    drs_consent: drs_consent ? copyOfConsent(drs_consent) : null,
    drs_regulatory: rulesIn(drs_regulatory),
  };
}
