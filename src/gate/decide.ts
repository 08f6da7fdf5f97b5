import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import { unapproved, whoAsks, type Approved } from '../verify/approval.js';
import type { Binding } from '../verify/binding.js';
import { describeDifference } from '../verify/difference.js';
import { Failure, show, showTime } from '../verify/codes.js';
import {
  checkCommand,
  checkStructure,
  checkToolServer,
  readInvocation,
  untrustedRoot,
  type Proof,
} from '../verify/judge.js';
import type { JudgeParts } from '../verify/parts.js';
import { Chain, type VerdictContext } from '../verify/receipt.js';
import type { Stated } from '../verify/tools.js';
import { statedCostOf } from '../verify/limits.js';
import { gateFailure, verdictFailure, type Explained, type GateFailure } from './codes.js';
import {
  callContextOf,
  countedOf,
  type BriefContext,
  type CallContext,
  type GateContext,
} from './context.js';
import { shown, type CallBody, type Denial, type PendingCall } from './request.js';

/** The members of a verdict that the gate reads. */
export type ChainVerdict =
  | {
      readonly valid: true;
      readonly binding?: Binding;
      /** What the verifier's operator says of the root principal, if it was asked for. */
      readonly details?: Pick<CallContext, 'root_name' | 'labels' | keyof Stated>;
    }
  | { readonly valid: false; readonly error: Explained };

/** The gate's own rules, in addition to the verifier's options. */
export interface GateRules {
  /** The principals that may be roots; `null` for any. */
  readonly trustedRoots: ReadonlySet<string> | null;
  /** The `tool_server` that invocations must be for; `null` for any, `undefined` for none: then no call is allowed. */
  readonly serverIdentity: string | null | undefined;
}

/** What was found of the bundle of a call: a judgement of this process, or the verdict of another. */
export type Judged = Proof | { readonly failure: Explained };

/** What becomes of a call that needs a person's yes, where somebody asks for it. */
export type AskedGate =
  | {
      readonly kind: 'yes';
      readonly approval: Approved;
      /** Called once, when it is decided whether the call may pass. If not, its yes is given back. */
      readonly decided: (isUsed: boolean) => unknown;
    }
  | {
      readonly kind: 'asked' | 'denied';
      /** Who can say yes, and where, until when in Unix seconds; of a no, when it ends. */
      readonly names: readonly string[];
      readonly url: string;
      readonly end: number;
    }
  /** Nobody is asked. `expected`: what would have to be, in words. */
  | { readonly kind: 'refused'; readonly expected: string };

/** A further check of a transport, before the invocation counts as used. */
export type TransportCheck = (context: BriefContext) => GateFailure | null;

export interface GateParts extends Pick<JudgeParts, 'use'> {
  readonly rules: GateRules;
  /** Gives the time in Unix seconds. */
  readonly now: () => number;
  /** Takes a person's yes to a call, or asks for it. Left out: nobody asks, and a call that needs one is refused. */
  readonly ask?: ((proof: Proof) => AskedGate | Promise<AskedGate>) | undefined;
  readonly sign?:
    ((call: PendingCall, proof: Proof, context: BriefContext, now: number) => string) | undefined;
}

/** A call may reach its handler. */
export interface Allowance {
  readonly kind: 'allow';
  readonly context: BriefContext;
  readonly proof: Proof;
  /** The signed context; `null` if the gate does not sign. */
  readonly token: string | null;
}

/**
 * Decides on a call whose bundle was judged: chain, root and tool server, command, tool, binding, a person's yes, replay and limits, in
 * this order. The last two come in one step, since a denied call must not use up its invocation. All doors decide here.
 *
 * @throws what the parts throw; then there is no decision, and the call must be refused ({@link verifierUnavailable})
 */
