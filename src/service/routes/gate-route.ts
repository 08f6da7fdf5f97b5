import { bodyOfBytes } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import { contextHeaders, NO_CONTEXT, type HeaderChanges } from '../../gate/context.js';
import { PASSING_METHODS } from '../../gate/json-rpc.js';
import type { GateRequest, RequestBody } from '../../gate/request.js';
import type { GateDecision } from '../gate-decider.js';
import type { GateHead } from '../http/gate-head.js';
import { answerBody, tooLargeMessage, type Fault } from '../http/judged-body.js';
import type { Answer, Answering, Incoming } from '../http/incoming.js';
import type { Ticket } from '../load/gatekeeper.js';
import type { RouteContext } from './context.js';

/** How a request is asked about, and what happens then. */
export interface GateQuery extends Pick<GateRequest, 'method' | 'path'> {
  readonly protocol: Protocol;
  readonly readBody: (bytes: Buffer) => RequestBody;
  /** Whether what passes could be sent on. If not, nothing is checked, so that no invocation is used in vain. */
  readonly hasRoom?: (bytes: number) => boolean;
  /**
   * Carries the decision out.
   *
   * @param body as it came; `null` if it is too large
   */
  readonly act: (decision: GateDecision, body: Buffer | null) => Answering;
}

type GateContext = Pick<RouteContext, 'gate' | 'configuration' | 'verdicts'>;

/** Answers `/gate/http`, `/gate/mcp` or `/gate/a2a` with the decision: a proxy forwards the caller's request and asks about it. */
export function answerProxy(
  context: GateContext,
  protocol: Protocol,
  incoming: Incoming,
  ticket: Ticket,
): Promise<Answer | null> {
  const gate = incoming.gate as GateHead;
  return askGate(context, incoming, ticket, {
    ...{ protocol, method: methodOf(incoming.method, gate, incoming.hasBody) },
    path: gate.path(callPathOf(incoming)),
    readBody: (bytes) =>
      gate.isPartial
        ? tooLarge('the proxy sent only a part of the body; raise its limit')
        : bodyOfBytes(bytes, gate.headers),
    act: (decision, body) => answerOf(decision, body === null),
  });
}

/** Reads a request, and decides on it: one about which a proxy asks, or one that a guard sends on. */
export function askGate(
  context: GateContext,
  incoming: Incoming,
  ticket: Ticket,
  { protocol, method, path, readBody, hasRoom, act }: GateQuery,
): Promise<Answer | null> {
  const { gate, configuration, verdicts } = context;
  const { maxBodyBytes } = configuration;
  const { headers } = incoming.gate as GateHead;
  const decide = async (body: Buffer | null): Promise<Answer | null> => {
    if (hasRoom?.(body?.length ?? 0) === false) return refuseGate(context, protocol, 'overloaded');
    const { onVerdict, decided } = verdicts.ofGate(incoming);
    const read = body === null ? tooLarge(tooLargeMessage(maxBodyBytes)) : readBody(body);
    const decision = await gate.decide({
      ...{ protocol, endpoint: 'gate', request: { method, path, headers, body: read }, onVerdict },
      isWanted: () => !incoming.isOver,
      mayWait: () => ticket.park(),
    });
    decided(decision);
    return act(decision, body);
  };
  return answerBody(incoming, ticket, maxBodyBytes, {
    answer: (_, body) => decide(body),
    refuse: (_, fault) => (fault === 'too_large' ? decide(null) : refuseGate(context, protocol, fault)),
  });
}

/** Denies a request that is not checked, in the form of its protocol. */
export function refuseGate({ gate }: Pick<GateContext, 'gate'>, protocol: Protocol, fault: Fault): Answer {
  const asked = { protocol, endpoint: 'gate' } as const;
  if (fault === 'timeout') return answerOf(gate.timedOut(asked), true);
  if (fault === 'overloaded' || fault === 'shutting_down')
    return answerOf(gate.unavailable(asked, fault), fault === 'shutting_down');
  throw new Error('a gate has no such fault');
}

const tooLarge = (reason: string): RequestBody => ({ kind: 'too large', reason });

/**
 * The method of the caller's request. Most proxies send a GET or POST of their own and name the caller's method in a
 * header. Other proxies forward a header of that name which the caller has set. So a header can turn a request into a
 * call, but cannot make a request with a body pass. If the headers disagree, the gate finds it.
 */
function methodOf(actual: string, head: GateHead, hasBody: boolean): string {
  const named = head.headers('x-forwarded-method')[0] ?? head.headers('x-original-method')[0] ?? actual;
  return hasBody && !PASSING_METHODS.has(actual) && PASSING_METHODS.has(named)
    ? `${named} or ${actual}`
    : named;
}

/** The path that the proxy has appended to the gate's own, with its query; empty if it has appended none. */
function callPathOf({ path, query }: Pick<Incoming, 'path' | 'query'>): string {
  const start = path.indexOf('/', '/gate/'.length);
  if (start < 0) return '';
  return query === undefined ? path.slice(start) : `${path.slice(start)}?${query}`;
}

/** The answer that tells a decision. */
export function answerOf(decision: GateDecision, closes: boolean): Answer {
  switch (decision.kind) {
    case 'pass':
      return { status: 200, body: '', headers: wireHeaders(NO_CONTEXT) };
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
        ...{ status, body: JSON.stringify(body) },
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
