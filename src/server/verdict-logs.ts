import type { Outcome } from '../engine/engine.js';
import type { DecisionLog } from './decision-log.js';
import type { LoggedRequest } from './exchange.js';
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
   */
  record(request: LoggedRequest, outcome: Outcome, bundle: unknown): void {
    if (outcome.failure !== null) {
      request.code = outcome.failure.code;
      this.#refusals.record(request, outcome, bundle);
    }
    this.#decisions?.record(request, outcome, bundle);
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
