import type { Logger } from 'pino';
import { watchReplay, type Body, type Engine, type Outcome } from '../engine/engine.js';
import {
  bodyTimedOut,
  callContextOf,
  checkCall,
  denied,
  openRequest,
  responseTo,
  verdictFailure,
  verifierUnavailable,
  type BriefContext,
  type CallBody,
  type Denial,
  type GateContext,
  type GateProtocol,
  type GateRequest,
  type GateResponse,
  type GateRules,
  type McpRules,
  type PendingCall,
} from '../gate/index.js';
import type { ReplayRules, ReplayStore } from '../replay/index.js';
import { WorkDropped } from '../signatures/signature-verifier.js';
import type { Binding } from '../verify/binding.js';
import type { Failure } from '../verify/codes.js';
import type { Receipt } from '../verify/receipt.js';
import type { Admission, Ticket } from './admission.js';
import type { Configuration } from './configuration.js';
import type { ContextSigner } from './context-token.js';
import type { GateEndpoint, GateObserver } from './gate-metrics.js';
import type { Rejection } from './rejections.js';

/** A protocol request, as a transport passes it in. */
export interface GateCall {
  readonly protocol: GateProtocol;
  /** Where it was asked, for the metrics. */
  readonly endpoint: GateEndpoint;
  readonly request: GateRequest;
  /** The length of the body, for admission. */
  readonly bytes: number;
  /** Called before queued work starts: whether somebody still waits for the decision. If left out: always. */
  readonly isWanted?: () => boolean;
  /** A ticket that the transport has already obtained from admission; the decider releases it. */
  readonly ticket?: Ticket;
  /** Called with the verdict on the bundle, if there is one. */
  readonly onVerdict?: (outcome: Outcome, bundle: unknown) => void;
}

/** What the transport must do with the request. */
export type GateDecision =
  /** Nothing to check. */
  | { readonly kind: 'pass' }
  | Allowance
  | { readonly kind: 'deny'; readonly code: string; readonly response: GateResponse };

/** A call may reach its handler. */
export interface Allowance {
  readonly kind: 'allow';
  /** See {@link wholeContextOf}. */
  readonly context: BriefContext;
  readonly leaf: Receipt;
  /** The signed context; `null` if the gate does not sign. */
  readonly token: string | null;
}

/** What the decider needs. */
export interface GateDeciderContext {
  readonly engine: Engine;
  readonly configuration: Pick<
    Configuration,
    'replayWindowSecs' | 'clockSkewSecs' | 'trustedRoots' | 'gatePassMethods' | 'gateMethods'
  >;
  readonly admission: Admission;
  readonly log: Logger;
  /** The record of used invocations; `null` only if the operator has turned it off. Whoever opened it closes it. */
  readonly replays: ReplayStore | null;
  /** `null` if contexts are not signed. */
  readonly signer: ContextSigner | null;
  readonly observer: GateObserver;
}

const PASS: GateDecision = { kind: 'pass' };

/** No roots and no server name: the engine has already checked the configured ones. */
const RULES: GateRules = { trustedRoots: null, serverIdentity: null, bindingMode: 'enforced' };
const CHAIN_ONLY: GateRules = { ...RULES, bindingMode: 'off' };

/**
 * Decides on protocol requests for every transport of the service: admission, verdict, the gate's rules, replay, signed
 * context and metrics. A transport only translates requests and decisions.
 *
 * @example
 * const decision = await decider.decide({ protocol: 'mcp', request, bytes: body.length });
 * if (decision.kind === 'deny') send(decision.response);
 */
export class GateDecider {
  readonly #context: GateDeciderContext;
  readonly #replayRules: ReplayRules;
  readonly #mcpRules: McpRules;
  #hasWarned = false;

  constructor(context: GateDeciderContext) {
    this.#context = context;
    const {
      replayWindowSecs: windowSecs,
      clockSkewSecs,
      gatePassMethods,
      gateMethods,
    } = context.configuration;
    this.#replayRules = { scope: 'gate', windowSecs, clockSkewSecs };
    this.#mcpRules = { passMethods: new Set(gatePassMethods), methods: gateMethods };
  }

