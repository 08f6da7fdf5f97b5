import { DrsClient } from '../client/drs-client.js';
import {
  bindOptionsOf,
  denied,
  decideCall,
  verdictFailure,
  verifierUnavailable,
  type Allowance,
  type BindingMode,
  type Denial,
  type GateContext,
  type GateFailure,
  type GateRules,
  type Opening,
  type PendingCall,
  type Protocol,
} from '../gate/index.js';
import { DEFAULT_REPLAY_WINDOW_SECS, checkReplay, type ReplayRules } from '../replay/check-replay.js';
import type { ReplayStore } from '../replay/replay-store.js';
import { publishRefusal, publishToolCall, reportError, toolCallEvent, type Outcome } from './events.js';
import type { CallVerifier, ProtectionOptions } from './options.js';

/** A call that is passed to its handler. */
export interface Admission {
  readonly kind: 'allow';
  readonly context: GateContext;
  /** Call this when the call is over. Further calls have no effect. */
  readonly finish: (outcome: Outcome) => void;
}

/** The decision on a request: its handler runs without a context, with one, or not at all. */
export type Decision = { readonly kind: 'pass' } | Admission | Denial;

const PASS = { kind: 'pass' } as const;

/**
 * Decides on an opened request: verdict, decision of the gate, replay. Transports open requests and carry out the
 * decision. The options must have been checked.
 */
export class Guard {
  readonly #protocol: Protocol;
  readonly #verifier: CallVerifier;
  readonly #options: ProtectionOptions;
  readonly #rules: GateRules;
  readonly #replayStore: ReplayStore | null;
  readonly #replayRules: ReplayRules;

  constructor(protocol: Protocol, options: ProtectionOptions, bindingMode: BindingMode = 'enforced') {
    const { verifier, verifyUrl, trustedRoots, serverIdentity, replayStore } = options;
    this.#protocol = protocol;
    this.#verifier = verifier ?? new DrsClient(verifyUrl);
    this.#options = options;
    this.#rules = {
      trustedRoots: trustedRoots === 'any' ? null : new Set(trustedRoots),
      serverIdentity: serverIdentity === 'any' ? null : serverIdentity,
      bindingMode,
    };
    this.#replayStore = replayStore === 'none' ? null : replayStore;
    this.#replayRules = {
      windowSecs: options.replayWindowSecs ?? DEFAULT_REPLAY_WINDOW_SECS,
      clockSkewSecs: options.clockSkewSecs ?? 0,
      scope: options.replayScope ?? protocol,
    };
  }

  /** The name that calls must be signed for; `null` for any. */
  get serverIdentity(): string | null {
    return this.#rules.serverIdentity;
  }

  /**
   * Decides on a request. Never throws: if the check fails, the request is refused.
   *
   * @param findFault a further check of a transport, before the invocation counts as used
   */
  async admit(opened: Opening, findFault?: (context: GateContext) => GateFailure | null): Promise<Decision> {
    if (opened.kind === 'check') return this.#check(opened, findFault);
    if (opened.kind === 'pass') return opened;
    if (this.#options.optional === true && opened.failure.code === 'MISSING_BUNDLE') return PASS;
    return this.refuse(opened);
  }

  /** Tells the operator of a denial. */
  refuse(denial: Denial, context: GateContext | null = null): Denial {
    publishRefusal(denial, context, this.#options);
    return denial;
  }

  /** Refuses a request that could not be opened, such as where a function in the options throws, and reports why. */
  fail(error: unknown): Denial {
    this.report(error);
    const call = { protocol: this.#protocol, id: null, requested: null };
    return this.refuse(denied(call, verifierUnavailable(call)));
  }

  /** Reports a fault to the operator. */
  report(error: unknown): void {
    reportError(error, this.#options.onError);
  }

  async #check(
    call: PendingCall,
    findFault: ((context: GateContext) => GateFailure | null) | undefined,
  ): Promise<Admission | Denial> {
    try {
      const verdict = await this.#verifier.verify(call.bundle, bindOptionsOf(call.body));
      const decided = decideCall(call, verdict, this.#rules);
      if (decided.kind === 'deny') return this.refuse(decided);
      const { context } = decided;
      const fault = findFault?.(context) ?? null;
      if (fault !== null) return this.refuse(denied(call, fault), context);
      const replay = await this.#checkReplay(decided);
      if (replay !== null) return this.refuse(denied(call, verdictFailure(replay)), context);
      let isOver = false;
      const finish = (outcome: Outcome): void => {
        if (!isOver) this.#publish(decided, outcome);
        isOver = true;
      };
      return { kind: 'allow', context, finish };
    } catch (error) {
      this.report(error);
      return this.refuse(denied(call, verifierUnavailable(call)));
    }
  }

  #checkReplay({ claims }: Allowance) {
    if (this.#replayStore === null) return null;
    const now = Math.floor(Date.now() / 1000);
    return checkReplay(claims.invocation, this.#replayStore, now, this.#replayRules);
  }

  #publish({ context, claims }: Allowance, outcome: Outcome): void {
    publishToolCall(toolCallEvent(context, claims.invocation.args, outcome), this.#options);
  }
}
