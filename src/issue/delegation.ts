import { DRS_VERSION, RECEIPT_TYPE, type Consent, type ReceiptClaims } from '../protocol/claims.js';
import {
  CORRECT_IT,
  readChain,
  requireDepth,
  requireResolvable,
  requireUnexpired,
  requireValid,
} from './chain.js';
import { requireConsentText } from './consent.js';
import { clock, keyOf, requireKnownOptions, requireNearTimes } from './options.js';
import { requireKnownMembers, type IssuedPolicy } from './policy.js';
import { signReceipt } from './sign-claims.js';
import { after, issueWith, type AnySigner, type Eventual, type Signer } from './signer.js';
import type { SigningKey } from './signing-key.js';

/** The default lifetime of a receipt: an hour. */
const DEFAULT_LIFETIME_SECS = 3600;

/** What root and sub-delegations have in common. All times in Unix seconds. */
export interface DelegationOptions<Key extends AnySigner = SigningKey> {
  /** The issuer's key, or a {@link Signer} that has it elsewhere. */
  readonly key: Key;
  /** The delegate, a `did:key` of an Ed25519 key. */
  readonly audience: string;
  /** What the delegate may do; an absent limit is no limit at this level. */
  readonly policy: IssuedPolicy;
  /** The time of issuing; default: the clock. */
  readonly now?: number;
  /** Start of the validity period; default: `now`, or the parent's start if that is later. */
  readonly notBefore?: number;
  /**
   * End of the validity period; default: an hour after its start, or the parent's end if that is earlier. `null`
   * makes a standing delegation without an end, which is only allowed if the root type is not `human`.
   */
  readonly expiresAt?: number | null;
  /** The receipt's index in the status list. Without one, only operators can revoke the receipt, by its digest. */
  readonly statusListIndex?: number;
  /** Default: `dr:` and a random UUID. */
  readonly jti?: string;
}

/** Options of {@link issueRootDelegation}. */
export interface RootDelegationOptions<Key extends AnySigner = SigningKey> extends DelegationOptions<Key> {
  /** The command path that is delegated, for example `/mcp/tools/call`. */
  readonly command: string;
  /** The type of the root principal; default `human`, which requires `consent`. */
  readonly rootType?: string;
  /** What the person agreed to; see {@link createConsent}. */
  readonly consent?: Consent;
}

/** Options of {@link issueSubDelegation}. */
export interface SubDelegationOptions<Key extends AnySigner = SigningKey> extends DelegationOptions<Key> {
  /** The receipts so far, root first; `key` must be that of the last one's audience. */
  readonly chain: readonly string[];
  /** Default: the parent's command. */
  readonly command?: string;
  /** The verifiers' limit for the number of receipts; default 16, like theirs. */
  readonly maxChainDepth?: number;
  /**
   * Skip blocks B to E, to sign something that a verifier must refuse. The shape of the receipt is still checked. For
   * tests of a verifier; default false.
   */
  readonly unchecked?: boolean;
}

/**
 * Issues the root receipt of a chain: the principal, who is both issuer and subject, gives authority to a first
 * delegate. See docs/spec/receipts.md.
 *
 * @returns the receipt as a compact JWT, its payload in RFC 8785 form; for a {@link Signer}, a promise of it
 * @throws IssueError `INVALID_POLICY`, `INVALID_OPTION`; and if no verifier would accept the receipt:
 *   `MISSING_CONSENT`, `INVALID_CONSENT`, `MALFORMED_RECEIPT`, `UNRESOLVABLE_DID`, `TEMPORAL_BOUNDS_VIOLATION`, `EXPIRED`, `INVALID_JTI`
 * @example
 * const root = issueRootDelegation({
 *   key: alice,
 *   audience: bot.did,
 *   command: '/mcp/tools/call',
 *   policy: { allowed_tools: ['search', 'fetch'], max_cost_usd: 5 },
 *   consent: createConsent({ text: 'Bot may search for you.', locale: 'en', method: 'explicit-ui-click' }),
 * });
 */
export function issueRootDelegation(options: RootDelegationOptions): string;
export function issueRootDelegation(options: RootDelegationOptions<Signer>): Promise<string>;
export function issueRootDelegation(options: RootDelegationOptions<AnySigner>): Eventual<string>;
export function issueRootDelegation(options: RootDelegationOptions<AnySigner>): Eventual<string> {
  return issueWith(keyOf(options), () => {
    requireKnownOptions(options, ROOT_OPTIONS);
    requireKnownMembers(options.policy);
    const { key, command, rootType = 'human', consent } = options;
    if (consent !== undefined) requireConsentText(consent);
    const now = options.now ?? clock();
    const notBefore = options.notBefore ?? now;
    const claims: ReceiptClaims = {
      ...commonClaims(options, now),
      cmd: command,
      sub: key.did,
      nbf: notBefore,
      ...expiry(options.expiresAt, notBefore + DEFAULT_LIFETIME_SECS),
      prev_dr_hash: null,
      drs_root_type: rootType,
      ...(consent === undefined ? {} : { drs_consent: consent }),
    };
    return after(signReceipt(claims, key, 0), (jwt) => {
      const [root] = readChain([jwt], CORRECT_IT);
      requireResolvable(root.claims.aud);
      requireUnexpired(root, 0, now);
      return jwt;
    });
  });
}