export async function decide(
  call: PendingCall,
  judged: Judged,
  { now, rules, ask, use, sign }: GateParts,
  checkTransport?: TransportCheck,
): Promise<Allowance | Denial> {
  if (judged.failure !== null) return denied(call, failureOf(call, judged.failure));
  const { chain, invocation } = judged;
  const { args } = invocation.claims;
  const binding = bindingOf(judged.binding, call.body);
  const mismatch =
    findMismatch(call, judged, rules) ??
    (call.body.kind === 'uncompared' || binding === 'match'
      ? null
      : bindingFailure(call, binding ?? 'invalid_body', args));
  if (mismatch !== null) return denied(call, mismatch);
  const context = contextOf(judged, binding);
  const fault = checkTransport?.(context) ?? null;
  if (fault !== null) return denied(call, fault);
  // A verdict of another verifier has this in it, but one of an older version does not know the member.
  const reason = whoAsks(judged, call.approve);
  const yes = reason === null ? null : await findYes(call, judged, reason, ask);
  if (yes !== null && 'code' in yes) return { ...denied(call, yes), elicits: call.elicits?.() };
  let isAllowed = false;
  try {
    const at = now();
    const left =
      use === null ? null : await use(invocation.claims, chain.limits, at, statedCostOf(args, context));
    if (left instanceof Failure) return denied(call, verdictFailure(left));
    Object.assign(context, countedOf(chain.limits, left));
    if (yes !== null) Object.assign(context, { approval: yes.approval });
    const token = sign?.(call, judged, context, at) ?? null;
    isAllowed = true;
    return { kind: 'allow', context, proof: judged, token };
  } finally {
    if (yes !== null) await yes.decided(isAllowed);
  }
}

/**
 * The yes that a call needs, or why it has none.
 *
 * @param reason what says that it needs one
 */
async function findYes(
  { protocol }: PendingCall,
  proof: Proof,
  reason: string,
  ask: GateParts['ask'],
): Promise<Extract<AskedGate, { kind: 'yes' }> | GateFailure> {
  const refusal = (expected?: string) => verdictFailure(unapproved(proof, reason, expected));
  if (ask === undefined) return refusal();
  const asked = await ask(proof);
  if (asked.kind === 'yes') return asked;
  if (asked.kind === 'refused') return refusal(asked.expected);
  const { names, url, end } = asked;
  const approval = { url, expires_at: end };
  if (asked.kind === 'denied') {
    const message = `Invocation: somebody said no to this call, which holds until ${showTime(end)}`;
    return { ...gateFailure('APPROVAL_DENIED', protocol, message, { verdict: { valid: false } }), approval };
  }
  const who = names.map(show).join(' or ');
  const failure = refusal(`that ${who} opens ${url} and says yes by ${showTime(end)}`);
  return { ...failure, suggestion: ASKED, approval };
}

/** Agents read it, and show it to people. */
const ASKED =
  'Show this link to the person. When they have said yes, sign the same call anew and send it: it passes once.';

/**
 * What the verdict of another verifier says of a call. Block A reads the call's bundle.
 *
 * @param verdict on `call.bundle`, verified with the options {@link bindOptionsOf} makes of `call.body`
 * @throws Error if the verdict is valid, but the bundle cannot be read
 */
export function judgedOf({ bundle }: Pick<PendingCall, 'bundle'>, verdict: ChainVerdict): Judged {
  if (!verdict.valid) return { failure: verdict.error };
  const read = checkStructure(bundle, Infinity, null);
  if (read instanceof Failure)
    throw new Error(
      `the verifier accepted what the gate cannot read (${read.message}): use the same version of both`,
    );
  const { root_name: name = null, labels = null, stated_by, unstated, cost_usd } = verdict.details ?? {};
  return {
    failure: null,
    effort: null,
    chain: new Chain(read.receipts, DEFAULT_KEYS),
    invocation: read.invocation,
    root: { name, labels, approval: null, policy: null },
    tool: null,
    stated: {
      ...(stated_by && { stated_by }),
      ...(unstated && { unstated }),
      ...(cost_usd !== undefined && { cost_usd }),
    },
    binding: verdict.binding ?? null,
    limits: null,
  };
}

/** The context of a call with the policy of its last receipt, which is of its own. */
export function wholeContextOf({ proof, context }: Pick<Allowance, 'proof' | 'context'>): GateContext {
  return { ...context, leaf_policy: (JSON.parse(proof.chain.contextJson) as VerdictContext).leaf_policy };
}

/** The whole context of a call, deeply frozen. */
export function frozenContextOf(
  proof: Proof,
  context: BriefContext = contextOf(proof, proof.binding),
): GateContext {
  return freeze(wholeContextOf({ proof, context }));
}

function contextOf(proof: Proof, binding: Binding | null): BriefContext {
  const { chain, invocation } = proof;
  const context: BriefContext & { binding?: Binding } = {
    root_principal: chain.root.claims.iss,
    chain_depth: chain.receipts.length,
    tool_server: invocation.claims.tool_server,
    ...callContextOf(proof),
  };
  if (binding !== null) context.binding = binding;
  return context;
}

