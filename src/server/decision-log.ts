import type { Outcome } from '../engine/engine.js';
import type { LoggedRequest } from './exchange.js';
import type { LineFile } from './line-file.js';
import { traceIdOf } from './request-id.js';
import { factsOf } from './verdict-facts.js';

/** Writes one JSON line for each verdict. */
export class DecisionLog {
  readonly #file: LineFile;

  constructor(file: LineFile) {
    this.#file = file;
  }

  /** Lines written so far, and lines dropped because the file was too slow or failed. */
  get lines(): { readonly written: number; readonly dropped: number } {
    return this.#file;
  }

  record(request: LoggedRequest, outcome: Outcome, bundle: unknown): void {
    const { failure, chain, binding } = outcome;
    const traceId = traceIdOf(request.traceparent);
    const { rootPrincipal, agent, jti, tool } = factsOf(outcome, bundle);
    // Built by hand: JSON.stringify of the same members takes longer.
    let line = `{"time":"${new Date().toISOString()}","requestId":${quote(request.requestId)}`;
    if (traceId !== null) line += `,"traceId":"${traceId}"`;
    line += `,"endpoint":"${request.endpoint}","valid":${failure === null}`;
    if (failure !== null) line += `,"block":"${failure.block}","code":"${failure.code}"`;
    if (binding !== null) line += `,"binding":"${binding}"`;
    if (chain !== null) line += `,"depth":${chain.receipts.length}`;
    line += `,"rootPrincipal":${quote(rootPrincipal)},"agent":${quote(agent)}`;
    this.#file.write(`${line},"jti":${quote(jti)},"tool":${quote(tool)}}`);
  }

  /** See {@link LineFile.reopen}. */
  reopen(): Promise<void> {
    return this.#file.reopen();
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

const PLAIN = /^[ !#-[\]-~]*$/;

function quote(text: string | null): string {
  return text !== null && PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
