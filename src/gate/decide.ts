import type { JsonObject, JsonValue } from '../protocol/json.js';
import type { Binding } from '../verify/binding.js';
import { describeDifference } from '../verify/difference.js';
import { gateFailure, verdictFailure, type Explained, type GateFailure } from './codes.js';
import { Failure } from '../verify/codes.js';
import type { Judgement } from '../verify/judge.js';
import { statedOf, type Stated } from '../verify/tools.js';
import { statedCostOf, type CountedLimits, type LimitLeft } from '../verify/limits.js';
import type { VerdictContext } from '../verify/receipt.js';
import {
  callContextOf,
  countedOf,
  readBundleClaims,
  type BriefContext,
  type CallContext,
  type ContextReceipt,
  type GateContext,
  type RootDescription,
} from './context.js';
import { coversCommand, type InvocationClaims } from '../protocol/claims.js';
import type { StatedClaims } from '../protocol/consent.js';
import type { Policy } from '../protocol/policy.js';
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

/** What the gate does with the binding check: `enforced` denies a call whose body does not match, `off` does not read the body. */
export type BindingMode = 'enforced' | 'off';

/** The gate's own rules, in addition to the verifier's options. */
export interface GateRules {
  /** The principals that may be roots; `null` for any. */
  readonly trustedRoots: ReadonlySet<string> | null;
  /** The `tool_server` that invocations must be for; `null` for any, `undefined` for none: then no call is allowed. */
  readonly serverIdentity: string | null | undefined;
  readonly bindingMode: BindingMode;
}

/** A valid chain, as far as the gate reads it. */
export interface JudgedChain {
  readonly failure: null;
  /** Root first. */
  readonly receipts: readonly [ContextReceipt, ...ContextReceipt[]];
  /** What the verifier's operator says of the root principal. */
  readonly root: RootDescription;
  readonly invocation: Pick<
    InvocationClaims,
    'iss' | 'sub' | 'jti' | 'iat' | 'cmd' | 'args' | 'tool_server' | keyof StatedClaims
  >;
  /** The limits that are to be counted for the call. */
  readonly limits: readonly CountedLimits[];
  /** How the body of this call compares with the signed arguments; `null` if it was not compared. */
  readonly binding: Binding | null;
  /** Who says what the call does, as the verifier knows it. */
  readonly stated: Stated;
}

/** A chain that is not valid. */
export interface JudgedInvalid {
  readonly failure: Explained;
}

/** What a gate decides with. */
export interface GateParts<C extends JudgedChain> {
  readonly rules: GateRules;
  /** Gives the time in Unix seconds. */
  readonly now: () => number;
  /** Verifies the chain of a call, and compares its body with the signed arguments. */
  readonly judge: (call: PendingCall) => Promise<C | JudgedInvalid>;
  /** A further check of a transport, before the invocation counts as used. */
  readonly findFailure?: ((context: BriefContext) => GateFailure | null) | undefined;
  /**
   * Records the invocation and charges the call to its limits. Says why it may not be used, or what is left of the limits.
   * `null` if invocations may be used again, and nobody counts.
   */
  readonly use:
    | ((
        invocation: C['invocation'],
        limits: readonly CountedLimits[],
        now: number,
        costMicroUsd: number | null,
      ) => Promise<Failure | readonly LimitLeft[] | null>)
    | null;
  /** Signs the context of an allowed call. */
  readonly sign?: ((allowed: AllowedCall<C>) => string) | undefined;
}

/** An allowed call. */
export interface AllowedCall<C extends JudgedChain> {
  readonly call: PendingCall;
  readonly chain: C;
  readonly context: BriefContext;
  /** Unix seconds. */
  readonly now: number;
}

/** A call may reach its handler. */
export interface Allowance<C extends JudgedChain = JudgedChain> {
  readonly kind: 'allow';
  readonly context: BriefContext;
  readonly chain: C;
  /** The signed context; `null` if the gate does not sign. */
  readonly token: string | null;
}