/**
 * Issues the next receipt of a chain: the last delegate passes on all or part of its authority. Refuses if the new
 * receipt or the chain above it would not verify.
 *
 * @returns the new receipt alone, as a compact JWT; for a {@link Signer}, a promise of it. The longer chain is
 *   `[...chain, receipt]`
 * @throws IssueError with the code of the verdict that the chain would get: `ISSUER_MISMATCH` (the key is not that of
 *   the last audience), `DELEGATION_NOT_ALLOWED`, `POLICY_ESCALATION`, `COMMAND_MISMATCH`, `TEMPORAL_BOUNDS_VIOLATION`, `EXPIRED`,
 *   `UNRESOLVABLE_DID`, `CHAIN_TOO_DEEP`, `MALFORMED_RECEIPT`, and any code of blocks A to E for the chain above
 * @example
 * const sub = issueSubDelegation({
 *   key: bot,
 *   chain: [root],
 *   audience: helper.did,
 *   policy: { allowed_tools: ['search'], max_cost_usd: 1 },
 * });
 */
export function issueSubDelegation(options: SubDelegationOptions): string;
export function issueSubDelegation(options: SubDelegationOptions<Signer>): Promise<string>;
export function issueSubDelegation(options: SubDelegationOptions<AnySigner>): Eventual<string>;
export function issueSubDelegation(options: SubDelegationOptions<AnySigner>): Eventual<string> {
  return issueWith(keyOf(options), () => {
    requireKnownOptions(options, SUB_OPTIONS);
    const { key, maxChainDepth, unchecked = false } = options;
    const now = options.now ?? clock();
    const chain = readChain(options.chain);
    const [root] = chain;
    const parent = chain.at(-1) ?? root;
    requireKnownMembers(options.policy, parent.policy);
    const at = chain.length;
    const notBefore = options.notBefore ?? Math.max(now, parent.claims.nbf);
    const claims: ReceiptClaims = {
      ...commonClaims(options, now),
      cmd: options.command ?? parent.claims.cmd,
      sub: root.claims.sub,
      nbf: notBefore,
      ...expiry(options.expiresAt, defaultEnd(notBefore, parent.claims)),
      prev_dr_hash: parent.digest,
    };
    return after(signReceipt(claims, key, at), (jwt) => {
      const receipts = readChain([...options.chain, jwt], CORRECT_IT);
      const issued = receipts.at(-1) ?? root;
      if (unchecked) return jwt;
      requireDepth(chain, maxChainDepth);
      // Receipts may be issued in advance: they are checked as of the time when the last one begins.
      return after(requireValid(key, chain, null, Math.max(now, parent.claims.nbf)), () => {
        requireUnexpired(issued, at, now);
        requireDepth(receipts, maxChainDepth);
        return after(requireValid(key, receipts, null, Math.max(now, issued.claims.nbf)), () => {
          requireResolvable(issued.claims.aud);
          return jwt;
        });
      });
    });
  });
}

const COMMON_OPTIONS = {
  key: true,
  audience: true,
  policy: true,
  now: true,
  notBefore: true,
  expiresAt: true,
  statusListIndex: true,
  jti: true,
} as const;
const ROOT_OPTIONS = { ...COMMON_OPTIONS, command: true, rootType: true, consent: true } as const;
const SUB_OPTIONS = {
  ...COMMON_OPTIONS,
  chain: true,
  command: true,
  maxChainDepth: true,
  unchecked: true,
} as const;

function commonClaims(options: DelegationOptions<AnySigner>, now: number) {
  requireNearTimes({ now, notBefore: options.notBefore, expiresAt: options.expiresAt });
  return {
    drs_type: RECEIPT_TYPE,
    drs_v: DRS_VERSION,
    iss: options.key.did,
    aud: options.audience,
    policy: options.policy,
    iat: now,
    jti: options.jti ?? `dr:${crypto.randomUUID()}`,
    ...(options.statusListIndex === undefined ? {} : { drs_status_list_index: options.statusListIndex }),
  } as const;
}

/** Leaves `exp` out for a standing delegation, which has no end. A verifier treats null and absence alike. */
function expiry(expiresAt: number | null | undefined, byDefault: number): { exp?: number } {
  return expiresAt === null ? {} : { exp: expiresAt ?? byDefault };
}

function defaultEnd(notBefore: number, { exp }: { readonly exp: number | null }): number {
  const end = notBefore + DEFAULT_LIFETIME_SECS;
  return exp === null ? end : Math.min(end, exp);
}
