import type { InvocationClaims, ReceiptClaims } from '../protocol/claims.js';
import { publicKeyOf } from '../protocol/did-key.js';
import { digestOf } from '../protocol/digest.js';
import type { CompactJwt } from '../protocol/jwt.js';
import type { Policy } from '../protocol/policy.js';
import { effectivePolicy } from './call-policy.js';

/** A delegation receipt that passed block A, with what has been proved about it since. */
export class Receipt {
  readonly jwt: string;
  readonly claims: ReceiptClaims;
  /** Whether the claims were read as those of a root. */
  readonly isRoot: boolean;
  readonly algorithm: unknown;
  readonly signingInputLength: number;
  /** The signature until it has verified, `null` from then on. Owner: block C. */
  signature: Buffer | null;
  /** The receipt under which linkage, attenuation and window nesting hold. Owner: {@link ReceiptCache}. */
  parent: Receipt | null = null;
  /** The chain that ends here, once all that concerns its receipts alone is proved. Owner: the pipeline. */
  chain: Chain | null = null;
  /** Owner of the next three: {@link ReceiptCache}. */
  generation: 'none' | 'probation' | 'main' = 'none';
  uses = 0;
  dependants = 0;
  #digest: string | undefined;

  constructor(jwt: string, parts: CompactJwt, claims: ReceiptClaims, isRoot: boolean) {
    this.jwt = jwt;
    this.claims = claims;
    this.isRoot = isRoot;
    this.algorithm = parts.algorithm;
    this.signingInputLength = parts.signingInputLength;
    this.signature = parts.signature;
  }

  /** See {@link digestOf}. */
  get digest(): string {
    return (this.#digest ??= digestOf(this.jwt));
  }
}

/** An invocation receipt that passed block A. */
export interface Invocation {
  readonly jwt: string;
  readonly claims: InvocationClaims;
  readonly algorithm: unknown;
  readonly signature: Buffer;
  readonly signingInputLength: number;
}

/** Receipts, root first, about which everything is proved that does not depend on a call, the time or revocation. */
export class Chain {
  readonly receipts: readonly Receipt[];
  readonly root: Receipt;
  readonly leaf: Receipt;
  // Each of these is worked out when it is first asked for: most of what a chain that comes once never needs.
  #jwts: readonly string[] | undefined;
  #policy: Policy | undefined;
  #isRevocable: boolean | undefined;
  #contextJson: string | undefined;
  #invokerKey: Uint8Array | null | undefined;

  constructor(receipts: readonly Receipt[], root: Receipt, leaf: Receipt) {
    this.receipts = receipts;
    this.root = root;
    this.leaf = leaf;
  }

  get jwts(): readonly string[] {
    return (this.#jwts ??= this.receipts.map(({ jwt }) => jwt));
  }

  /** Allows a call exactly where every level does. */
  get policy(): Policy {
    return (this.#policy ??= effectivePolicy(this.receipts.map(({ claims }) => claims.policy)));
  }

  /** Whether any receipt can be revoked by a status list index. */
  get isRevocable(): boolean {
    return (this.#isRevocable ??= this.receipts.some(
      ({ claims }) => claims.drs_status_list_index !== undefined,
    ));
  }

  /** The verdict's `context` member as JSON. */
  get contextJson(): string {
    return (this.#contextJson ??= JSON.stringify(contextOf(this.receipts, this.root, this.leaf)));
  }

  /** The last delegate's key, or `null` where its DID names none. */
  get invokerKey(): Uint8Array | null {
    this.#invokerKey ??= publicKeyOf(this.leaf.claims.aud);
    return this.#invokerKey;
  }

  /** Whether these are, character for character, the receipts of this chain. */
  consistsOf(jwts: readonly string[]): boolean {
    if (jwts.length !== this.jwts.length) return false;
    for (let at = 0; at < jwts.length; at++) if (jwts[at] !== this.jwts[at]) return false;
    return true;
  }
}

/** What a valid verdict tells. Service document 2.4. */
export interface VerdictContext {
  /** The DID of the root principal. */
  readonly root_principal: string;
  /** The number of delegation receipts. */
  readonly chain_depth: number;
  readonly leaf_policy: Policy;
}

/** The context of a chain of receipts. */
export function contextOf(receipts: readonly Receipt[], root: Receipt, leaf: Receipt): VerdictContext {
  return {
    root_principal: root.claims.iss,
    chain_depth: receipts.length,
    leaf_policy: leaf.claims.policy,
  };
}
