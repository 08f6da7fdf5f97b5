import { decodeUtf8 } from '#platform';
import { isJsonObject, parseStrictJson } from '../../protocol/json.js';
import { refundCall, RefundError, type RefundCode, type Refunded } from '../../usage/index.js';
import { clock } from '../../verifier/call-options.js';
import { show } from '../../verify/codes.js';
import { answerTo, type BodyHandler, type Fault } from '../http/body-handler.js';
import { errorAnswer, type Exchange } from '../http/exchange.js';
import { printable } from '../observe/logs/verdict-logs.js';
import type { RouteContext } from '../core.js';
import { GATE_SCOPE } from '../gate-decider.js';

const BODY_BYTES = 32 * 1024;

/** The status of each refusal; 409 of all others. */
const STATUS: Partial<Record<RefundCode, number>> = {
  REFUND_MALFORMED: 400,
  REFUND_CONTEXT_INVALID: 403,
  REFUND_UNAVAILABLE: 503,
};

/** `POST /v1/refund`: tool servers give back what the gate has charged. */
export function refundHandler(context: RouteContext): BodyHandler<Exchange> {
  const { configuration, log, metrics, verdicts } = context;
  const { signer, replays: store } = context.gate;
  // Logs whatever `LOG_LEVEL` says: who gave back what must be known.
  const audit = log.child({}, { level: 'info' });

  const refund = async (exchange: Exchange, text: string | null): Promise<Refunded> => {
    const { context, usd } = readRefund(text);
    const claims = signer?.read(context) ?? null;
    if (claims === null)
      throw new RefundError('REFUND_CONTEXT_INVALID', 'context is not one that this gate has signed');
    if (store === null)
      throw new RefundError('REFUND_NOT_CHARGED', 'nobody counts calls here: GATE_REPLAY is off');
    const { jti, iat: allowedAt, agent, sub: rootPrincipal, aud } = claims;
    const charged = (claims.charged ?? []).map(({ receipt, micro_usd: microUsd }) => ({ receipt, microUsd }));
    const call = { scope: GATE_SCOPE, iss: agent, jti, allowedAt, charged };
    const receipts = charged.map(({ receipt }) => receipt);
    // The agent chose the invocation's `jti` and tool server.
    const asked = { invocation: printable(jti), agent, rootPrincipal, toolServer: printable(aud), receipts };
    const facts = { ...asked, address: exchange.clientAddress, requestId: exchange.requestId };
    try {
      const refunded = await refundCall(call, usd, store, clock());
      // Whoever has a context that was signed once can ask for as many that give nothing back.
      if (refunded.calls > 0 || refunded.total_cost_usd > 0) audit.info({ ...facts, ...refunded }, 'refund');
      verdicts.recordRefund(exchange, claims, 'done', refunded);
      return refunded;
    } catch (error) {
      const result = error instanceof RefundError ? error.code : 'internal';
      verdicts.recordRefund(exchange, claims, result, NOTHING);
      throw error;
    }
  };

  const refuse = (fault: Fault) => {
    metrics.countRejection('gate', fault);
    if (fault !== 'too_large') return answerTo(fault, configuration);
    return errorAnswer(413, `the body is larger than ${BODY_BYTES} bytes`, { closes: true });
  };

  return {
    maxBytes: BODY_BYTES,
    refusalOf: () =>
      signer !== null
        ? null
        : errorAnswer(404, 'contexts are not signed, so nothing proves a charge: set GATE_SIGNING_KEY'),
    refuse: (_, fault) => refuse(fault),
    overloaded: () => refuse('overloaded'),
    answer: async (exchange, body) => {
      try {
        const refunded = await refund(exchange, decodeUtf8(body));
        metrics.refunds.done++;
        return { status: 200, body: JSON.stringify(refunded) };
      } catch (error) {
        if (!(error instanceof RefundError)) throw error;
        const { code, message } = error;
        metrics.refunds[code]++;
        return { status: STATUS[code] ?? 409, body: JSON.stringify({ error: code, detail: message }) };
      }
    },
  };
}

const NOTHING: Refunded = { calls: 0, total_cost_usd: 0 };

/** @throws RefundError if it is anything else */
function readRefund(text: string | null): { readonly context: string; readonly usd: unknown } {
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
