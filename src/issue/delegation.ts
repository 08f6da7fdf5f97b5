import { DRS_VERSION, INVOCATION_TYPE, RECEIPT_TYPE } from '../protocol/claims.js';
import type { InvocationClaims, ReceiptClaims } from '../protocol/claims.js';
import { labelIn, rulesIn, type Consent, type Regulatory } from '../protocol/consent.js';
import { isJsonObject, type JsonObject } from '../protocol/json.js';
import { DID_FORMS, isDid } from '../protocol/key-resolver.js';
import { flag, kindOf, oneOf, type FilledOptions, type GivenOptions } from '../protocol/options.js';
import type { Kind, Table } from '../protocol/options.js';
import { show, showTime } from '../verify/codes.js';
import type { Receipt } from '../verify/receipt.js';
import { readInvocation } from '../verify/judge.js';
import type { Tools } from '../verify/tools.js';
import { readGivenTools, tools, toolsOf } from '../trust/read-tool.js';
import { orThrow, readChain, requireValid, type StatingRules } from './chain.js';
import { requireConsentText } from './consent.js';
import { IssueError } from './issue-error.js';
import { claim, clock, issueOptions, receipts, time } from './options.js';
import { requireKnownMembers, type IssuedPolicy } from './policy.js';
import { SIGNER, signReceipt } from './signer.js';

/** What to do about a claim of the receipt that is being issued. */
const CORRECT_IT = 'Correct that option.';

const DEFAULT_LIFETIME_SECS = 3600;

const timeOrNever: Kind<number | null> = time;