/** A call must not reach its handler. */
export interface Refused<C extends JudgedChain = JudgedChain> extends Denial {
  /** `null` if the chain is not valid, or was not judged. */
  readonly chain: C | null;
}

/**
 * Decides on a call: chain, root and tool server, command, tool, binding, replay and limits, in this order. The last two come in one step, since
 * a denied call must not use up its invocation. All doors decide here.
 *
 * @throws what the parts throw; then there is no decision, and the call must be refused ({@link verifierUnavailable})
 * @example
 * const judge = async (call) => judgedOf(call, await verifier.verify(call.bundle, bindOptionsOf(call.body)));
 * const decided = await decide(call, { now, judge, rules, use: null });
 */
export async function decide<C extends JudgedChain>(
  call: PendingCall,
  { now, judge, rules, findFailure, use, sign }: GateParts<C>,
): Promise<Allowance<C> | Refused<C>> {
  const chain = await judge(call);
  if (chain.failure !== null) return { ...denied(call, failureOf(call, chain.failure)), chain: null };
  const binding = bindingOf(chain.binding, call.body);
  const mismatch =
    findMismatch(call, chain, rules) ??
    (rules.bindingMode === 'off' || binding === 'match'
      ? null
      : bindingFailure(call, binding ?? 'invalid_body', chain.invocation.args));
  if (mismatch !== null) return { ...denied(call, mismatch), chain };
  const context = contextOf(chain, binding);
  const fault = findFailure?.(context) ?? null;
  if (fault !== null) return { ...denied(call, fault), chain };
  const at = now();
  const cost = statedCostOf(chain.invocation.args, chain.stated);
  const left = use === null ? null : await use(chain.invocation, chain.limits, at, cost);
  if (left instanceof Failure) return { ...denied(call, verdictFailure(left)), chain };
  Object.assign(context, countedOf(chain.limits, left));
  return { kind: 'allow', context, chain, token: sign?.({ call, chain, context, now: at }) ?? null };
}

/** A verified chain with everything that its context says, wherever it was verified. */
export interface ProvedChain extends JudgedChain {
  /** The policy of the last receipt, for the caller alone. */
  readonly leafPolicy: () => Policy;
}

/** What a judge of this process says of a call, for {@link GateParts.judge}. Nothing that it has read is read again. */
export function provedChainOf(judgement: Judgement): ProvedChain | JudgedInvalid {
  if (judgement.failure !== null) return { failure: judgement.failure };
  const { chain, root, tool, invocation, binding } = judgement;
  // The type does not say that a chain has a root.
  const receipts = chain.receipts.map(({ claims }) => claims) as unknown as ProvedChain['receipts'];
  const leafPolicy = () => (JSON.parse(chain.contextJson) as VerdictContext).leaf_policy;
  const { limits } = chain;
  const { claims } = invocation;
  const stated = statedOf(chain.receipts, claims.args, tool);
  return { failure: null, receipts, root, invocation: claims, limits, binding, stated, leafPolicy };
}

/**
 * What a verdict says of a call, for {@link GateParts.judge}. Claims are read from the call's bundle.
 *
 * @param verdict on `call.bundle`, verified with the options {@link bindOptionsOf} makes of `call.body`
 * @throws Error if the verdict is valid, but the bundle cannot be read
 */
export function judgedOf(
  { bundle }: Pick<PendingCall, 'bundle'>,
  verdict: ChainVerdict,
): ProvedChain | JudgedInvalid {
  if (!verdict.valid) return { failure: verdict.error };
  const { receipts, limits, invocation } = readBundleClaims(bundle);
  const [root] = receipts;
  const { root_name: name = null, labels = null, stated_by, unstated, cost_usd } = verdict.details ?? {};
  return {
    failure: null,
    receipts,
    root: { name, labels },
    invocation,
    limits,
    binding: verdict.binding ?? null,
    stated: {
      ...(stated_by && { stated_by }),
      ...(unstated && { unstated }),
      ...(cost_usd !== undefined && { cost_usd }),
    },
    leafPolicy: () => (receipts.at(-1) ?? root).policy,
  };
}

