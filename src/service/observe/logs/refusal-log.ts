import type { Logger } from 'pino';
import type { Judgement } from '../../../verify/judge.js';
import type { LoggedRequest } from '../../http/incoming.js';
import { traceIdOf } from '../../http/request-ids.js';
import { Sampler } from '../sampler.js';
import { factsOf } from './verdict-facts.js';

const PER_SECOND = 10;

/** Logs invalid verdicts, so that a refusal can be found by its request id. */
export class RefusalLog {
  readonly #log: Logger;
  readonly #sampler: Sampler | null;

  /** @param mode `LOG_REFUSALS`: all, up to ten per second and the number of the others, or none */
  constructor(mode: 'all' | 'sampled' | 'off', log: Logger) {
    this.#log = log;
    this.#sampler =
      mode === 'off'
        ? null
        : new Sampler(mode === 'all' ? Infinity : PER_SECOND, (leftOut) =>
            log.info({ leftOut }, 'refused: as many more, left out of the log'),
          );
  }

  /**
   * Logs an outcome, unless it is valid or left out.
   *
   * @param denial why a gate denied a call with a valid bundle; its line has no block
   */
  record(request: LoggedRequest, outcome: Judgement, bundle: unknown, denial: string | null = null): void {
    const refusal = outcome.failure ?? (denial === null ? null : { code: denial });
    if (refusal === null || this.#sampler?.admits() !== true) return;
    const traceId = traceIdOf(request.traceparent);
    this.#log.info(
      {
        ...('block' in refusal ? { block: refusal.block } : {}),
        code: refusal.code,
        requestId: request.requestId,
        ...(traceId === null ? {} : { traceId }),
        ...factsOf(outcome, bundle),
      },
      'refused',
    );
  }

  close(): void {
    this.#sampler?.close();
  }
}
