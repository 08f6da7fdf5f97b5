import { DRS_VERSION, RECEIPT_TYPE, type ReceiptClaims } from '../protocol/claims.js';
import type { Consent } from '../protocol/consent.js';
import {
  count,
  flag,
  type FilledOptions,
  type GivenOptions,
  type Kind,
  type Table,
} from '../protocol/options.js';
import {
  CORRECT_IT,
  DEFAULT_MAX_CHAIN_DEPTH,
  readChain,
  requireDepth,
  requireResolvable,
  requireUnexpired,
  requireValid,
} from './chain.js';
import { requireConsentText } from './consent.js';
import { claim, clock, issueOptions, object, receipts, time } from './options.js';
import { requireKnownMembers, type IssuedPolicy } from './policy.js';
import { SIGNER, signReceipt } from './signer.js';

/** The default lifetime of a receipt: an hour. */
const DEFAULT_LIFETIME_SECS = 3600;

const timeOrNever: Kind<number | null> = time;

const COMMON = {
  /** The issuer's key. */
  key: SIGNER,
  /** The delegate, a `did:key` of an Ed25519 key. */
  audience: { kind: claim<string>(), required: true },
  /** What the delegate may do; an absent limit is no limit at this level. */
  policy: { kind: object<IssuedPolicy>('an object; {} limits nothing'), required: true },
  /** The time of issuing; default: the clock. */
  now: { kind: time, default: clock },
  /** Start of the validity period; default: `now`, or the parent's start if that is later. */
  notBefore: { kind: time },
  /**
   * End of the validity period; default: an hour after its start, or the parent's end if that is earlier. `null`
   * makes a standing delegation without an end, which is only allowed if the root type is not `human`.
   */
  expiresAt: { kind: timeOrNever },
  /** The receipt's index in the status list. Without one, only operators can revoke the receipt, by its digest. */
  statusListIndex: { kind: claim<number>() },
  /** Default: `dr:` and a random UUID. */
  jti: { kind: claim<string>(), default: () => `dr:${crypto.randomUUID()}` },
} satisfies Table;

const ROOT = {
  ...COMMON,
  /** The command path that is delegated, for example `/mcp/tools/call`. */
  command: { kind: claim<string>(), required: true },
  /** The type of the root principal; default `human`, which requires `consent`. */
  rootType: { kind: claim<string>(), default: 'human' },
  /** What the person agreed to; see {@link createConsent}. */
  consent: { kind: object<Consent>('what createConsent() returns') },
} satisfies Table;

const SUB = {
  ...COMMON,
  /** The receipts so far, root first; `key` must be that of the last one's audience. */
  chain: { kind: receipts, required: true },
  /** Default: the parent's command. */
  command: { kind: claim<string>() },
  /** The verifiers' limit for the number of receipts; default 16, like theirs. */
  maxChainDepth: { kind: count(1), default: DEFAULT_MAX_CHAIN_DEPTH },
  /**
   * Skip blocks B to E, to sign something that a verifier must refuse. The shape of the receipt is still checked. For
   * tests of a verifier; default false.
   */
  unchecked: { kind: flag, default: false },
} satisfies Table;

/** Options of {@link issueRootDelegation}. All times in Unix seconds. */
export interface RootDelegationOptions extends GivenOptions<typeof ROOT> {}

/** Options of {@link issueSubDelegation}. All times in Unix seconds. */
export interface SubDelegationOptions extends GivenOptions<typeof SUB> {}

/**
 * Issues the root receipt of a chain: the principal, who is both issuer and subject, gives authority to a first
 * delegate. See docs/spec/receipts.md.
 *
 * @returns the receipt as a compact JWT, its payload in RFC 8785 form
 * @throws IssueError `INVALID_POLICY`, `INVALID_OPTION`; and if no verifier would accept the receipt:
 *   `MISSING_CONSENT`, `INVALID_CONSENT`, `MALFORMED_RECEIPT`, `UNRESOLVABLE_DID`, `TEMPORAL_BOUNDS_VIOLATION`, `EXPIRED`, `INVALID_JTI`
 * @example
 * const root = await issueRootDelegation({
 *   key: alice,
 *   audience: bot.did,
 *   command: '/mcp/tools/call',
 *   policy: { allowed_tools: ['search', 'fetch'], max_cost_usd: 5 },
 *   consent: createConsent({ text: 'Bot may search for you.', locale: 'en', method: 'explicit-ui-click' }),
 * });
 */