/** The whole context of a chain, deeply frozen. */
export function frozenContextOf(
  chain: ProvedChain,
  context: BriefContext = contextOf(chain, chain.binding),
): GateContext {
  return freeze({ ...context, leaf_policy: chain.leafPolicy() });
}

function contextOf(
  { receipts, root, invocation, stated }: JudgedChain,
  binding: Binding | null,
): BriefContext {
  const context: BriefContext & { binding?: Binding } = {
    root_principal: receipts[0].iss,
    chain_depth: receipts.length,
    tool_server: invocation.tool_server,
    ...callContextOf(receipts, invocation, root, stated),
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
  { receipts, invocation }: JudgedChain,
  { trustedRoots, serverIdentity }: GateRules,
): GateFailure | null {
  const [{ iss: root }] = receipts;
  const { tool_server: server, cmd, args } = invocation;
  const fail = (code: string, message: string, suggestion: string) =>
    verdictFailure({ code, message, suggestion });
  if (trustedRoots !== null && !trustedRoots.has(root)) {
    const message = `Receipt 0: iss is ${shown(root)}, expected one of the principals that this server trusts`;
    const remedy =
      'Use a delegation by a principal that this server trusts, or have the operator add this one.';
    return fail('UNTRUSTED_ROOT', message, remedy);
  }
  if (serverIdentity === undefined) {
    const message = `Invocation: tool_server is ${shown(server)}, and this gate does not know the name of its tool server`;
    const remedy =
      'The operator of the gate sets SERVER_IDENTITY to the tool_server that calls are signed for, or to any.';
    return fail('TOOL_SERVER_MISMATCH', message, remedy);
  }
  if (serverIdentity !== null && server !== serverIdentity) {
    const message = `Invocation: tool_server is ${shown(server)}, expected ${shown(serverIdentity)}`;
    return fail('TOOL_SERVER_MISMATCH', message, 'Sign the invocation for the tool server that is called.');
  }
  const { command, orBelow, tool } = expected;
  if (command !== null && !(orBelow ? coversCommand(command, cmd) : cmd === command)) {
    const message = `Invocation: cmd is ${shown(cmd)}, expected ${shown(command)}${orBelow ? ' or a path below it' : ''}`;
    return fail('COMMAND_MISMATCH', message, 'Sign the invocation for the command of this very request.');
  }
  if (tool === null || args['tool'] === tool) return null;
  const found = typeof args['tool'] === 'string' ? shown(args['tool']) : 'no tool';
  const message = `Invocation: it was signed for ${found}, and this is ${shown(tool)}`;
  return gateFailure('TOOL_MISMATCH', protocol, message, { verdict: { valid: false } });
}

/** If the verifier enforces the binding itself (`REQUIRE_BINDING`), its refusal becomes the gate's binding failure. */
function failureOf(call: PendingCall, error: JudgedInvalid['failure']): GateFailure {
  if (error.code === 'BINDING_MISMATCH') return bindingFailure(call, 'mismatch', argsOf(call.bundle));
  if (error.code === 'BINDING_REQUIRED') return bindingFailure(call, 'invalid_body', null);
  return verdictFailure(error);
}

/** Only the call's own body counts. A bundle can contain a `body` member, which the verifier would compare instead. */
function bindingOf(binding: Binding | null, body: CallBody): Binding | null {
  if (body.kind === 'unusable') return 'invalid_body';
  return body.kind === 'unread' ? null : binding;
}

/** The signed arguments of a bundle; `null` if it cannot be read. */
export function argsOf(bundle: JsonValue): JsonObject | null {
  try {
    return readBundleClaims(bundle).invocation.args;
  } catch {
    return null;
  }
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
