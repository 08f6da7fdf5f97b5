import type { Outcome } from '../engine/engine.js';
import type { DecisionLog } from './decision-log.js';
import type { Exchange } from './exchange.js';
import type { GateDecision } from './gate-decider.js';
import type { RefusalLog } from './refusal-log.js';

/** Where verdicts are written down, besides the answer and the metrics. */
export class VerdictLogs {
  readonly #refusals: RefusalLog;
  readonly #decisions: DecisionLog | null;

  /** @param decisions `null` where nobody wants all of them */
  constructor(refusals: RefusalLog, decisions: DecisionLog | null) {
    this.#refusals = refusals;
    this.#decisions = decisions;
  }

  /**
   * Writes an outcome down. To be called before the answer is written, which then carries the request id.
   *
   * @param bundle of which the outcome is told
   * @param denial why a gate denied the call although the bundle is valid; else `null`
   */
  record(exchange: Exchange, outcome: Outcome, bundle: unknown, denial: string | null = null): void {
    const code = outcome.failure?.code ?? denial;
    if (code !== null) {
      exchange.code = code;
      this.#refusals.record(exchange, outcome, bundle, denial);
    }
    this.#decisions?.record(exchange, outcome, bundle, denial);
  }

  /**
   * For one request to a gate, which is written down once it is decided: a valid bundle may still have been used before, or
   * be for another call. Requests without a verdict are not written down; the metrics count them.
   */
  ofGate(exchange: Exchange): GateRecord {
    let verdict: { readonly outcome: Outcome; readonly bundle: unknown } | null = null;
    return {
      onVerdict: (outcome, bundle) => (verdict = { outcome, bundle }),
      decided: (decision) => {
        if (verdict === null) return;
        const denial = verdict.outcome.failure === null && decision.kind === 'deny' ? decision.code : null;
        this.record(exchange, verdict.outcome, verdict.bundle, denial);
      },
    };
  }

  /** See {@link LineFile.reopen}. */
  async reopen(): Promise<void> {
    await this.#decisions?.reopen();
  }

  async close(): Promise<void> {
    this.#refusals.close();
    await this.#decisions?.close();
  }
}

/** What a gate tells about one request. */
export interface GateRecord {
  /** The verdict on the bundle. */
  readonly onVerdict: (outcome: Outcome, bundle: unknown) => void;
  /** The decision; to be called before it is answered. */
  readonly decided: (decision: GateDecision) => void;
}
