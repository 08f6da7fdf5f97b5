import type { KeyResolver } from '../protocol/key-resolver.js';
import { checkApproval } from './approval.js';
import { bind, checkBinding, type Binding, type Body } from './binding.js';
import { checkLinkage, checkStructure, type Signed, type Structure } from './blocks/a-b-form.js';
import { checkSignatures, planSignatures, type SignaturePlan } from './blocks/c-signatures.js';
import { checkCallPolicy, checkReceiptPolicies, checkRoot } from './blocks/d-policy.js';
import { checkRevocation, refreshLists } from './blocks/revocation.js';
import { checkEntry, checkWindows } from './blocks/time.js';
import { Failure } from './codes.js';
import { costMicroUsdOf, type LimitLeft } from './limits.js';
import { CLOCKS, plainRoot, type JudgeParts, type ReceiptMemory, type Root, type Rules } from './parts.js';
import { Chain, type Invocation, type Receipt } from './receipt.js';
import { toolOf, type Stated, type Tool } from './tools.js';

export { checkStructure, readInvocation, readReceipts } from './blocks/a-b-form.js';
export { checkCommand, checkToolServer, untrustedRoot } from './blocks/d-policy.js';

export interface Call {
  /** The bundle after `JSON.parse`. Nothing about it has been checked. */
  readonly bundle: unknown;
  readonly body: Body | null;
  /** Unix seconds, finite: compared with NaN, nothing has expired. Default: the clock, read after the last wait. */
  readonly now?: number | undefined;
  /** Called before queued work starts: whether somebody still waits for the outcome. */
  readonly isWanted?: (() => boolean) | undefined;
  /** Called before a wait for keys or the status list. If it returns false, these count as unavailable at once. */
  readonly mayWait?: (() => boolean) | undefined;
  /** Whether the caller asks for a person's yes itself, as a gate does: it asks nobody for what it refuses. */
  readonly asks?: boolean | undefined;
}

/** How many receipts were read, if any, and whether all were known, so that only the invocation's signature was verified. */
type Effort = { readonly depth: number; readonly isWarm: boolean } | null;

/** A call that its bundle authorises, wherever that was found out. */
export interface Proof {
  readonly failure: null;
  readonly effort: Effort;
  readonly chain: Chain;
  readonly invocation: Invocation;
  /** What the operator says of the root principal, and of the tool. */
  readonly root: Pick<Root, 'name' | 'labels' | 'approval' | 'policy'>;
  readonly tool: Tool | null;
  /** Who says what the call does, by another verifier; left out where `tool` tells it. */
  readonly stated?: Stated;
  /** How the body compares with the signed arguments; `null` if it was not compared. */
  readonly binding: Binding | null;
  /** What is left of the chain's limits; `null` if it has none, or nobody counts. */
  readonly limits: readonly LimitLeft[] | null;
}

/** What a judge says of a call. Of a refusal, `binding` is only set if it is the reason. */
export type Judgement =
  | Proof
  | {
      readonly failure: Failure;
      readonly effort: Effort;
      readonly chain: null;
      readonly binding: Binding | null;
    };

/**
 * Judges a call: blocks A to F, then binding, a person's yes, replay and limits. The first failure in this order is the
 * verdict, whatever is cached. It waits at most twice: for signatures, and for the status list; soon after a start for the keys of issuers, too;
 * and once more to record the invocation, which comes last, since a refused call must not use it up.
 *
 * @throws what the parts throw. That says nothing about the bundle, and the content of a bundle never causes it.
 */
export function judge(call: Call, parts: JudgeParts): Promise<Judgement> {
  return parts.keys.opening === 0 ? judgeNow(call, parts) : judgeWhenOpen(call, parts);
}

/** Like {@link judge}, while the keys of some issuers are asked for the first time: it waits for them before it begins. */
async function judgeWhenOpen(call: Call, parts: JudgeParts): Promise<Judgement> {
  const structure = checkStructure(call.bundle, parts.rules.maxChainDepth, null);
  if (structure instanceof Failure || checkLinkage(structure) !== null) return judgeNow(call, parts);
  const issuers = [...structure.receipts, structure.invocation].map(({ claims }) => claims.iss);
  const opening = issuers.map((did) => parts.keys.whenReady(did)).filter((one) => one !== null);
  if (opening.length === 0 || call.mayWait?.() === false) return judgeNow(call, parts);
  await Promise.all(opening);
  // Who waits already may wait for the status list, too.
  return judgeNow({ ...call, mayWait: undefined }, parts);
}