const COMMON = {
  /** The issuer's key. */
  key: SIGNER,
  /** The delegate, a `did:key` of an Ed25519 key, or a `did:web` for which verifiers have a row. */
  audience: { kind: claim<string>(), required: true },
  /** What the delegate may do; an absent limit is no limit at this level. */
  policy: { kind: kindOf<IssuedPolicy>('an object; {} limits nothing', isJsonObject), required: true },
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

const label = kindOf<string>('1 to 256 characters', (value) => labelIn(value) !== null);

/** What a call belongs to: shown to tool servers and in logs, and decisive for nothing. A verifier leaves out other forms. */
const STATED = {
  /** The session of the agent. */
  sessionId: { kind: label },
  /** An id under which the calls are found elsewhere. */
  correlationId: { kind: label },
  /** The rules that are held to apply. Of an invocation, they count where the root names none. */
  regulatory: {
    kind: kindOf<Regulatory>(
      'an object of frameworks (at most 16), risk_level (1 to 256 characters), retention_days',
      (value) => {
        const rules = rulesIn(value);
        const given = Object.values(value ?? {}).filter((one) => (one ?? null) !== null);
        return rules !== null && given.length === Object.keys(rules).length;
      },
    ),
  },
} satisfies Table;

const ROOT = {
  ...COMMON,
  ...STATED,
  /** The command path that is delegated, for example `/mcp/tools/call`. */
  command: { kind: /* @__PURE__ */ claim<string>(), required: true },
  /** The type of the root principal; default `human`, which requires `consent`. */
  rootType: { kind: /* @__PURE__ */ claim<string>(), default: 'human' },
  /** What the person agreed to; see {@link createConsent}. */
  consent: { kind: /* @__PURE__ */ kindOf<Consent>('what createConsent() returns', isJsonObject) },
} satisfies Table;

/** The options of what is issued under a chain. */
const UNDER_CHAIN = {
  /** The receipts so far, root first; `key` must be that of the last one's audience. */
  chain: { kind: receipts, required: true },
  /** Default: that of the last receipt. */
  command: { kind: claim<string>() },
  /** Skip blocks B to E, to sign what a verifier must refuse, for tests of one. The shape is still checked. Default false. */
  unchecked: { kind: flag, default: false },
} satisfies Table;

const SUB = { ...COMMON, ...UNDER_CHAIN } satisfies Table;

/** Options of {@link issueRootDelegation}. All times in Unix seconds. */
export interface RootDelegationOptions extends GivenOptions<typeof ROOT> {}

/** Options of {@link issueSubDelegation}. All times in Unix seconds. */
export interface SubDelegationOptions extends GivenOptions<typeof SUB> {}

/**
 * Issues the root receipt of a chain: the principal, its issuer and subject, authorises a first delegate. See docs/spec/receipts.md.
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
  const claims: ReceiptClaims = {
    ...commonClaims(options, now),
    cmd: command,
    sub: key.did,
    prev_dr_hash: null,
    drs_root_type: rootType,
    ...(consent === undefined ? {} : { drs_consent: consent }),
    // What is `undefined` is not signed.
    session_id: options.sessionId,
    correlation_id: options.correlationId,
    drs_regulatory: options.regulatory,
  };
  const jwt = await signReceipt(claims, key, 0);
  const [root] = readChain([jwt], CORRECT_IT);
  requireResolvable(root.claims.aud);
  requireOrder(root, 0);
  // If its nbf is in the future, it is checked as of then.
  await requireValid([root], null, Math.max(now, root.claims.nbf), jwt);
  return jwt;
}

/**
 * Issues the next receipt of a chain: the last delegate passes on authority. Refuses if it, or the chain above it, would not verify.
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
  const { key, now } = options;
  const chain = readChain(options.chain);
  const [root] = chain;
  const parent = chain.at(-1) ?? root;
  requireKnownMembers(options.policy, parent.policy);
  const at = chain.length;
  const { cmd, nbf, exp } = parent.claims;
  const claims: ReceiptClaims = {
    ...commonClaims(options, Math.max(now, nbf), exp ?? Infinity),
    cmd: options.command ?? cmd,
    sub: root.claims.sub,
    prev_dr_hash: parent.digest,
  };
  const jwt = await signReceipt(claims, key, at);
  const receipts = readChain([...options.chain, jwt], CORRECT_IT);
  const issued = receipts.at(-1) ?? root;
  if (options.unchecked) return jwt;
  // Receipts may be issued in advance: they are checked as of the time when the last one begins.
  await requireValid(chain, null, Math.max(now, nbf), null);
  requireOrder(issued, at);
  await requireValid(receipts, null, Math.max(now, issued.claims.nbf), jwt);
  requireResolvable(issued.claims.aud);
  return jwt;
}

const CALL = {
  /** The key of the last delegate. */
  key: SIGNER,
  ...UNDER_CHAIN,
  ...STATED,
  /** The call's arguments, as the tool server will receive them: `tool`, `estimated_cost_usd` and the tool's own. */
  args: { kind: claim<JsonObject>(), required: true },
  /** The tool server that this call is for: its `did:key`, or the URL by which it knows itself. */
  toolServer: { kind: claim<string>(), required: true },
  /** What the operator of the tool server says of its tools: lines as in `TOOLS_FILE`. */
  tools: { kind: tools },
  /** `allow` also signs a call that does not state what a level limits, for signers who do not know the tools; default `refuse`. */
  unstatedArguments: { kind: /* @__PURE__ */ oneOf('refuse', 'allow'), default: 'refuse' },
  /** The time of issuing in Unix seconds; default: the clock. */
  now: { kind: time, default: clock },
  /** Default: `inv:` and a random UUID. */
  jti: { kind: claim<string>(), default: () => `inv:${crypto.randomUUID()}` },
} satisfies Table;

/** Options of {@link issueInvocation}. */
export interface InvocationOptions extends GivenOptions<typeof CALL> {}

