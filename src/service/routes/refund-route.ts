import type { Logger } from 'pino';
import { decodeUtf8 } from '#platform';
import { isJsonObject, parseStrictJson } from '../../protocol/json.js';
import { refundCall, RefundError, type Refunded } from '../../usage/index.js';
import { show } from '../../verify/codes.js';
import { refuseBody } from '../http/body-intake.js';
import type { Exchange } from '../http/exchange.js';
import type { RequestHead } from '../http/request-head.js';
import type { ContextClaims } from './context-token.js';
import type { RouteContext } from './context.js';
import { GATE_SCOPE } from './gate-decider.js';

const BODY_BYTES = 32 * 1024;

/** `POST /v1/refund`: tool servers give back what the gate has charged. */
export class RefundRoute {
  readonly #context: RouteContext;
  /** Logs whatever `LOG_LEVEL` says: who gave back what must be known. */
  readonly #audit: Logger;

  constructor(context: RouteContext) {
    this.#context = context;
    this.#audit = context.log.child({}, { level: 'info' });
  }

  /** Checks, in this order: whether contexts are signed, the size, the body. */
  serve(exchange: Exchange, { contentLength }: RequestHead): void {
    const { admission, configuration, gateSigner } = this.#context;
    if (gateSigner === null) {
      exchange.refuse(404, 'contexts are not signed, so nothing proves a charge: set GATE_SIGNING_KEY');
      return;
    }
    const refuseLarge = () =>
      exchange.refuse(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
    const rules = {
      memory: admission.memory,
      maxBytes: BODY_BYTES,
      announcedBytes: contentLength,
      timeoutMs: configuration.requestTimeoutSecs * 1000,
    };
    if (contentLength > BODY_BYTES) refuseLarge();
    else
      exchange.readBody(rules, (body) => {
        if (body === 'too_large') refuseLarge();
        else if (typeof body === 'string') refuseBody(exchange, body, configuration);
        else {
          const text = decodeUtf8(body);
          exchange.releaseBody();
          void this.#answer(exchange, text);
        }
      });
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
    try {
      const refunded = await refundCall(call, usd, store, Math.floor(Date.now() / 1000));
      this.#audit.info({ ...facts, ...refunded }, 'refund');
      return refunded;
    } catch (error) {
      this.#audit.warn({ ...facts, err: error }, 'refund refused');
      throw error;
    }
  }
}

function factsOf({ jti, agent, sub, aud, charged }: ContextClaims) {
  const receipts = charged?.map(({ receipt }) => receipt);
  return { invocation: jti, agent, rootPrincipal: sub, toolServer: aud, receipts };
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
