import type { Outcome } from '../engine/engine.js';
import type { Exchange } from './exchange.js';
import type { LineFile } from './line-file.js';
import { traceIdOf } from './request-id.js';
import { factsOf } from './verdict-facts.js';

/** Writes one JSON line for each verdict. */
export class DecisionLog {
  readonly #file: LineFile;

  constructor(file: LineFile) {
    this.#file = file;
  }

  /** Lines written, and lines dropped rather than waited for. */
  get lines(): { readonly written: number; readonly dropped: number } {
    return this.#file;
  }

  record(exchange: Exchange, outcome: Outcome, bundle: unknown): void {
    const { failure, chain, binding } = outcome;
    const traceId = traceIdOf(exchange.traceparent);
    const line = {
      time: new Date().toISOString(),
      requestId: exchange.requestId,
      ...(traceId === null ? {} : { traceId }),
      endpoint: exchange.endpoint,
      valid: failure === null,
      ...(failure === null ? {} : { block: failure.block, code: failure.code }),
      ...(binding === null ? {} : { binding }),
      ...(chain === null ? {} : { depth: chain.receipts.length }),
      ...factsOf(outcome, bundle),
    };
    this.#file.write(JSON.stringify(line));
  }

  /** See {@link LineFile.reopen}. */
  reopen(): Promise<void> {
    return this.#file.reopen();
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