/**
 * Issues the receipt of one call under a chain. Refuses a call that no verifier would accept now. See docs/spec/issuing.md.
 *
 * @returns the invocation receipt as a compact JWT, its payload in RFC 8785 form
 * @throws IssueError with the code of the verdict on the bundle: `INVOKER_MISMATCH`, `POLICY_VIOLATION`, `COMMAND_MISMATCH`,
 *   `NOT_YET_VALID`, `EXPIRED`, `MALFORMED_INVOCATION`, `INVALID_JTI`, and any code of blocks A to E for the chain
 * @example
 * const invocation = await issueInvocation({
 *   key: helper,
 *   chain: [root, sub],
 *   args: { tool: 'search', query: 'weather', estimated_cost_usd: 0.02 },
 *   toolServer: 'did:key:z6Mk…',
 * });
 */
export async function issueInvocation(given: InvocationOptions): Promise<string> {
  const options = issueOptions(given, CALL);
  const read = readGivenTools(options.tools ?? []);
  const tools = 'value' in read ? toolsOf(read.value) : null;
  return signInvocation(options, {
    tools,
    allowsUnstated: options.unstatedArguments === 'allow' && 'signing',
  });
}

/** Like {@link issueInvocation}, with lines that were read. @param tools `null`: not known, so that what is unstated is signed */
export async function issueCall(given: InvocationOptions, tools: Tools | null): Promise<string> {
  return signInvocation(issueOptions(given, CALL), { tools, allowsUnstated: tools === null && 'signing' });
}

async function signInvocation(options: FilledOptions<typeof CALL>, rules: StatingRules): Promise<string> {
  const { key, now } = options;
  const chain = readChain(options.chain);
  const [root] = chain;
  const leaf = chain.at(-1) ?? root;
  const claims: InvocationClaims = {
    drs_type: INVOCATION_TYPE,
    drs_v: DRS_VERSION,
    iss: key.did,
    sub: root.claims.sub,
    cmd: options.command ?? leaf.claims.cmd,
    args: options.args,
    dr_chain: chain.map(({ digest }) => digest),
    iat: now,
    jti: options.jti,
    tool_server: options.toolServer,
    // What is `undefined` is not signed.
    session_id: options.sessionId,
    correlation_id: options.correlationId,
    drs_regulatory: options.regulatory,
  };
  const jwt = await signReceipt(claims, key, 'invocation');
  const invocation = orThrow(readInvocation(jwt), CORRECT_IT);
  if (!options.unchecked) await requireValid(chain, invocation, now, jwt, rules);
  return jwt;
}

/**
 * @param start of its validity, if none is given
 * @param lastEnd the latest end that is taken by default
 */
function commonClaims(options: FilledOptions<typeof COMMON>, start: number, lastEnd = Infinity) {
  const { key, notBefore: nbf = start, expiresAt, statusListIndex } = options;
  return {
    drs_type: RECEIPT_TYPE,
    drs_v: DRS_VERSION,
    iss: key.did,
    aud: options.audience,
    policy: options.policy,
    jti: options.jti,
    iat: options.now,
    nbf,
    // A standing delegation has no end. A verifier treats null and absence alike.
    ...(expiresAt === null ? {} : { exp: expiresAt ?? Math.min(nbf + DEFAULT_LIFETIME_SECS, lastEnd) }),
    ...(statusListIndex === undefined ? {} : { drs_status_list_index: statusListIndex }),
  } as const;
}

function requireOrder({ claims: { nbf, exp } }: Receipt, subject: number): void {
  if (exp === null || exp >= nbf) return;
  const found = `Receipt ${subject}: exp is ${showTime(exp)}, expected at least its nbf ${showTime(nbf)}`;
  throw new IssueError('TEMPORAL_BOUNDS_VIOLATION', found, 'Raise exp.');
}

/** Requires that the delegate's DID resolves to a key. Otherwise the delegate could neither delegate nor invoke. */
function requireResolvable(did: string): void {
  if (isDid(did)) return;
  const found = `audience is ${show(did)}, expected ${DID_FORMS}`;
  throw new IssueError('UNRESOLVABLE_DID', found, CORRECT_IT);
}
