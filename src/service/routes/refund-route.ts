import type { Logger } from 'pino';
import { decodeUtf8 } from '#platform';
import { isJsonObject, parseStrictJson } from '../../protocol/json.js';
import { refundCall, RefundError, type Refunded } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { refuseBody, type BodyIntake, type IntakeFault, type IntakeSink } from '../http/body-intake.js';
import type { Exchange } from '../http/exchange.js';
import type { RequestHead } from '../http/request-head.js';
import { printable } from '../observe/logs/verdict-facts.js';
import { Sampler } from '../observe/sampler.js';
import type { ContextClaims } from './context-token.js';
import type { RouteContext } from './context.js';
import { GATE_SCOPE } from './gate-decider.js';

const BODY_BYTES = 32 * 1024;
/** Lines for refunds that gave nothing back. Whoever has a context that was signed once can ask for as many. */
const LINES_PER_SECOND = 10;

/** `POST /v1/refund`: tool servers give back what the gate has charged. */
export class RefundRoute {
  readonly #context: RouteContext;
  readonly #intake: BodyIntake;
  /** Logs whatever `LOG_LEVEL` says: who gave back what must be known. */
  readonly #audit: Logger;
  readonly #sampler: Sampler;

  constructor(context: RouteContext, intake: BodyIntake) {
    this.#context = context;
    this.#intake = intake;
    this.#audit = context.log.child({}, { level: 'info' });
    this.#sampler = new Sampler(LINES_PER_SECOND, (leftOut) =>
      this.#audit.warn({ leftOut }, 'refund: as many more that gave nothing back, left out of the log'),
    );
  }

  /** Checks, in this order: whether contexts are signed, the size, the load, the body. */
  readonly serve = (exchange: Exchange, head: RequestHead): void => {
    if (this.#context.gateSigner === null) {
      exchange.refuse(404, 'contexts are not signed, so nothing proves a charge: set GATE_SIGNING_KEY');
      return;
    }
    const take: IntakeSink = (_, body) => this.#take(exchange, body);
    this.#intake.readUpTo(BODY_BYTES, exchange, head, take, (body) =>
      this.#intake.admit(exchange, body, take),
    );
  };

  #take(exchange: Exchange, body: Buffer | IntakeFault): void {
    if (typeof body === 'string') {
      this.#refuseBody(exchange, body);
      return;
    }
    const text = decodeUtf8(body);
    exchange.releaseBody();
    const ticket = this.#context.admission.enter(body.length);
    if (ticket === null) this.#refuseBody(exchange, 'overloaded');
    else void this.#answer(exchange, text).finally(() => ticket.release());
  }

  #refuseBody(exchange: Exchange, fault: IntakeFault): void {
    const { configuration, metrics } = this.#context;
    metrics.gate.rejected('gate', fault);
    if (fault === 'too_large')
      exchange.refuse(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    else refuseBody(exchange, fault, configuration);
  }

  async #answer(exchange: Exchange, text: string | null): Promise<void> {
    const { metrics, log } = this.#context;
    try {
      const refunded = await this.#refund(exchange, text);
      metrics.refunds.done++;
      exchange.answer(200, JSON.stringify(refunded));
    } catch (error) {
      if (!(error instanceof RefundError)) {
        log.error({ err: error }, 'a request failed inside the service');
        exchange.refuse(500, 'internal');
        return;
      }
      const { code, message } = error;
      metrics.refunds[code]++;
      const answer = JSON.stringify({ error: code, detail: message });
      if (code === 'REFUND_MALFORMED') exchange.answer(400, answer);
      else if (code === 'REFUND_CONTEXT_INVALID') exchange.answer(403, answer);
      else if (code === 'REFUND_UNAVAILABLE') exchange.answer(503, answer);
      else exchange.answer(409, answer);
    }
  }

  async #refund(exchange: Exchange, text: string | null): Promise<Refunded> {
    const { gateSigner, gateReplays: store } = this.#context;
    const { context, usd } = readBody(text);
    const claims = gateSigner?.read(context) ?? null;
    if (claims === null)
      throw new RefundError('REFUND_CONTEXT_INVALID', 'context is not one that this gate has signed');
    if (store === null)
      throw new RefundError('REFUND_NOT_CHARGED', 'nobody counts calls here: GATE_REPLAY is off');
    const { jti, iat: allowedAt, agent } = claims;
    const charged = (claims.charged ?? []).map(({ receipt, micro_usd: microUsd }) => ({ receipt, microUsd }));
    const call = { scope: GATE_SCOPE, iss: agent, jti, allowedAt, charged };
    const facts = { ...factsOf(claims), address: exchange.clientAddress, requestId: exchange.requestId };
    const { verdicts } = this.#context;
    try {
      const refunded = await refundCall(call, usd, store, Math.floor(Date.now() / 1000));
      const isEmpty = refunded.calls === 0 && refunded.total_cost_usd === 0;
      if (!isEmpty || this.#sampler.admits()) this.#audit.info({ ...facts, ...refunded }, 'refund');
      verdicts.recordRefund(exchange, claims, 'done', refunded);
      return refunded;
    } catch (error) {
      if (this.#sampler.admits()) this.#audit.warn({ ...facts, err: error }, 'refund refused');
      verdicts.recordRefund(
        exchange,
        claims,
        error instanceof RefundError ? error.code : 'internal',
        NOTHING,
      );
      throw error;
    }
  }
}

const NOTHING: Refunded = { calls: 0, total_cost_usd: 0 };

/** The agent chose the invocation's `jti` and tool server. */
function factsOf({ jti, agent, sub, aud, charged }: ContextClaims) {
  const receipts = charged?.map(({ receipt }) => receipt);
  return { invocation: printable(jti), agent, rootPrincipal: sub, toolServer: printable(aud), receipts };
}

/** @throws RefundError if it is anything else */
function readBody(text: string | null): { readonly context: string; readonly usd: unknown } {
  const malformed = (message: string) => new RefundError('REFUND_MALFORMED', message);
  if (text === null) throw malformed('the body is not UTF-8, expected JSON');
  const { value, defect } = parseStrictJson(text);
  if (defect) throw malformed(`the body is not strict JSON: ${defect.message}`);
  if (!isJsonObject(value)) throw malformed(`the body is ${show(value)}, expected an object with context`);
  const { context, usd, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw malformed(`${show(unknown)} is not a member of a refund: context, usd`);
  if (typeof context !== 'string')
    throw malformed(`context is ${show(context)}, expected the X-DRS-Context of the call`);
  return { context, usd };
}
