import type { Judgement } from '../../../verify/judge.js';
import type { Refunded } from '../../../usage/index.js';
import type { DecisionLog, RefundedCall } from './decision-log.js';
import type { LoggedRequest } from '../../http/incoming.js';
import type { Logger } from 'pino';
import { traceIdOf } from '../../http/request-ids.js';
import { Sampler } from '../sampler.js';
import { factsOf } from './verdict-facts.js';

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
   * @param denial why a gate denied the call although the bundle is valid; else `null`
   */
  record(request: LoggedRequest, outcome: Judgement, bundle: unknown, denial: string | null = null): void {
    const code = outcome.failure?.code ?? denial;
    if (code !== null) {
      request.code = code;
      this.#refusals.record(request, outcome, bundle, denial);
    }
    this.#decisions?.record(request, outcome, bundle, denial);
  }

  /**
   * Makes the record of one request to a gate. It is logged when the gate has decided: a valid bundle may still have
   * been used before, or be for another call. Requests without a verdict are not logged; the metrics count them.
   */
  ofGate(request: LoggedRequest): GateRecord {
    let verdict: { readonly outcome: Judgement; readonly bundle: unknown } | null = null;
    return {
      onVerdict: (outcome, bundle) => (verdict = { outcome, bundle }),
      decided: (decision) => {
        if (verdict === null) return;
        const denial =
          verdict.outcome.failure === null && decision.kind === 'deny' ? (decision.code ?? null) : null;
        this.record(request, verdict.outcome, verdict.bundle, denial);
      },
    };
  }

  /**
   * Records a refund of a call that a gate allowed.
   *
   * @param result `done`, or the code of why nothing was given back
   */
  recordRefund(request: LoggedRequest, call: RefundedCall, result: string, refunded: Refunded): void {
    this.#decisions?.recordRefund(request, call, result, refunded);
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

/** Receives what happens to one request to a gate. */
interface GateRecord {
  /** The verdict on the bundle. */
  readonly onVerdict: (outcome: Judgement, bundle: unknown) => void;
  /** The decision. Call this before the answer is sent. */
  readonly decided: (decision: { readonly kind: string; readonly code?: string }) => void;
}

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
