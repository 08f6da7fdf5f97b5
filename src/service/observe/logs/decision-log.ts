import type { Judgement } from '../../../verify/judge.js';
import type { LoggedRequest } from '../../http/exchange.js';
import type { LineFile } from './line-file.js';
import { traceIdOf } from '../../http/request-head.js';
import { claimedFacts, MAX_LENGTH, printable } from './verdict-facts.js';

/** Writes one JSON line for each verdict. */
export class DecisionLog {
  readonly #file: LineFile;
  readonly #instance: string;
  /** A second and its text. Cached, because `toISOString` takes half as long as all the rest. */
  #second = 0;
  #secondText = '';

  /** @param instance names this process among all that write such a log */
  constructor(file: LineFile, instance: string) {
    this.#file = file;
    this.#instance = quote(instance);
  }

  /** Lines written so far, and lines dropped because the file was too slow or failed. */
  get lines(): { readonly written: number; readonly dropped: number } {
    return this.#file;
  }

  /** @param denial why a gate denied the call although the bundle is valid; else `null` */
  record(request: LoggedRequest, outcome: Judgement, bundle: unknown, denial: string | null = null): void {
    const { failure, chain, binding } = outcome;
    const traceId = traceIdOf(request.traceparent);
    const { rootPrincipal, agent, jti, tool } = claimedFacts(outcome, bundle);
    // Built by hand: JSON.stringify of the same members takes longer.
    let line = `{"time":"${this.#timeOf(Date.now())}","requestId":${quote(request.requestId)}`;
    line += `,"instance":${this.#instance},"address":${quote(request.address)}`;
    if (traceId !== null) line += `,"traceId":"${traceId}"`;
    line += `,"endpoint":"${request.endpoint}","valid":${failure === null}`;
    if (failure !== null) line += `,"block":"${failure.block}","code":"${failure.code}"`;
    if (denial !== null) line += `,"denied":"${denial}"`;
    if (binding !== null) line += `,"binding":"${binding}"`;
    if (chain !== null) {
      const digests = chain.receipts.map(({ digest }) => `"${digest}"`);
      line += `,"depth":${digests.length},"receipts":[${digests.join(',')}]`;
    }
    line += `,"rootPrincipal":${quote(rootPrincipal)},"agent":${quote(agent)}`;
    this.#file.write(`${line},"jti":${quote(jti)},"tool":${quote(tool)}}`);
  }

  /** @param now milliseconds */
  #timeOf(now: number): string {
    const milliseconds = now % 1000;
    if (now - milliseconds !== this.#second) {
      this.#second = now - milliseconds;
      this.#secondText = new Date(now).toISOString().slice(0, -4);
    }
    return `${this.#secondText}${String(milliseconds).padStart(3, '0')}Z`;
  }

  /** See {@link LineFile.reopen}. */
  reopen(): Promise<void> {
    return this.#file.reopen();
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

// A text in which JSON escapes nothing and `printable` replaces nothing. Nearly every value is such a text.
const PLAIN = /^[ !#-[\]-~]*$/;

function quote(value: unknown): string {
  if (typeof value === 'string' && value.length <= MAX_LENGTH && PLAIN.test(value)) return `"${value}"`;
  return JSON.stringify(printable(value));
}
