import { bind, checkBinding, type Binding, type Body } from './binding.js';
import {
  checkCallLinkage,
  checkReceiptLinkage,
  checkStructure,
  readReceipts,
  type Structure,
} from './blocks/a-b-form.js';
import { checkSignatures, planSignatures, type SignaturePlan } from './blocks/c-signatures.js';
import { checkCallPolicy, checkReceiptPolicies, checkRoot } from './blocks/d-policy.js';
import { checkEntry, checkRevocation, checkWindows } from './blocks/e-f-validity.js';
import { Failure, show } from './codes.js';
import type { LimitLeft } from './limits.js';
import {
  NO_MEMORY,
  plainRoot,
  type JudgeParts,
  type Known,
  type ReceiptMemory,
  type Root,
  type Roots,
  type Rules,
} from './parts.js';
import { Chain, type Invocation, type Receipt } from './receipt.js';

/** A call to judge. */
export interface Call {
  /** The bundle after `JSON.parse`. Nothing about it has been checked. */
  readonly bundle: unknown;
  readonly body: Body | null;
  /** Unix seconds; default: the clock, read after the last wait. */
  readonly now?: number | undefined;
  /** Called before queued work starts: whether somebody still waits for the outcome. */
  readonly isWanted?: (() => boolean) | undefined;
  /** Called before a wait for the status list. If it returns false, the list counts as unavailable at once. */
  readonly mayWait?: (() => boolean) | undefined;
}

/** What a judge says of a call. */
export type Judgement =
  | {
      readonly chain: Chain;
      readonly invocation: Invocation;
      /** What the operator says of the root principal. */
      readonly root: Root;
      readonly binding: Binding | null;
      /** What is left of the chain's limits; `null` if it has none, or nobody counts. */
      readonly limits: readonly LimitLeft[] | null;
      readonly failure: null;
    }
  /** `binding` is only set if it is the reason. */
  | { readonly chain: null; readonly failure: Failure; readonly binding: Binding | null };

/**
 * Judges a call: blocks A to F, then binding, replay and limits. The first failure in this order is the verdict, whatever is
 * cached. It waits at most twice: for signatures, and for the status list; and once more to record the invocation, which
 * comes last, since a refused call must not use it up.
 *
 * @throws what the parts throw, and TypeError if `now` is no time. That says nothing about the bundle, and the content of a
 *   bundle never causes it.
 * @example const { failure } = await judge({ bundle, body: { kind: 'text', text } }, parts);
 */
export async function judge(call: Call, parts: JudgeParts): Promise<Judgement> {
  const { rules, signatures, revocation, clock, requiresBinding, use } = parts;
  // Compared with NaN, nothing has expired.
  if (!Number.isFinite(call.now ?? 0)) throw new TypeError(`now is ${show(call.now)}, expected Unix seconds`);
  const opened = openBundle(call.bundle, parts); // A, B
  if (opened instanceof Failure) return refused(opened);
  const { invocation } = opened.structure;

  const verifying = signatures.verify(opened.plan.checks, call.isWanted);
  const verified = verifying instanceof Promise ? await verifying : verifying;
  let now = call.now ?? clock();
  const proved = proveBundle(opened, verified, now, parts); // C, D, E
  if (proved instanceof Failure) return refused(proved);
  const { chain } = proved;
  let { root } = proved;

  const fetching = chain.isRevocable ? revocation.freshen() : null;
  if (fetching !== null && call.mayWait?.() !== false) {
    await fetching;
    // A receipt or the root may have expired meanwhile, and the root may be trusted no more.
    now = call.now ?? clock();
    const late = checkTrust({ receipts: chain.receipts, chain, invocation }, now, rules);
    if (late instanceof Failure) return refused(late);
    root = late;
  }
  const revoked = checkRevocation(chain, revocation.view); // F
  if (revoked !== null) return refused(revoked);

  const { args } = invocation.claims;
  const binding = bind(args, call.body);
  const unbound = requiresBinding ? checkBinding(binding, args, call.body) : null;
  if (unbound !== null) return refused(unbound, binding);

  const limits = use === null ? null : await use(invocation.claims, chain.limits, now);
  if (limits instanceof Failure) return refused(limits);
  return { chain, root, invocation, binding, limits, failure: null };
}

function refused(failure: Failure, binding: Binding | null = null): Judgement {
  return { chain: null, failure, binding };
}