async function judgeNow(call: Call, parts: JudgeParts): Promise<Judgement> {
  const { rules, cache, keys, signatures, revocation, clock, requiresBinding } = parts;
  const keysVersion = keys.version;
  cache?.keepFor(keysVersion);

  const structure = checkStructure(call.bundle, rules.maxChainDepth, cache); // A
  if (structure instanceof Failure) return refused(structure, null);
  const { receipts, invocation, chain: known } = structure;
  const effort = { depth: receipts.length, isWarm: known !== null };
  const unlinked = checkLinkage(structure); // B
  if (unlinked !== null) return refused(unlinked, effort);

  const plan = planSignatures(structure, keys);
  effort.isWarm = plan.subjects[0] === 'invocation';
  const verifying = signatures.verify(plan.checks, call.isWanted);
  const verified = verifying instanceof Promise ? await verifying : verifying;
  // If the keys changed meanwhile, nothing is cached: the signatures were verified under the old ones.
  const memory = keysVersion === keys.version ? cache : null;
  const unsigned = checkSignatures(structure, plan, verified, memory); // C
  if (unsigned !== null) return refused(unsigned, effort);

  let now = call.now ?? clock();
  let root = checkTrust(structure, now, rules); // D, E
  if (root instanceof Failure) return refused(root, effort);
  const chain = chainOf(structure, keys, memory);

  const fetching = refreshLists(chain, root.lists, revocation);
  if (fetching !== null && call.mayWait?.() !== false) {
    await fetching;
    // A receipt or the root may have expired meanwhile, and the root may be trusted no more.
    now = call.now ?? clock();
    root = checkTrust({ receipts: chain.receipts, chain, invocation }, now, rules);
    if (root instanceof Failure) return refused(root, effort);
  }
  const revoked = checkRevocation(chain, revocation.view, root.lists); // F
  if (revoked !== null) return refused(revoked, effort);

  const { args } = invocation.claims;
  const binding = bind(args, call.body);
  const unbound = requiresBinding ? checkBinding(binding, args, call.body) : null;
  if (unbound !== null) return refused(unbound, effort, binding);

  // Nothing has waited since block D asked.
  const tool = toolOf(rules.tools, args);
  const spent = spend({ chain, root, tool, invocation }, now, call, parts);
  // Where nothing is recorded, nothing waits.
  const limits = spent instanceof Promise ? await spent : spent;
  if (limits instanceof Failure) return refused(limits, effort);
  // Each member by itself: with a spread, a call took 10 % more processor time in Node 20.
  return { chain, root, tool, invocation, binding, limits, effort, failure: null };
}

/** A person's yes, unless the caller asks for it, and then replay and limits. @returns what is left of the limits */
function spend(
  proved: Pick<Proof, 'chain' | 'root' | 'tool' | 'invocation'>,
  now: number,
  { asks }: Call,
  { use }: JudgeParts,
): Failure | null | Promise<Failure | readonly LimitLeft[] | null> {
  const unapproved = asks === true ? null : checkApproval(proved);
  if (unapproved !== null || use === null) return unapproved;
  const { claims } = proved.invocation;
  return use(claims, proved.chain.limits, now, costMicroUsdOf(claims.args, proved.tool));
}

function refused(failure: Failure, effort: Effort, binding: Binding | null = null): Judgement {
  return { chain: null, failure, binding, effort };
}

/** The chain of a structure that passed; a new one is remembered. */
function chainOf(
  { receipts, chain: known }: Structure,
  keys: KeyResolver,
  memory: ReceiptMemory | null,
): Chain {
  if (known !== null) return known;
  const chain = new Chain(receipts, keys);
  memory?.addChain(chain);
  return chain;
}

const ANYBODY = plainRoot();

/** Blocks D and E, by the entry that the root has now. */
function checkTrust(signed: Signed, now: number, rules: Omit<Rules, 'maxChainDepth'>): Root | Failure {
  const { receipts, chain, invocation } = signed;
  const { trustedRoots: roots, tools } = rules;
  const root = roots === null ? ANYBODY : (roots.get((receipts[0] as Receipt).claims.iss) ?? null);
  const failure =
    (chain === null ? checkReceiptPolicies(receipts, root) : checkRoot(chain.root, root)) ?? // D
    (invocation === null
      ? null
      : checkCallPolicy({ receipts, invocation }, root, rules, toolOf(tools, invocation.claims.args))) ??
    // A root without an entry has failed.
    checkEntry(root as Root, now) ?? // E
    checkWindows(signed, now, rules);
  return failure ?? (root as Root);
}

/**
 * Blocks A and B for receipts, and for an invocation under them if there is one, where there is no bundle: whoever issues
 * asks, and the inspector. Nothing is cached.
 */
export function openClaims(signed: Signed, keys: KeyResolver): SignaturePlan | Failure {
  return checkLinkage(signed) ?? planSignatures(signed, keys);
}

/**
 * Blocks C to E for what {@link openClaims} has opened.
 *
 * @param verified for each planned check, whether its signature verifies
 * @param now Unix seconds
 * @param given other rules than any root, any tool server, nothing said of tools, and the clocks of {@link CLOCKS}
 */
export function proveClaims(
  signed: Signed,
  plan: SignaturePlan,
  verified: readonly boolean[],
  now: number,
  given: Partial<Omit<Rules, 'maxChainDepth'>> = {},
): Failure | null {
  const failed =
    checkSignatures(signed, plan, verified, null) ?? checkTrust(signed, now, { ...ANY_RULES, ...given });
  return failed instanceof Failure ? failed : null;
}

const ANY_RULES = { ...CLOCKS, serverIdentity: null, trustedRoots: null, tools: null, allowsUnstated: false };
