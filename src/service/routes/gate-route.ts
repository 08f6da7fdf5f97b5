import { bodyOfBytes } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import { contextHeaders, passHeaders, type HeaderChanges } from '../../gate/context.js';
import { PASSING_METHODS } from '../../gate/json-rpc.js';
import { valuesOf, type RequestBody, type RequestHead } from '../../gate/request.js';
import type { GateDecision } from '../gate-decider.js';
import { callTargetOf, isPartial } from '../http/proxied.js';
import { tooLargeMessage, type Fault, type BodyHandler } from '../http/body-handler.js';
import type { Answer, Answering, Exchange, TextAnswer } from '../http/exchange.js';
import type { Ticket } from '../load/gatekeeper.js';
import type { RouteContext } from '../core.js';

/** How a request is asked about, and what happens then. */
export interface GateQuery extends RequestHead {
  readonly readBody: (bytes: Buffer) => RequestBody;
  /** Whether a denial goes to the client as it is. */
  readonly mayAsk?: boolean;
  /** Whether what passes could be sent on. If not, nothing is checked, so that no invocation is used in vain. */
  readonly hasRoom?: boolean;
  /**
   * Carries the decision out.
   *
   * @param isTooLarge whether the body was not read
   */
  readonly act: (decision: GateDecision, isTooLarge: boolean) => Answering;
}

/**
 * Judges requests: those about which proxies ask, and those that a guard sends on.
 *
 * @param queryOf `ticket`: `null` if the body is too large
 */
export function gateHandler(
  {
    configuration: { maxBodyBytes: maxBytes },
    gate: { decider },
    gatekeeper,
  }: Pick<RouteContext, 'configuration' | 'gate' | 'gatekeeper'>,
  protocol: Protocol,
  queryOf: (exchange: Exchange, bytes: number, ticket: Ticket | null) => GateQuery,
): BodyHandler<Exchange> {
  const asked = { protocol, endpoint: 'gate' } as const;
  /** Denies a request that is not checked, in the form of its protocol. */
  const overloaded = () => answerOf(decider.unread(asked, 'overloaded'), false);
  const refuse = (exchange: Exchange, fault: Fault): Answering => {
    if (fault === 'too_large') return answer(exchange, null, null);
    if (fault === 'overloaded') return overloaded();
    if (fault === 'timeout' || fault === 'shutting_down') return answerOf(decider.unread(asked, fault), true);
    throw new Error('a gate has no such fault');
  };
  const holderOf = (exchange: Exchange, ticket: Ticket | null) => {
    let isHeld = false;
    return () => !exchange.isOver && !gatekeeper.isLeaving && (isHeld ||= ticket?.park() === true);
  };
  const answer = async (
    exchange: Exchange,
    body: Buffer | null,
    ticket: Ticket | null,
  ): Promise<Answer | null> => {
    const query = queryOf(exchange, body?.length ?? 0, ticket);
    const { method, target, headers, readBody, hasRoom, act, mayAsk = false } = query;
    if (hasRoom === false) return refuse(exchange, 'overloaded');
    const read = body === null ? tooLarge(tooLargeMessage(maxBytes)) : readBody(body);
    const decision = await decider.decide({
      asked: exchange,
      request: { method, target, headers, body: read },
      isWanted: () => !exchange.isOver,
      mayWait: () => ticket?.park() === true,
      mayAsk,
      mayHold: mayAsk ? holderOf(exchange, ticket) : undefined,
      // Last, as in all objects of each call: in Node 20 members behind a spread cost a microsecond.
      ...asked,
    });
    return act(decision, body === null);
  };
  return { maxBytes, answer, refuse, overloaded };
}

/** Answers `/gate/http`, `/gate/mcp` or `/gate/a2a` with the decision: a proxy forwards the caller's request and asks about it. */
export function proxyQuery(exchange: Exchange): GateQuery {
  const { headers } = exchange;
  return {
    method: methodOf(exchange),
    target: callTargetOf(headers, appendedTargetOf(exchange)),
    headers,
    readBody: (bytes) =>
      isPartial(headers)
        ? tooLarge('the proxy sent only a part of the body; raise its limit')
        : bodyOfBytes(bytes, headers),
    act: answerOf,
  };
}

const tooLarge = (reason: string): RequestBody => ({ kind: 'too large', reason });

/**
 * The method of the caller's request. Most proxies send a GET or POST of their own and name the caller's method in a
 * header. Other proxies forward a header of that name which the caller has set. So a header can turn a request into a
 * call, but cannot make a request with a body pass. If the headers disagree, the gate finds it.
 */
function methodOf({ method: actual, headers, hasBody }: Exchange): string {
  const [named = actual] = [
    ...valuesOf(headers, 'x-forwarded-method'),
    ...valuesOf(headers, 'x-original-method'),
  ];
  return hasBody && !PASSING_METHODS.has(actual) && PASSING_METHODS.has(named)
    ? `${named} or ${actual}`
    : named;
}

/** The path that the proxy has appended to the gate's own, with its query; empty if it has appended none. */
function appendedTargetOf({ path, target }: Pick<Exchange, 'path' | 'target'>): string {
  const start = path.indexOf('/', '/gate/'.length);
  return start < 0 ? '' : target.slice(start);
}

export function answerOf(decision: GateDecision, closes: boolean): TextAnswer {
  switch (decision.kind) {
    case 'pass':
      return { status: 200, body: '', headers: wireHeaders(passHeaders(decision.observed)) };
    case 'allow':
      return {
        status: 200,
        body: '',
        headers: wireHeaders(contextHeaders(decision.context, decision.token)),
      };
    case 'deny': {
      const { status, headers, body } = decision.response;
      // By the name that the front ends look for: under another, they would send a second one.
      const { 'content-type': type = 'application/json', ...more } = headers;
      return {
        status,
        body: JSON.stringify(body),
        headers: { 'Content-Type': type, ...more, 'X-DRS-Code': decision.code },
        ...(closes && { closes }),
      };
    }
  }
}

/** Envoy removes the headers that the answer names. In other proxies, the configuration does it. */
function wireHeaders({ set, remove }: HeaderChanges): Record<string, string> {
  return remove.length === 0 ? set : { 'x-envoy-auth-headers-to-remove': remove.join(','), ...set };
}
