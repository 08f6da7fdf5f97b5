import { DrsClient } from '../client/drs-client.js';
import { passesOnTrial, type Protocol } from '../gate/codes.js';
import type { GateContext } from '../gate/context.js';
import {
  bindOptionsOf,
  decide,
  denied,
  frozenContextOf,
  judgedOf,
  verifierUnavailable,
  type Allowance,
  type GateParts,
  type Judged,
  type TransportCheck,
} from '../gate/decide.js';
import type { Denial, Opening, PendingCall } from '../gate/request.js';
import { statedCostOf } from '../verify/limits.js';
import { chargedOf, refundCall, RefundError, type Refunded } from '../usage/refund.js';
import { DEFAULT_REPLAY_WINDOW_SECS, useInvocation, type ReplayRules } from '../usage/use-invocation.js';
import { clock, judgeBehind } from '../verifier/call-options.js';
import { runWithContext, type DrsContext } from './context.js';
import { publishRefusal, publishToolCall, reportError, type Outcome } from './events.js';
import { ASKER, type Asker, type CallVerifier, type ProtectionOptions } from './options.js';
import { CLOCKS } from '../verify/parts.js';

/** A call that is passed to its handler. */
export interface AdmittedCall {
  readonly kind: 'allow';
  readonly context: DrsContext;
  /** Call this when the call is over. Further calls have no effect. */
  readonly finish: (outcome: Outcome) => void;
}

/** The decision on a request: its handler runs without a context, with one, or not at all. */
export type Decision = { readonly kind: 'pass' } | AdmittedCall | Denial;

const PASS = { kind: 'pass' } as const;

/**
 * Decides on an opened request: verdict, decision of the gate, replay. Transports open requests and carry out the
 * decision. The options must have been checked.
 */
export class Guard {
  readonly #protocol: Protocol;
  readonly #options: ProtectionOptions;
  readonly #parts: GateParts;
  readonly #source: CallVerifier;
  readonly #scope: string;
  /** `null` if nobody is asked, as on trial, where every call passes. */
  readonly #asker: Asker | null;

