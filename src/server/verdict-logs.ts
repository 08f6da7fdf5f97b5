import type { Outcome } from '../engine/engine.js';
import type { DecisionLog } from './decision-log.js';
import type { LoggedRequest } from './exchange.js';
import type { RefusalLog } from './refusal-log.js';

/** The logs that record verdicts. */
export class VerdictLogs {
  readonly #refusals: RefusalLog;
  readonly #decisions: DecisionLog | null;

  /** @param decisions `null` if there is no decision log */
  constructor(refusals: RefusalLog, decisions: DecisionLog | null) {
    this.#refusals = refusals;
    this.#decisions = decisions;
  }

  /**
   * Records an outcome. Call it before the answer is written, so that the answer carries the request id.
   *
   * @param bundle the bundle that was verified
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
