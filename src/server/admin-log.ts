import type { Logger } from 'pino';
import type { AdminOutcome, Metrics } from './metrics.js';
import { RateLimit } from './rate-limit.js';
import { Sampler } from './sampler.js';

/** A call of an `/admin` endpoint, as it is logged. */
export interface AdminCall {
  readonly address: string;
  readonly requestId: string;
}

const FAILURES_PER_MINUTE = 10;
// Of those without the token, from all addresses together; those with it are all logged.
const LINES_PER_SECOND = 10;

/**
 * Logs every call of an `/admin` endpoint, with its outcome and where it came from, and limits calls without the right
 * token: 10 in a minute for each client. Calls with it are never limited, since a revocation may be urgent and the
 * guesses of others must not hold it up.
 */
export class AdminLog {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #failures = new RateLimit(FAILURES_PER_MINUTE, 0, 60);
  readonly #sampler: Sampler;

  constructor(log: Logger, metrics: Metrics) {
    this.#log = log;
    this.#metrics = metrics;
    this.#sampler = new Sampler(LINES_PER_SECOND, (leftOut) =>
      log.warn({ leftOut }, 'admin: as many more calls without the token, left out of the log'),
    );
  }

  /**
   * Counts a call without the right token.
   *
   * @param client what `clientOf` makes of its address
   * @returns 0 where it is to be answered as such, or the seconds after which to try again
   */
  admitFailure(client: string): number {
    return this.#failures.admit(client);
  }

  /** Logs and counts a call; to be called once for each. */
  record(outcome: AdminOutcome, call: AdminCall, facts: Readonly<Record<string, unknown>> = {}): void {
    this.#metrics.countAdminCall(outcome);
    const line = { outcome, ...call, ...facts };
    switch (outcome) {
      case 'done':
        this.#log.info(line, 'admin');
        break;
      case 'failed':
        this.#log.error(line, 'admin');
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
