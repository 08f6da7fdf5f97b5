import type { SignatureCheck } from '../protocol/jwt.js';
import type { KeyResolver } from '../protocol/key-resolver.js';
import type { EntryApproval } from './approval.js';
import type { ReadPolicy } from './attenuation.js';
import type { Failure } from './codes.js';
import type { CountedLimits, LimitLeft } from './limits.js';
import type { Chain, Invocation, Receipt } from './receipt.js';
import type { AllowsUnstated, Tools } from './tools.js';

/** Everything that a judge is handed: what waits, what knows the time, and what remembers. */
export interface JudgeParts {
  readonly rules: Rules;
  /** `null` for pages, which a cache would make larger. */
  readonly cache: ReceiptMemory | null;
  readonly keys: KeyResolver;
  readonly signatures: {
    /** For each check, whether its signature verifies: at once, or later. */
    verify(checks: readonly SignatureCheck[], isWanted?: () => boolean): boolean[] | Promise<boolean[]>;
  };
  readonly revocation: {
    /** Has the operator's list fetched if there is no usable copy; `null` if there is nothing to wait for. */
    refreshIfStale(): Promise<void> | null;
    /** The same for lists of a root. */
    refreshLists(lists: RootLists): Promise<void> | null;
    readonly view: RevocationView;
  };
  /** Unix seconds. */
  readonly clock: () => number;
  /** Whether a call without a body that was signed is refused. */
  readonly requiresBinding: boolean;
  /**
   * Records an invocation and charges its call to the limits of the chain. Says why it may not be used, or what is left of
   * the limits. `null` if invocations may be used again, and nobody counts.
   */
  readonly use:
    | ((
        invocation: Invocation['claims'],
        limits: readonly CountedLimits[],
        now: number,
        costMicroUsd: number | null,
      ) => Promise<Failure | readonly LimitLeft[] | null>)
    | null;
}

/** How exact clocks are, unless an operator says something else. */
export const CLOCKS = { clockSkewSecs: 30, expiryGraceSecs: 0 };

/** What an operator decides about verification; constant for the life of a verifier, except who the roots are. */
export interface Rules {
  /** Maximum number of delegation receipts in a bundle. */
  readonly maxChainDepth: number;
  /** Seconds by which the clock of whoever issues may be ahead. */
  readonly clockSkewSecs: number;
  /** Seconds for which a receipt can be used after its `exp`. */
  readonly expiryGraceSecs: number;
  /** The `tool_server` that invocations must be for; `null` for any. */
  readonly serverIdentity: string | null;
  /** The principals that may be roots; `null` for any. */
  readonly trustedRoots: Roots | null;
  /** What the operator says of tools; `null` if nothing. */
  readonly tools: Tools | null;
  readonly allowsUnstated: AllowsUnstated;
}

/** What an operator says of a root principal. See docs/spec/trust.md. */
export interface Root {
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>> | null;
  /** The first and the last second in which it is trusted, in Unix seconds; `null` for no bound. */
  readonly from: number | null;
  readonly until: number | null;
  /** What it may delegate at most; `null` for anything. */
  readonly policy: ReadPolicy | null;
  /** Which calls need a yes, and whose; `null` if it says nothing of that. */
  readonly approval: EntryApproval | null;
  /** In which receipts under it can be revoked, the first for indices alone; `null` if it names none. */
  readonly lists: RootLists | null;
  /** Whether it may be a root. Otherwise it only says how the DID of a delegate is resolved. */
  readonly isRoot: boolean;
  /** Where the document of a `did:web` is, when it is fetched again, and how old it may be; `null` for another DID. */
  readonly web: { readonly url: URL; readonly freshMs: number; readonly staleMs: number } | null;
  /** Addresses and networks that are not public, and that what it names may have. */
  readonly addresses: readonly string[];
  /** Root receipts that were found to stay within the policy. Only block D adds to it. It keeps none of them alive. */
  readonly withinPolicy: WeakSet<Receipt>;
}

/** A status list that an operator names for a root. See docs/spec/revocation.md, "Lists of a root". */
export interface RootList {
  readonly form: 'w3c' | 'token';
  /** By which receipts name it. */
  readonly name: string;
  readonly url: string;
  /** The DID that must have signed it. */
  readonly issuer: string;
  readonly maxStaleSecs: number;
  /** Addresses and networks at which it may be fetched although they are not public. */
  readonly addresses: readonly string[];
  /** What people call the root, or its DID: for logs and metrics. */
  readonly owner: string;
  /** The same text for a list that is fetched, and must be signed, in the same way. */
  readonly key: string;
}

export type RootLists = readonly RootList[];

/** The principals that may be roots, at the time when it is asked. */
export interface Roots {
  get(did: string): Root | undefined;
}

const NO_ADDRESSES: readonly string[] = [];

/** A root of which nothing more is said than that it is trusted. */
export function plainRoot(): Root {
  return {
    name: null,
    labels: null,
    from: null,
    until: null,
    policy: null,
    approval: null,
    lists: null,
    isRoot: true,
    web: null,
    addresses: NO_ADDRESSES,
    withinPolicy: new WeakSet(),
  };
}

/** What a status list says of an index. */
export type RemoteStatus =
  /** No remote list is configured. */
  | 'not_configured'
  | 'not_revoked'
  | 'revoked'
  | 'suspended'
  /** A value that nobody here reads. */
  | 'unknown'
  /** The index lies beyond the end of the list: a range error, never "not revoked". */
  | 'out_of_range'
  /** A list is configured, but there is no usable copy of it. */
  | 'unavailable';

/** The revocation state as block F reads it. It is in memory: reading it never waits. */
export interface RevocationView {
  /** What the operator's list says. Asked before the local store. */
  remoteStatusOf(index: number): RemoteStatus;
  /** What a list of a root says. Without it, nobody knows what one says. */
  statusIn?(list: RootList, index: number): RemoteStatus;
  /** Whether the index is in the local store. */
  isRevokedLocally(index: number): boolean;
  /**
   * Stands for all receipts and DIDs in the local store: another object as soon as one is added. `null` if there are none.
   * As long as it is the same, {@link isNameRevoked} says of no name that it is revoked if it did not before.
   */
  readonly names: object | null;
  /** Whether a receipt's digest (`sha256:…`), a DID, `jti:<iss> <jti>`, or `index:<root> <index>` is in the local store. */
  isNameRevoked(name: string): boolean;
}

// No DID has white space, no digest and no DID begins like these.

/** What stands for receipts by who issued them and their `jti`, among the names in a local store. */
export const jtiBy = (iss: string, jti: string): string => `jti:${iss} ${jti}`;

/** What stands for receipts under a root by an index. */
export const indexUnder = (root: string, index: number): string => `index:${root} ${index}`;

/** Where nothing is revoked, and no list is configured. */
export const NOTHING_REVOKED: RevocationView = {
  remoteStatusOf: () => 'not_configured',
  isRevokedLocally: () => false,
  names: null,
  isNameRevoked: () => false,
};

/** What a judge remembers of receipts and chains that verified. `ReceiptCache` has what each of them promises. */
export interface ReceiptMemory {
  keepFor(keysVersion: number): void;
  getReceipt(jwt: string): Receipt | null;
  getChain(jwts: readonly string[]): Chain | null;
  addReceipt(receipt: Receipt): void;
  addChain(chain: Chain): void;
}