/** A bundle whose signatures must be verified next. */
export interface OpenedBundle {
  readonly structure: Structure;
  readonly plan: SignaturePlan;
  /** {@link KeyResolver.version} of the keys in the plan. */
  readonly keysVersion: number;
}

/** Everything that can be checked before a signature is verified. What the cache knows of a chain is not checked again. */
export function openBundle(bundle: unknown, { rules, cache, keys }: Known): OpenedBundle | Failure {
  cache.keepFor(keys.version);
  const structure = checkStructure(bundle, rules, cache); // A
  if (structure instanceof Failure) return structure;
  const { receipts, chain } = structure;
  const unlinked = (chain === null ? checkReceiptLinkage(receipts) : null) ?? checkCallLinkage(structure); // B
  if (unlinked !== null) return unlinked;
  return { structure, plan: planSignatures(structure, keys), keysVersion: keys.version };
}

/**
 * Signatures, policy and time.
 *
 * @param verified for each planned check, whether its signature verifies
 * @param now Unix seconds
 * @returns the chain, for which only revocation is left to check, and its root; or why the bundle is not valid
 */
export function proveBundle(
  opened: OpenedBundle,
  verified: readonly boolean[],
  now: number,
  known: Known,
): Proved | Failure {
  const { structure, plan } = opened;
  const root =
    checkSignatures(structure, plan, verified, memoryFor(opened, known)) ?? // C
    checkTrust(structure, now, known.rules); // D, E
  if (root instanceof Failure) return root;
  const { receipts, chain } = structure;
  if (chain !== null) return { chain, root };
  const proved = new Chain(receipts, known.keys);
  memoryFor(opened, known)?.addChain(proved);
  return { chain: proved, root };
}

/** If the keys changed meanwhile, nothing is cached: the signatures were verified under the old keys. */
function memoryFor({ keysVersion }: OpenedBundle, { cache, keys }: Known): ReceiptMemory | null {
  return keysVersion === keys.version ? cache : null;
}

/** A chain that passed blocks A to E, and what the operator says of its root. */
interface Proved {
  readonly chain: Chain;
  readonly root: Root;
}

/** Blocks D and E, by the entry that the root has now. */
function checkTrust(structure: Structure, now: number, rules: Rules): Root | Failure {
  const { receipts, chain } = structure;
  const root = rootOf(rules.trustedRoots, receipts[0] as Receipt);
  const failure =
    (chain === null ? checkReceiptPolicies(receipts, root) : checkRoot(chain.root, root)) ?? // D
    checkCallPolicy(structure, root, rules) ??
    // A root without an entry has failed.
    checkEntry(root as Root, now) ?? // E
    checkWindows(structure, now, rules.clockSkewSecs);
  return failure ?? (root as Root);
}

const ANYBODY = plainRoot();

/**
 * What is said of the root of a chain.
 *
 * @param roots `null` if anybody may be a root
 * @returns `null` if it is not trusted
 */
function rootOf(roots: Roots | null, { claims }: Receipt): Root | null {
  return roots === null ? ANYBODY : (roots.get(claims.iss) ?? null);
}

/** Receipts without an invocation, whose signatures must be verified next. */
export interface OpenedReceipts {
  readonly receipts: readonly Receipt[];
  readonly plan: SignaturePlan;
}

/** Like {@link openBundle}, for receipts without an invocation. Nothing is cached. */
export function openReceipts(
  jwts: readonly string[],
  { keys }: Pick<Known, 'keys'>,
): OpenedReceipts | Failure {
  const receipts = readReceipts(jwts, NO_MEMORY); // A
  if (receipts instanceof Failure) return receipts;
  const unlinked = checkReceiptLinkage(receipts); // B
  if (unlinked !== null) return unlinked;
  return { receipts, plan: planSignatures({ receipts, chain: null, invocation: null }, keys) };
}

/**
 * Like {@link proveBundle}, for receipts without an invocation.
 *
 * @param verified for each planned check, whether its signature verifies
 * @param now Unix seconds
 */
export function proveReceipts(
  { receipts, plan }: OpenedReceipts,
  verified: readonly boolean[],
  now: number,
  { rules }: Pick<Known, 'rules'>,
): Failure | null {
  const root = rootOf(rules.trustedRoots, receipts[0] as Receipt);
  return (
    checkSignatures({ receipts }, plan, verified, null) ?? // C
    checkReceiptPolicies(receipts, root) ?? // D
    checkEntry(root as Root, now) ?? // E
    checkWindows({ receipts, chain: null }, now, rules.clockSkewSecs)
  );
}
