import type { Logger } from 'pino';
import type { AdminOutcome, Metrics } from '../metrics/metrics.js';
import { RateLimit } from '../../load/rate-limit.js';
import { Sampler } from '../sampler.js';

/** A call of an `/admin` endpoint, for the log. */
export interface AdminCall {
  readonly address: string;
  readonly requestId: string;
}

const FAILURES_PER_MINUTE = 10;
// Limit for calls without the token, from all addresses together. Calls with it are all logged.
const LINES_PER_SECOND = 10;

/**
 * Logs calls of `/admin` endpoints with their outcome and address, and limits calls without the right token to 10 per
 * minute for each client. Calls with the token are never limited: a revocation may be urgent, and the guesses of others
 * must not delay it.
 */
export class AdminLog {
  readonly #log: Logger;
  /** Logs whatever `LOG_LEVEL` says: who revoked what must be known. */
  readonly #audit: Logger;
  readonly #metrics: Metrics;
  readonly #failures = new RateLimit(FAILURES_PER_MINUTE, 0, 60);
  readonly #sampler: Sampler;

  constructor(log: Logger, metrics: Metrics) {
    this.#log = log;
    this.#audit = log.child({}, { level: 'info' });
    this.#metrics = metrics;
    this.#sampler = new Sampler(LINES_PER_SECOND, (leftOut) =>
      log.warn({ leftOut }, 'admin: as many more calls without the token, left out of the log'),
    );
  }

  /**
   * Counts a call without the right token.
   *
   * @param client the result of `clientOf` for the caller's address
   * @returns 0 if the answer is 401; otherwise the seconds until the next attempt, for a 429
   */
  admitFailure(client: string): number {
    return this.#failures.admit(client);
  }

  /** Logs and counts a call. Call it once for each. */
  record(outcome: AdminOutcome, call: AdminCall, facts: Readonly<Record<string, unknown>> = {}): void {
    this.#metrics.countAdminCall(outcome);
    const line = { outcome, ...call, ...facts };
    switch (outcome) {
      case 'done':
      case 'listed':
        this.#audit.info(line, 'admin');
        break;
      case 'failed':
        this.#audit.error(line, 'admin');
        break;
      case 'unauthorized':
      case 'rate_limited':
      case 'not_configured':
        if (this.#sampler.admits()) this.#log.warn(line, 'admin');
        break;
      default:
        this.#log.warn(line, 'admin');
    }
  }
}