  constructor(protocol: Protocol, options: ProtectionOptions) {
    const { verifier, verifyUrl, trustedRoots, serverIdentity, replayStore } = options;
    this.#protocol = protocol;
    this.#options = options;
    this.#source = verifier ?? new DrsClient(verifyUrl);
    this.#scope = options.replayScope ?? protocol;
    this.#asker = (options.mode === 'observe' ? undefined : options.approvals?.[ASKER]) ?? null;
    const replayRules: ReplayRules = {
      windowSecs: options.replayWindowSecs ?? DEFAULT_REPLAY_WINDOW_SECS,
      clockSkewSecs: options.clockSkewSecs ?? CLOCKS.clockSkewSecs,
      scope: this.#scope,
    };
    this.#parts = {
      now: clock,
      rules: {
        trustedRoots: trustedRoots === 'any' ? null : new Set(trustedRoots),
        serverIdentity: serverIdentity === 'any' ? null : serverIdentity,
      },
      use:
        replayStore === 'none'
          ? null
          : (claims, limits, now, cost) =>
              useInvocation(claims, limits, replayStore, now, replayRules, {}, cost),
      // Else somebody who can change a prototype would put one in.
      ask: this.#asker?.ask,
      sign: undefined,
    };
  }

  /**
   * Decides on a request. Never throws: if the check fails, the request is refused.
   *
   * @param checkTransport a further check of a transport, before the invocation counts as used
   * @param mayHold asked before and while it waits for a person who reads the question; left out: it may not wait
   */
  async admit(opened: Opening, checkTransport?: TransportCheck, mayHold?: () => boolean): Promise<Decision> {
    if (opened.kind === 'check') return this.#check(opened, checkTransport, mayHold);
    if (opened.kind === 'pass') return opened;
    if (this.#options.optional === true && opened.failure.code === 'MISSING_BUNDLE') return PASS;
    return this.refuse(opened);
  }

  /** Tells the operator of a denial, which on trial passes, if it may. */
  refuse(denial: Denial, context: GateContext | null = null): Denial | typeof PASS {
    const isObserved = this.#options.mode === 'observe' && passesOnTrial(denial.failure);
    publishRefusal(denial, context, isObserved, this.#options);
    return isObserved ? PASS : denial;
  }

  /** Refuses a request that could not be opened, such as where a function in the options throws, and reports why. */
  fail(
    error: unknown,
    call: Parameters<typeof denied>[0] = { protocol: this.#protocol, id: null, requested: null },
  ): Denial | typeof PASS {
    this.report(error);
    return this.refuse(denied(call, verifierUnavailable(call)));
  }

  report(error: unknown): void {
    reportError(error, this.#options.onError);
  }

  /** The context of an allowed call. Its function `refund` is hidden from whoever copies, compares or writes its members. */
  #refundable({ proof, context: brief }: Allowance): DrsContext {
    const { now } = this.#parts;
    const { replayStore: store } = this.#options;
    const { iss, jti, args } = proof.invocation.claims;
    const allowedAt = now();
    const refund = async (usd?: number): Promise<Refunded> => {
      if (store === 'none')
        throw new RefundError('REFUND_NOT_CHARGED', "nobody counts calls here: replayStore is 'none'");
      const charged = chargedOf(statedCostOf(args, brief), proof.chain.limits);
      return refundCall({ scope: this.#scope, iss, jti, allowedAt, charged }, usd, store, now());
    };
    const context = { ...frozenContextOf(proof, brief) };
    return Object.freeze(Object.defineProperty(context, 'refund', { value: refund })) as DrsContext;
  }

  async #judge(call: PendingCall): Promise<Judged> {
    const options = { ...bindOptionsOf(call.body), details: true };
    // Asked anew: the caller may have put a function of their own in its place.
    const judge = judgeBehind(this.#source);
    if (judge !== undefined) return judge(call.bundle, options, this.#asker !== null);
    return judgedOf(call, await this.#source.verify(call.bundle, options));
  }

  async #check(
    call: PendingCall,
    checkTransport: TransportCheck | undefined,
    mayHold: (() => boolean) | undefined,
    wasHeld = false,
  ): Promise<Decision> {
    try {
      const judged = await this.#judge(call);
      const decided = await decide(call, judged, this.#parts, checkTransport);
      if (decided.kind === 'deny') {
        const isShown = !wasHeld && decided.elicits?.wasTold === true;
        if (isShown && (await this.#asker?.answered(decided, mayHold)) === true)
          return await this.#check(call, checkTransport, mayHold, true);
        return this.refuse(decided, judged.failure === null ? frozenContextOf(judged) : null);
      }
      const context = this.#refundable(decided);
      const { args } = decided.proof.invocation.claims;
      let isOver = false;
      const finish = (outcome: Outcome): void => {
        if (!isOver) publishToolCall(context, args, outcome, this.#options);
        isOver = true;
      };
      return { kind: 'allow', context, finish };
    } catch (error) {
      return this.fail(error, call);
    }
  }
}

/**
 * Runs the handler of a request that may pass, and ends its call with it.
 *
 * @param isCancelled asked when the handler is done: whether the caller has gone meanwhile
 */
export async function runAdmitted<T>(
  decision: Exclude<Decision, Denial>,
  request: object | null,
  handler: () => T | Promise<T>,
  hasFailed: (result: T) => boolean,
  isCancelled: () => boolean,
): Promise<T> {
  if (decision.kind === 'pass') return runWithContext(null, request, handler);
  let outcome: Outcome = 'error';
  try {
    const result = await runWithContext(decision.context, request, handler);
    if (!hasFailed(result)) outcome = 'ok';
    return result;
  } finally {
    decision.finish(isCancelled() ? 'cancelled' : outcome);
  }
}
