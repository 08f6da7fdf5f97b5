import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { agreementOf } from '../../../gate/context.js';
import { isJsonObject, type JsonObject } from '../../../protocol/json.js';
import { parseCompactJwt } from '../../../protocol/jwt.js';
import type { Refunded } from '../../../usage/index.js';
import type { Judgement } from '../../../verify/judge.js';
import { UNPRINTABLE } from '../../../verify/unprintable.js';
import type { Configuration } from '../../configuration/configuration.js';
import type { LoggedRequest } from '../../http/incoming.js';
import { traceIdOf } from '../../http/request-ids.js';
import type { ContextClaims } from '../../routes/context-token.js';
import { openSampler } from '../sampler.js';
import type { LineFile } from './line-file.js';

export type VerdictLogs = ReturnType<typeof verdictLogsOf>;

/**
 * The logs of verdicts: refusals in the log of the service, so that one can be found by its request id (`LOG_REFUSALS`), and the
 * decision log, with one JSON line for each verdict and each refund.
 *
 * @param decisions `null` if there is no decision log
 */
export function verdictLogsOf(
  { logRefusals }: Pick<Configuration, 'logRefusals'>,
  log: Logger,
  decisions: LineFile | null,
) {
  // Names the host among all that write a decision log.
  const instance = hostname();
  const logLeftOut = (leftOut: number) => log.info({ leftOut }, 'refused: as many more, left out of the log');
  const refusals =
    logRefusals === 'off' ? null : openSampler(logLeftOut, logRefusals === 'all' ? Infinity : undefined);

  /** Writes a line of the decision log. */
  const write = (
    { requestId, address, parent, endpoint }: LoggedRequest,
    facts: object,
    call: LoggedCall,
  ): void => {
    if (decisions === null) return;
    const asked = { time: new Date().toISOString(), requestId, instance, address };
    const traceId = traceIdOf(parent);
    decisions.write(JSON.stringify({ ...asked, traceId, endpoint, ...facts, ...printableCall(call) }));
  };

  return {
    decisions,

    /**
     * Records an outcome. Call it before the answer is written, so that the answer carries the request id.
     *
     * @param bundle the bundle that was verified
     * @param gate `denial`: why a gate denied the call although the bundle is valid; `isObserved`: it is on trial, and let it pass
     */
    record(
      request: LoggedRequest,
      outcome: Judgement,
      bundle: unknown,
      {
        denial,
        isObserved = false,
      }: { readonly denial?: string | undefined; readonly isObserved?: boolean } = {},
    ): void {
      const { failure, chain, binding } = outcome;
      const code = failure?.code ?? denial;
      if (code !== undefined) {
        if (!isObserved) request.code = code;
        if (refusals?.admits() === true) {
          const { requestId, parent } = request;
          const traceId = traceIdOf(parent);
          const call = printableCall(callIn(outcome, bundle));
          log.info(
            { block: failure?.block, code, requestId, traceId, ...call },
            isObserved ? 'observed' : 'refused',
          );
        }
      }
      if (decisions === null) return;
      const receipts = chain?.receipts.map(({ digest }) => digest);
      // Of a refusal, nothing of this is proved.
      const agreed =
        failure === null
          ? printableIn(agreementOf(outcome.chain.root.claims, outcome.invocation.claims))
          : undefined;
      // What is `undefined` is left out.
      const facts = {
        ...{ valid: failure === null, block: failure?.block, code: failure?.code, denied: denial },
        ...{ binding: binding ?? undefined, depth: receipts?.length, receipts, agreed },
        observed: isObserved || undefined,
      };
      write(request, facts, callIn(outcome, bundle));
    },

    /** Records what a gate on trial let pass before there was a verdict. @param tool by the word of the caller */
    recordObserved(request: LoggedRequest, code: string, tool: string | null): void {
      write(
        request,
        { valid: false, code, observed: true },
        { rootPrincipal: null, agent: null, jti: null, tool },
      );
    },

    /**
     * Records a refund of a call that a gate allowed.
     *
     * @param refund `done`, or the code of why nothing was given back
     */
    recordRefund(
      request: LoggedRequest,
      { sub: rootPrincipal, agent, jti, tool, charged = [] }: ContextClaims,
      refund: string,
      { calls, total_cost_usd: usd }: Refunded,
    ): void {
      const receipts = charged.map(({ receipt }) => printable(receipt));
      const facts = { refund, calls, totalCostUsd: usd, receipts };
      write(request, facts, { rootPrincipal, agent, jti, tool });
    },

    async close(): Promise<void> {
      refusals?.close();
      await decisions?.close();
    },
  };
}

// A longer JWT is not worth decoding again for a log line.
const MAX_JWT_LENGTH = 64 * 1024;
const MAX_NODES = 4096;

/**
 * Who asked for what by a bundle, of any type and length. If it was refused, it is decoded again, and none of this is proved. Never
 * more than this: arguments may be secret, and anybody who has receipts and signatures can use them.
 */
function callIn(outcome: Judgement, bundle: unknown): LoggedCall {
  if (outcome.failure === null) return callOf(outcome.chain.root.claims, outcome.invocation.claims);
  const { receipts, invocation } = isJsonObject(bundle) ? bundle : {};
  return callOf(payloadOf(Array.isArray(receipts) ? receipts[0] : undefined), payloadOf(invocation));
}

type Claims = Partial<Readonly<Record<'iss' | 'jti' | 'args', unknown>>>;
type LoggedCall = Readonly<Record<'rootPrincipal' | 'agent' | 'jti' | 'tool', unknown>>;

function callOf(root: Claims, { iss, jti, args }: Claims): LoggedCall {
  return { rootPrincipal: root.iss, agent: iss, jti, tool: isJsonObject(args) ? args['tool'] : undefined };
}

function payloadOf(jwt: unknown): JsonObject {
  if (typeof jwt !== 'string' || jwt.length > MAX_JWT_LENGTH) return {};
  const parts = parseCompactJwt(jwt, MAX_NODES);
  return parts.defect === undefined ? parts.payload : {};
}

/** Maximum length of a text in a log line; the rest is cut off. */
const MAX_LENGTH = 200;
const PLAIN = /^[ -~]*$/;

function printableCall({ rootPrincipal, agent, jti, tool }: LoggedCall) {
  const caller = { rootPrincipal: printable(rootPrincipal), agent: printable(agent) };
  return { ...caller, jti: printable(jti), tool: printable(tool) };
}

/** A value with each text in it made {@link printable}. */
function printableIn(value: unknown): unknown {
  if (typeof value === 'string') return printable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(printableIn);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, printableIn(member)]));
}

/** A text without characters that control terminals, cut at 200 characters; `null` for a value that is not a text. */
export function printable(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  const text = value.length > MAX_LENGTH ? `${value.slice(0, MAX_LENGTH)}…` : value;
  // Nearly every value is plain ASCII, and the replacement takes a microsecond.
  return PLAIN.test(text) ? text : text.replace(UNPRINTABLE, '?');
}