/** Freezes a value and everything in it. Strict JSON bounds the depth. */
function freeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const member of Object.values(value)) freeze(member);
  return Object.freeze(value);
}

/** The second parameter of `verify`: the body that the verifier compares with the signed arguments. */
export function bindOptionsOf(body: CallBody): { bodyText?: string; body?: unknown } {
  if (body.kind === 'text') return { bodyText: body.text };
  return body.kind === 'value' ? { body: body.value } : {};
}

/** Makes the denial for a failure found outside {@link decide}, such as no verdict from the verifier. */
export function denied(
  { protocol, id, form, requested }: Pick<PendingCall, 'protocol' | 'id' | 'form' | 'requested'>,
  failure: GateFailure,
): Denial {
  return { kind: 'deny', protocol, id, form, requested, failure };
}

/** The failure where the body, or the rest of it, did not come. */
export function bodyTimedOut({ protocol }: Pick<PendingCall, 'protocol'>): GateFailure {
  return gateFailure('BODY_TIMEOUT', protocol, 'the body did not arrive in time');
}

/**
 * The failure if there is no verdict. The message gives no reason: that is for the operator's log, not for the
 * caller.
 */
export function verifierUnavailable({ protocol }: Pick<PendingCall, 'protocol'>): GateFailure {
  return gateFailure('VERIFIER_UNAVAILABLE', protocol, 'the call could not be verified');
}

/** The first mismatch between call and chain: root and tool server as in block D, then command, then tool. */
function findMismatch(
  { protocol, expected }: PendingCall,
  { chain, invocation }: Proof,
  { trustedRoots, serverIdentity }: GateRules,
): GateFailure | null {
  const { cmd, args } = invocation.claims;
  const { command, orBelow, tool } = expected;
  const failure =
    (trustedRoots?.has(chain.root.claims.iss) === false ? untrustedRoot(chain.root) : null) ??
    checkToolServer(invocation, serverIdentity) ??
    (command === null ? null : checkCommand('invocation', cmd, command, orBelow));
  if (failure !== null) return verdictFailure(failure);
  if (tool === null || args['tool'] === tool) return null;
  const found = typeof args['tool'] === 'string' ? shown(args['tool']) : 'no tool';
  const message = `Invocation: it was signed for ${found}, and this is ${shown(tool)}`;
  return gateFailure('TOOL_MISMATCH', protocol, message, { verdict: { valid: false } });
}

/** If the verifier enforces the binding itself (`REQUIRE_BINDING`), its refusal becomes the gate's binding failure. */
function failureOf(call: PendingCall, error: Explained): GateFailure {
  if (error.code === 'BINDING_MISMATCH') return bindingFailure(call, 'mismatch', argsOf(call.bundle));
  if (error.code === 'BINDING_REQUIRED') return bindingFailure(call, 'invalid_body', null);
  return verdictFailure(error);
}

/** Only the call's own body counts. A bundle can contain a `body` member, which the verifier would compare instead. */
function bindingOf(binding: Binding | null, body: CallBody): Binding | null {
  if (body.kind === 'unusable') return 'invalid_body';
  return body.kind === 'unread' || body.kind === 'uncompared' ? null : binding;
}

/** The signed arguments of a bundle; `null` if it cannot be read. */
export function argsOf(bundle: JsonValue): JsonObject | null {
  const jwt = isJsonObject(bundle) ? bundle['invocation'] : null;
  const invocation = typeof jwt === 'string' ? readInvocation(jwt) : null;
  return invocation === null || invocation instanceof Failure ? null : invocation.claims.args;
}

/**
 * Makes the failure for a body that is not what was signed. For a mismatch it names the first difference.
 *
 * @param args the signed arguments, if they are known
 */
export function bindingFailure(
  { protocol, body }: Pick<PendingCall, 'protocol' | 'body'>,
  binding: Exclude<Binding, 'match'>,
  args: JsonObject | null,
): GateFailure {
  let message = 'the body of the call is not JSON with one meaning, expected the signed invocation.args';
  if (body.kind === 'unusable') message = body.reason;
  else if (binding === 'mismatch') {
    // Verdicts, also those of a remote verifier, do not say what differs: claims and body are both here.
    const difference = args === null ? null : describeDifference(args, body);
    message = 'the body of the call is not what invocation.args were signed for';
    if (difference !== null) message += `: ${difference}`;
  }
  return gateFailure('BINDING_MISMATCH', protocol, message, { verdict: { valid: true, binding } });
}
