import { hostname } from 'node:os';
import type { Judgement } from '../../../verify/judge.js';
import type { LoggedRequest } from '../../http/incoming.js';
import type { LineFile } from './line-file.js';
import { traceIdOf } from '../../http/request-ids.js';
import type { Refunded } from '../../../usage/index.js';
import { claimedFacts, MAX_LENGTH, printable } from './verdict-facts.js';

/** A call of which something was to be given back, as its signed context describes it. */
export interface RefundedCall {
  /** The root principal. */
  readonly sub: string;
  readonly agent: string;
  readonly jti: string;
  readonly tool: string | null;
  readonly charged?: readonly { readonly receipt: string }[];
}

/** Writes one JSON line for each verdict, and for each refund. */
export class DecisionLog {
  readonly #file: LineFile;
  /** Names the host among all that write such a log. */
  readonly #instance = quote(hostname());
  /** A second and its text. Cached, because `toISOString` takes half as long as all the rest. */
  #second = 0;
  #secondText = '';

  constructor(file: LineFile) {
    this.#file = file;
  }

  /** Lines written so far, and lines dropped because the file was too slow or failed. */
  get lines(): { readonly written: number; readonly dropped: number } {
    return this.#file;
  }

  /** @param denial why a gate denied the call although the bundle is valid; else `null` */
  record(request: LoggedRequest, outcome: Judgement, bundle: unknown, denial: string | null = null): void {
    const { failure, chain, binding } = outcome;
    let line = `${this.#begin(request)},"valid":${failure === null}`;
    if (failure !== null) line += `,"block":"${failure.block}","code":"${failure.code}"`;
    if (denial !== null) line += `,"denied":"${denial}"`;
    if (binding !== null) line += `,"binding":"${binding}"`;
    if (chain !== null) {
      const digests = chain.receipts.map(({ digest }) => `"${digest}"`);
      line += `,"depth":${digests.length},"receipts":[${digests.join(',')}]`;
    }
    this.#file.write(line + endOf(claimedFacts(outcome, bundle)));
  }

  /** @param result `done`, or the code of why nothing was given back */
  recordRefund(
    request: LoggedRequest,
    { sub: rootPrincipal, agent, jti, tool, charged = [] }: RefundedCall,
    result: string,
    { calls, total_cost_usd: usd }: Refunded,
  ): void {
    const receipts = charged.map(({ receipt }) => quote(receipt));
    const line = `${this.#begin(request)},"refund":"${result}","calls":${calls},"totalCostUsd":${usd}`;
    this.#file.write(
      `${line},"receipts":[${receipts.join(',')}]${endOf({ rootPrincipal, agent, jti, tool })}`,
    );
  }

  /** Built by hand: JSON.stringify of the same members takes longer. */
  #begin({ requestId, address, traceparent, endpoint }: LoggedRequest): string {
    const traceId = traceIdOf(traceparent);
    const line = `{"time":"${this.#timeOf(Date.now())}","requestId":${quote(requestId)},"instance":${this.#instance}`;
    const trace = traceId === null ? '' : `,"traceId":"${traceId}"`;
    return `${line},"address":${quote(address)}${trace},"endpoint":"${endpoint}"`;
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

function endOf({ rootPrincipal, agent, jti, tool }: ReturnType<typeof claimedFacts>): string {
  const caller = `,"rootPrincipal":${quote(rootPrincipal)},"agent":${quote(agent)}`;
  return `${caller},"jti":${quote(jti)},"tool":${quote(tool)}}`;
}

// A text in which JSON escapes nothing and `printable` replaces nothing. Nearly every value is such a text.
const PLAIN = /^[ !#-[\]-~]*$/;

function quote(value: unknown): string {
  if (typeof value === 'string' && value.length <= MAX_LENGTH && PLAIN.test(value)) return `"${value}"`;
  return JSON.stringify(printable(value));
}