export async function issueRootDelegation(given: RootDelegationOptions): Promise<string> {
  const options = issueOptions(given, ROOT);
  const { key, now, command, rootType, consent } = options;
  requireKnownMembers(options.policy);
  if (consent !== undefined) requireConsentText(consent);
  const notBefore = options.notBefore ?? now;
  const claims: ReceiptClaims = {
    ...commonClaims(options),
    cmd: command,
    sub: key.did,
    nbf: notBefore,
    ...expiry(options.expiresAt, notBefore + DEFAULT_LIFETIME_SECS),
    prev_dr_hash: null,
    drs_root_type: rootType,
    ...(consent === undefined ? {} : { drs_consent: consent }),
  };
  const jwt = await signReceipt(claims, key, 0);
  const [root] = readChain([jwt], CORRECT_IT);
  requireResolvable(root.claims.aud);
  requireUnexpired(root, 0, now);
  return jwt;
}

/**
 * Issues the next receipt of a chain: the last delegate passes on all or part of its authority. Refuses if the new
 * receipt or the chain above it would not verify.
 *
 * @returns the new receipt alone, as a compact JWT. The longer chain is `[...chain, receipt]`
 * @throws IssueError with the code of the verdict that the chain would get: `ISSUER_MISMATCH` (the key is not that of
 *   the last audience), `DELEGATION_NOT_ALLOWED`, `POLICY_ESCALATION`, `COMMAND_MISMATCH`, `TEMPORAL_BOUNDS_VIOLATION`, `EXPIRED`,
 *   `UNRESOLVABLE_DID`, `CHAIN_TOO_DEEP`, `MALFORMED_RECEIPT`, and any code of blocks A to E for the chain above
 * @example
 * const sub = await issueSubDelegation({
 *   key: bot,
 *   chain: [root],
 *   audience: helper.did,
 *   policy: { allowed_tools: ['search'], max_cost_usd: 1 },
 * });
 */
export async function issueSubDelegation(given: SubDelegationOptions): Promise<string> {
  const options = issueOptions(given, SUB);
  const { key, now, maxChainDepth } = options;
  const chain = readChain(options.chain);
  const [root] = chain;
  const parent = chain.at(-1) ?? root;
  requireKnownMembers(options.policy, parent.policy);
  const at = chain.length;
  const notBefore = options.notBefore ?? Math.max(now, parent.claims.nbf);
  const claims: ReceiptClaims = {
    ...commonClaims(options),
    cmd: options.command ?? parent.claims.cmd,
    sub: root.claims.sub,
    nbf: notBefore,
    ...expiry(options.expiresAt, defaultEnd(notBefore, parent.claims)),
    prev_dr_hash: parent.digest,
  };
  const jwt = await signReceipt(claims, key, at);
  const receipts = readChain([...options.chain, jwt], CORRECT_IT);
  const issued = receipts.at(-1) ?? root;
  if (options.unchecked) return jwt;
  requireDepth(chain, maxChainDepth);
  // Receipts may be issued in advance: they are checked as of the time when the last one begins.
  await requireValid(chain, null, Math.max(now, parent.claims.nbf), null);
  requireUnexpired(issued, at, now);
  requireDepth(receipts, maxChainDepth);
  await requireValid(receipts, null, Math.max(now, issued.claims.nbf), jwt);
  requireResolvable(issued.claims.aud);
  return jwt;
}

function commonClaims(options: FilledOptions<typeof COMMON>) {
  return {
    drs_type: RECEIPT_TYPE,
    drs_v: DRS_VERSION,
    iss: options.key.did,
    aud: options.audience,
    policy: options.policy,
    iat: options.now,
    jti: options.jti,
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
