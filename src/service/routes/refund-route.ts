import { Buffer } from 'node:buffer';
import type { Logger } from 'pino';
import { decodeUtf8 } from '#platform';
import { isJsonObject, parseStrictJson } from '../../protocol/json.js';
import { refundCall, RefundError, replayKey, type RefundFault } from '../../usage/index.js';
import { refuseBody, type BodyIntake, type IntakeFault, type IntakeSink } from '../http/body-intake.js';
import type { Exchange } from '../http/exchange.js';
import type { RequestHead } from '../http/request-head.js';
import type { RefundResult } from '../observe/metrics/metrics.js';
import { Sampler } from '../observe/sampler.js';
import { printable } from '../observe/logs/verdict-facts.js';
import type { RouteContext } from './context.js';
import type { ContextClaims } from './context-token.js';
import { GATE_SCOPE } from './gate-decider.js';

/** The longest context that a header carries, and some room. */
const BODY_BYTES = 16 * 1024;
const FORGED_LINES_PER_SECOND = 10;

const STATUS: Partial<Record<RefundFault, number>> = { invalid_amount: 400, unavailable: 503 };

/** `POST /v1/refund`: a tool server behind the gate gives a call back that its signed context names. */
export class RefundRoute {
  readonly #context: RouteContext;
  readonly #intake: BodyIntake;
  /** Logs whatever `LOG_LEVEL` says, as calls of `/admin`: who gave back what must be known. */
  readonly #audit: Logger;
  readonly #forged: Sampler;

  constructor(context: RouteContext, intake: BodyIntake) {
    this.#context = context;
    this.#intake = intake;
    const { log } = context;
    this.#audit = log.child({}, { level: 'info' });
    this.#forged = new Sampler(FORGED_LINES_PER_SECOND, (leftOut) =>
      log.warn({ leftOut }, 'refund: as many more with a foreign context, left out of the log'),
    );
  }

  /** Checks, in this order: whether contexts are signed, the size, the body, the context, the refund. */
  serve(exchange: Exchange, head: RequestHead): void {
    if (this.#context.signer === null)
      exchange.refuse(404, 'no refunds here, since contexts are not signed: set GATE_SIGNING_KEY');
    else
      this.#intake.readUpTo(BODY_BYTES, exchange, head, this.#take, (body) =>
        this.#intake.admit(exchange, body, this.#take),
      );
  }

  readonly #take: IntakeSink = (exchange, body) => {
    if (!Buffer.isBuffer(body)) {
      this.#refuse(exchange, body);
      return;
    }
    const ticket = this.#context.admission.enter(body.length);
    if (ticket === null) {
      this.#refuse(exchange, 'overloaded');
      return;
    }
    this.#refund(exchange, body)
      .catch((error: unknown) => {
        this.#context.log.error({ err: error }, 'a request failed inside the service');
        this.#context.metrics.countRefund('internal');
        exchange.refuse(500, 'internal');
      })
      .finally(() => ticket.release());
  };

  #refuse(exchange: Exchange, fault: IntakeFault): void {
    this.#context.metrics.countRefund(fault);
    if (fault === 'too_large')
      exchange.refuse(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    else refuseBody(exchange, fault, this.#context.configuration);
  }

  async #refund(exchange: Exchange, body: Buffer): Promise<void> {
    const asked = readBody(body);
    exchange.releaseBody();
    const { signer, gateReplays: store, metrics, log } = this.#context;
    if (typeof asked === 'string') {
      metrics.countRefund('malformed');
      exchange.refuse(400, asked);
      return;
    }
    const claims = signer?.read(asked.context) ?? null;
    if (claims === null) {
      const { clientAddress: address, requestId } = exchange;
      if (this.#forged.admits()) log.warn({ result: 'forged', address, requestId }, 'refund');
      metrics.countRefund('forged');
      exchange.refuse(403, 'context was not signed by this gate, expected what it put into X-DRS-Context');
      return;
    }
    const { client_id: agent, jti, iat: at, charged: receipts = [] } = claims;
    const call = { store, key: replayKey(GATE_SCOPE, agent, jti), receipts, at };
    try {
      const refunded = await refundCall(call, asked.usd, Math.floor(Date.now() / 1000));
      this.#record(exchange, claims, 'refunded', refunded);
      exchange.answer(200, JSON.stringify({ refunded }));
    } catch (error) {
      if (!(error instanceof RefundError)) throw error;
      const { reason, message } = error;
      this.#record(exchange, claims, reason, reason === 'unavailable' ? { err: error } : {});
      exchange.answer(STATUS[reason] ?? 409, JSON.stringify({ error: message, reason }));
    }
  }

  #record(exchange: Exchange, claims: ContextClaims, result: RefundResult, facts: object): void {
    this.#context.metrics.countRefund(result);
    const { clientAddress: address, requestId } = exchange;
    const { sub, client_id: agent, jti } = claims;
    const names = { rootPrincipal: printable(sub), agent: printable(agent), jti: printable(jti) };
    this.#audit.info({ result, address, requestId, ...names, ...facts }, 'refund');
  }
}

interface Asked {
  readonly context: string;
  readonly usd: number | undefined;
}

/** Returns what is asked, or an error message. */
function readBody(body: Buffer): Asked | string {
  const text = decodeUtf8(body);
  if (text === null) return 'the body is not UTF-8, expected JSON';
  const { value, defect } = parseStrictJson(text);
  if (defect) return `the body is not strict JSON: ${defect.message}`;
  if (!isJsonObject(value)) return 'the body is not a JSON object';
  const { context, usd, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    return `the member ${JSON.stringify(unknown.slice(0, 100))} is none of context, usd`;
  if (typeof context !== 'string') return 'context is not a string, expected the value of X-DRS-Context';
  if (usd !== undefined && typeof usd !== 'number') return 'usd is not a number, expected US dollars';
  return { context, usd };
}
