import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { isJsonObject, type JsonObject } from '../../../protocol/json.js';
import { parseCompactJwt } from '../../../protocol/jwt.js';
import type { Refunded } from '../../../usage/index.js';
import type { Judgement } from '../../../verify/judge.js';
import type { Configuration } from '../../configuration/configuration.js';
import type { LoggedRequest } from '../../http/incoming.js';
import { traceIdOf } from '../../http/request-ids.js';
import type { ContextClaims } from '../../routes/context-token.js';
import { Sampler } from '../sampler.js';
import type { LineFile } from './line-file.js';

/**
 * The logs of verdicts: refusals in the log of the service, so that one can be found by its request id (`LOG_REFUSALS`), and the
 * decision log, with one JSON line for each verdict and each refund.
 */
export class VerdictLogs {
  readonly #log: Logger;
  readonly #refusals: Sampler | null;
  readonly #decisions: LineFile | null;
  /** Names the host among all that write a decision log. */
  readonly #instance = quote(hostname());
  /** A second and its text. Cached, because `toISOString` takes half as long as all the rest. */
  #second = 0;
  #secondText = '';

  /** @param decisions `null` if there is no decision log */
  constructor({ logRefusals }: Pick<Configuration, 'logRefusals'>, log: Logger, decisions: LineFile | null) {
    this.#log = log;
    this.#decisions = decisions;
    const logLeftOut = (leftOut: number) =>
      log.info({ leftOut }, 'refused: as many more, left out of the log');
    this.#refusals =
      logRefusals === 'off' ? null : new Sampler(logLeftOut, logRefusals === 'all' ? Infinity : undefined);
  }

  /** Lines of the decision log: written so far, and dropped because the file was too slow or failed. */
  get lines(): { readonly written: number; readonly dropped: number } | null {
    return this.#decisions;
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
      if (this.#refusals?.admits() === true) this.#logRefusal(request, outcome, bundle, code);
    }
    if (this.#decisions === null) return;
    const { failure, chain, binding } = outcome;
    let line = `${this.#begin(request)},"valid":${failure === null}`;
    if (failure !== null) line += `,"block":"${failure.block}","code":"${failure.code}"`;
    if (denial !== null) line += `,"denied":"${denial}"`;
    if (binding !== null) line += `,"binding":"${binding}"`;
    if (chain !== null) {
      const digests = chain.receipts.map(({ digest }) => `"${digest}"`);
      line += `,"depth":${digests.length},"receipts":[${digests.join(',')}]`;
    }
    this.#decisions.write(line + endOf(factsOf(outcome, bundle)));
  }

  /**
   * Makes the record of one request to a gate. It is logged when the gate has decided: a valid bundle may still have
   * been used before, or be for another call. Requests without a verdict are not logged; the metrics count them.
   *
   * @returns `decided`: to be called before the answer is sent
   */
  ofGate(request: LoggedRequest) {
    let verdict: { readonly outcome: Judgement; readonly bundle: unknown } | null = null;
    return {
      onVerdict: (outcome: Judgement, bundle: unknown) => (verdict = { outcome, bundle }),
      decided: (decision: { readonly kind: string; readonly code?: string }): void => {
        if (verdict === null) return;
        const { outcome, bundle } = verdict;
        const isDenied = outcome.failure === null && decision.kind === 'deny';
        this.record(request, outcome, bundle, isDenied ? decision.code : null);
      },
    };
  }

  /**
   * Records a refund of a call that a gate allowed.
   *
   * @param result `done`, or the code of why nothing was given back
   */
  recordRefund(
    request: LoggedRequest,
    { sub: rootPrincipal, agent, jti, tool, charged = [] }: ContextClaims,
    result: string,
    { calls, total_cost_usd: usd }: Refunded,
  ): void {
    if (this.#decisions === null) return;
    const receipts = charged.map(({ receipt }) => quote(receipt));
    const line = `${this.#begin(request)},"refund":"${result}","calls":${calls},"totalCostUsd":${usd}`;
    this.#decisions.write(
      `${line},"receipts":[${receipts.join(',')}]${endOf({ rootPrincipal, agent, jti, tool })}`,
    );
  }

  /** See {@link LineFile.reopen}. */
  async reopen(): Promise<void> {
    await this.#decisions?.reopen();
  }

  async close(): Promise<void> {
    this.#refusals?.close();
    await this.#decisions?.close();
  }

  #logRefusal(request: LoggedRequest, outcome: Judgement, bundle: unknown, code: string): void {
    const traceId = traceIdOf(request.traceparent);
    const facts = Object.entries(factsOf(outcome, bundle)).map(([name, fact]) => [name, printable(fact)]);
    const line = {
      ...(outcome.failure !== null && { block: outcome.failure.block }),
      ...{ code, requestId: request.requestId },
      ...(traceId !== null && { traceId }),
      ...(Object.fromEntries(facts) as object),
    };
    this.#log.info(line, 'refused');
  }

  /** Begins a line of the decision log. Built by hand: JSON.stringify of the same members takes longer. */
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
}

// A longer JWT is not worth decoding again for a log line.
const MAX_JWT_LENGTH = 64 * 1024;
const MAX_NODES = 4096;

/**
 * The parts of a bundle that may be logged, of any type and length: who asked for what. If the bundle was refused, it is decoded
 * again, and none of this is proved. Never more than these four: arguments may be secret, and anybody who has receipts and
 * signatures can use them.
 */
function factsOf(outcome: Judgement, bundle: unknown) {
  if (outcome.failure === null) return factsFrom(outcome.chain.root.claims.iss, outcome.invocation.claims);
  const { receipts, invocation } = isJsonObject(bundle) ? bundle : {};
  const root = payloadOf(Array.isArray(receipts) ? receipts[0] : undefined);
  return factsFrom(root['iss'], payloadOf(invocation));
}

function factsFrom(
  rootPrincipal: unknown,
  { iss, jti, args }: { readonly iss?: unknown; readonly jti?: unknown; readonly args?: unknown },
) {
  return { rootPrincipal, agent: iss, jti, tool: isJsonObject(args) ? args['tool'] : undefined };
}

function payloadOf(jwt: unknown): JsonObject {
  if (typeof jwt !== 'string' || jwt.length > MAX_JWT_LENGTH) return {};
  const parts = parseCompactJwt(jwt, MAX_NODES);
  return parts.defect === undefined ? parts.payload : {};
}

function endOf({ rootPrincipal, agent, jti, tool }: ReturnType<typeof factsOf>): string {
  const caller = `,"rootPrincipal":${quote(rootPrincipal)},"agent":${quote(agent)}`;
  return `${caller},"jti":${quote(jti)},"tool":${quote(tool)}}`;
}

/** Maximum length of a text in a log line; the rest is cut off. */
const MAX_LENGTH = 200;
const PLAIN = /^[ -~]*$/;
// A plain text in which JSON escapes nothing. Nearly every value is such a text.
const UNESCAPED = /^[ !#-[\]-~]*$/;
// JSON escapes characters below the space. These others can also move a terminal's cursor or reverse a line.
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;

function quote(value: unknown): string {
  if (typeof value === 'string' && value.length <= MAX_LENGTH && UNESCAPED.test(value)) return `"${value}"`;
  return JSON.stringify(printable(value));
}

/** A text without characters that control terminals, cut at 200 characters; `null` for a value that is not a text. */
export function printable(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  const text = value.length > MAX_LENGTH ? `${value.slice(0, MAX_LENGTH)}…` : value;
  // Nearly every value is plain ASCII, and the replacement takes a microsecond.
  return PLAIN.test(text) ? text : text.replace(UNPRINTABLE, '?');
}