  /** Decides on a request. Never rejects: if the check fails, the request is denied. */
  async decide(call: GateCall): Promise<GateDecision> {
    const { admission, engine, observer, log } = this.#context;
    const ticket = call.ticket ?? (admission.isDraining ? null : admission.enter(call.bytes));
    if (ticket === null) return this.unavailable(call, admission.isDraining ? 'shutting_down' : 'overloaded');
    try {
      if (call.request.body.kind === 'too large') observer.rejected(call.endpoint, 'too_large');
      const opened = openRequest(call.protocol, call.request, this.#mcpRules);
      let decision: GateDecision | Promise<GateDecision>;
      if (opened.kind === 'pass') decision = PASS;
      else if (opened.kind === 'deny') decision = toDecision(opened);
      else {
        const outcome = await engine.verify({
          bundle: opened.bundle,
          body: bodyOf(opened.body),
          isForGate: true,
          isWanted: call.isWanted,
          mayWait: () => ticket.park(),
        });
        observer.countOutcome(outcome);
        call.onVerdict?.(outcome, opened.bundle);
        decision = this.#judge(call.protocol, opened, outcome);
      }
      if (decision instanceof Promise) decision = await decision;
      observer.decided(call.protocol, decision.kind, decision.kind === 'deny' ? decision.code : '');
      return decision;
    } catch (error) {
      // Nobody waits for the decision any more.
      if (error instanceof WorkDropped) return this.#unread(call.protocol, verifierUnavailable);
      log.error({ err: error }, 'a request failed inside the gate');
      return this.unavailable(call, 'internal');
    } finally {
      ticket.release();
    }
  }

  /** The denial for a request that cannot be checked. */
  unavailable(
    { protocol, endpoint }: Pick<GateCall, 'protocol' | 'endpoint'>,
    reason: 'overloaded' | 'shutting_down' | 'internal',
  ): GateDecision {
    this.rejected(endpoint, reason);
    return this.#unread(protocol, verifierUnavailable);
  }

  /** The decision on a request whose body did not come whole. */
  timedOut({ protocol, endpoint }: Pick<GateCall, 'protocol' | 'endpoint'>): GateDecision {
    this.rejected(endpoint, 'timeout');
    return this.#unread(protocol, bodyTimedOut);
  }

  /** Counts a question that a transport answers itself, without a decision. */
  rejected(endpoint: GateEndpoint, reason: Rejection): void {
    this.#context.observer.rejected(endpoint, reason);
  }

  #unread(protocol: GateProtocol, fail: typeof verifierUnavailable): GateDecision {
    const form = protocol === 'chain' ? 'mcp' : protocol;
    const failure = fail({ protocol: form });
    const decision = toDecision({ kind: 'deny', protocol: form, id: null, requested: null, failure });
    this.#context.observer.decided(protocol, 'deny', failure.code);
    return decision;
  }

  /** Decides on a call whose bundle was verified. */
  #judge(protocol: GateProtocol, call: PendingCall, outcome: Outcome): GateDecision | Promise<GateDecision> {
    if (outcome.failure !== null) return deny(call, verdictFailure(outcome.failure));
    const { chain, invocation } = outcome;
    const binding = call.body.kind === 'unusable' ? 'invalid_body' : outcome.binding;
    const rootPrincipal = chain.root.claims.iss;
    const rules = protocol === 'chain' ? CHAIN_ONLY : RULES;
    const failure = checkCall(call, { rootPrincipal, invocation: invocation.claims, binding }, rules);
    if (failure !== null) return deny(call, failure);
    const { replays, signer, observer } = this.#context;
    const now = Math.floor(Date.now() / 1000);
    const conclude = (replayed: Failure | null): GateDecision => {
      if (replayed !== null) return deny(call, verdictFailure(replayed));
      this.#warnOfAnyRoot();
      const context = contextOf(outcome, binding);
      const token = signer?.sign({ context, call, invocation: invocation.claims, now }) ?? null;
      return { kind: 'allow', context, leaf: outcome.chain.leaf, token };
    };
    if (replays === null) return conclude(null);
    const checking = watchReplay(invocation, replays, now, this.#replayRules, observer);
    return checking instanceof Promise ? checking.then(conclude) : conclude(checking);
  }

  /** Warns once if any root is trusted, so that the operator knows. */
  #warnOfAnyRoot(): void {
    if (this.#hasWarned || this.#context.configuration.trustedRoots !== undefined) return;
    this.#hasWarned = true;
    this.#context.log.warn(
      'the gate allowed a call, and TRUSTED_ROOTS is not set: calls under a delegation by anyone are allowed, ' +
        'unless the tool server checks X-DRS-Root-Principal; set TRUSTED_ROOTS to the principals whose delegations count',
    );
  }
}

function deny(call: PendingCall, failure: Denial['failure']): GateDecision {
  return toDecision(denied(call, failure));
}

function toDecision(denial: Denial): GateDecision {
  return { kind: 'deny', code: denial.failure.code, response: responseTo(denial) };
}

/** The body that the engine compares with the signed arguments. A `body` member of the bundle is never used. */
function bodyOf(body: CallBody): Body | null {
  return body.kind === 'text' || body.kind === 'value' ? body : null;
}

/** The context of an allowed call with its policy, which is shared: nobody may change it. */
export function wholeContextOf({ context, leaf }: Allowance): GateContext {
  return { ...context, leaf_policy: leaf.policy };
}

function contextOf(
  { chain, invocation }: Extract<Outcome, { readonly failure: null }>,
  binding: Binding | null,
): BriefContext {
  const claims = chain.receipts.map((receipt) => receipt.claims);
  const context: BriefContext & { binding?: Binding } = {
    root_principal: chain.root.claims.iss,
    chain_depth: chain.receipts.length,
    ...callContextOf(claims, invocation.claims),
  };
  if (binding !== null) context.binding = binding;
  return context;
}
