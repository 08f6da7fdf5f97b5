import type { Binding } from '../verify/binding.js';
import { coversCommand } from '../verify/blocks/d-policy.js';
import { gateFailure, verdictFailure, type GateFailure } from './codes.js';
import { gateContextOf, readBundleClaims, type BundleClaims, type GateContext } from './context.js';
import type { InvocationClaims } from '../protocol/claims.js';
import type { CallBody, Denial, PendingCall } from './request.js';

/** The members of a verdict that the gate reads. */
export type ChainVerdict =
  | { readonly valid: true; readonly binding?: Binding }
  | {
      readonly valid: false;
      readonly error: { readonly code: string; readonly message: string; readonly suggestion: string };
    };

/**
 * What the gate does with the binding check: `enforced` denies a call whose body does not match, `report` only puts the
 * result into the context, `off` does not read the body.
 */
export type BindingMode = 'enforced' | 'report' | 'off';

/** The gate's own rules, in addition to the verifier's options. */
export interface GateRules {
  /** The principals that may be roots; `null` for any. */
  readonly trustedRoots: ReadonlySet<string> | null;
  /** The `tool_server` that invocations must be for; `null` for any. */
  readonly serverIdentity: string | null;
  readonly bindingMode: BindingMode;
}

/** A call that may reach its handler if the replay check succeeds too. */
export interface Allowance {
  readonly kind: 'allow';
  readonly context: GateContext;
  readonly claims: BundleClaims;
}

/** The second parameter of `verify`: the body that the verifier compares with the signed arguments. */
export function bindOptionsOf(body: CallBody): { bodyText?: string; body?: unknown } {
  switch (body.kind) {
    case 'text':
      return { bodyText: body.text };
    case 'value':
      return { body: body.value };
    default:
      return {};
  }
}

/**
 * Decides on a call whose chain was verified. Checks command, tool and binding, in this order. The caller checks replay
 * afterwards, since a denied call must not use up its invocation.
 *
 * @param verdict on `call.bundle`, verified with the options {@link bindOptionsOf} makes of `call.body`
 * @throws Error if the verdict is valid, but the bundle cannot be read
 * @example
 * const verdict = await verifier.verify(call.bundle, bindOptionsOf(call.body));
 * const decided = decideCall(call, verdict, rules);
 */
export function decideCall(call: PendingCall, verdict: ChainVerdict, rules: GateRules): Allowance | Denial {
  if (!verdict.valid) return denied(call, failureOf(call, verdict.error));
  const claims = readBundleClaims(call.bundle);
  const binding = bindingOf(verdict, call.body);
  const rootPrincipal = claims.receipts[0].iss;
  const failure = checkCall(call, { rootPrincipal, invocation: claims.invocation, binding }, rules);
  if (failure !== null) return denied(call, failure);
  return { kind: 'allow', context: gateContextOf(claims, binding), claims };
}

/** The parts of a valid chain that a call is compared with. */
export interface VerifiedCall {
  /** The root's `iss`. */
  readonly rootPrincipal: string;
  readonly invocation: Pick<InvocationClaims, 'cmd' | 'args' | 'tool_server'>;
  /** How the body of this call compares with the signed arguments; `null` if it was not read. */
  readonly binding: Binding | null;
}

/**
 * Checks a call whose chain is valid: command, tool and binding, in this order. {@link decideCall} starts from a
 * verdict; this function starts from the claims, for callers that have them.
 *
 * @returns `null` if the call is the one that was signed
 */
export function checkCall(
  call: PendingCall,
  { rootPrincipal, invocation, binding }: VerifiedCall,
  rules: GateRules,
): GateFailure | null {
  const mismatch = findMismatch(call, rootPrincipal, invocation, rules);
  if (mismatch !== null) return mismatch;
  if (rules.bindingMode !== 'enforced' || binding === 'match') return null;
  return bindingFailure(call, binding ?? 'invalid_body');
}

/** Makes the denial for a failure found outside {@link decideCall}: a replay, or no verdict from the verifier. */
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
  root: string,
  { tool_server: server, cmd, args }: VerifiedCall['invocation'],
  { trustedRoots, serverIdentity }: GateRules,
): GateFailure | null {
  if (trustedRoots !== null && !trustedRoots.has(root)) {
    return verdictFailure({
      code: 'UNTRUSTED_ROOT',
      message: `Receipt 0: iss is ${brief(root)}, expected one of the principals that this server trusts`,
      suggestion:
        'Use a delegation by a principal that this server trusts, or have the operator add this one.',
    });
  }
  if (serverIdentity !== null && server !== serverIdentity) {
    return verdictFailure({
      code: 'TOOL_SERVER_MISMATCH',
      message: `Invocation: tool_server is ${brief(server)}, expected ${brief(serverIdentity)}`,
      suggestion: 'Sign the invocation for the tool server that is called.',
    });
  }
  const { command, orBelow, tool } = expected;
  if (command !== null && !(orBelow ? coversCommand(command, cmd) : cmd === command)) {
    return verdictFailure({
      code: 'COMMAND_MISMATCH',
      message: `Invocation: cmd is ${brief(cmd)}, expected ${brief(command)}${orBelow ? ' or a path below it' : ''}`,
      suggestion: 'Sign the invocation for the command of this very request.',
    });
  }
  if (tool === null || args['tool'] === tool) return null;
  const found = typeof args['tool'] === 'string' ? brief(args['tool']) : 'no tool';
  const message = `Invocation: it was signed for ${found}, and this is ${brief(tool)}`;
  return gateFailure('TOOL_MISMATCH', protocol, message, { verdict: { valid: false } });
}

/** If the verifier enforces the binding itself (`REQUIRE_BINDING`), its refusal becomes the gate's binding failure. */
function failureOf(call: PendingCall, error: Extract<ChainVerdict, { valid: false }>['error']): GateFailure {
  if (error.code === 'BINDING_MISMATCH') return bindingFailure(call, 'mismatch');
  if (error.code === 'BINDING_REQUIRED') return bindingFailure(call, 'invalid_body');
  return verdictFailure(error);
}

/** Only the call's own body counts. A bundle can contain a `body` member, which the verifier would compare instead. */
function bindingOf({ binding }: Extract<ChainVerdict, { valid: true }>, body: CallBody): Binding | null {
  if (body.kind === 'unusable') return 'invalid_body';
  return body.kind === 'unread' ? null : (binding ?? null);
}

function bindingFailure({ protocol, body }: PendingCall, binding: Exclude<Binding, 'match'>): GateFailure {
  const message =
    body.kind === 'unusable'
      ? body.reason
      : binding === 'mismatch'
        ? 'the body of the call is not what invocation.args were signed for'
        : 'the body of the call is not JSON with one meaning, expected the signed invocation.args';
  return gateFailure('BINDING_MISMATCH', protocol, message, { verdict: { valid: true, binding } });
}

function brief(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}
