import { bodyOfBytes } from '../../gate/carriers.js';
import { contextHeaders, NO_CONTEXT, type HeaderChanges } from '../../gate/context.js';
import type { Protocol } from '../../gate/codes.js';
import type { GateRequest, RequestBody } from '../../gate/request.js';
import { PASSING_METHODS } from '../../gate/json-rpc.js';
import { tooLargeMessage, type BodyIntake, type IntakeFault, type IntakeSink } from '../http/body-intake.js';
import type { Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import type { GateDecider, GateDecision } from './gate-decider.js';
import type { GateHead, RequestHead } from '../http/request-head.js';
import type { RouteContext } from './context.js';
import type { VerdictLogs } from '../observe/logs/verdict-logs.js';

/** How a request is asked about, and what happens then. */
export interface Asking extends Pick<GateRequest, 'method' | 'path'> {
  readonly protocol: Protocol;
  /** The body, from its bytes, which are only valid during the call. */
  readonly readBody: (bytes: Buffer) => RequestBody;
  /** Whether what passes could be sent on. If not, nothing is checked, so that no invocation is used in vain. */
  readonly hasRoom?: (bytes: number) => boolean;
  /** Carries the decision out. @param closes whether an answer must close the connection */
  readonly act: (decision: GateDecision, closes: boolean) => void;
}

/** Reads requests, and decides on them: those about which proxies ask, and those that a guard sends on. */
export class GateRoute {
  readonly #decider: GateDecider;
  readonly #intake: BodyIntake;
  readonly #maxBodyBytes: number;
  readonly #verdicts: VerdictLogs;

  constructor(
    { gate, configuration, verdicts }: Pick<RouteContext, 'gate' | 'configuration' | 'verdicts'>,
    intake: BodyIntake,
  ) {
    this.#decider = gate;
    this.#intake = intake;
    this.#maxBodyBytes = configuration.maxBodyBytes;
    this.#verdicts = verdicts;
  }

  /**
   * Makes what answers `/gate/http`, `/gate/mcp` or `/gate/a2a` with the decision: a proxy forwards the
   * caller's request and asks about it.
   */
  serve(protocol: Protocol) {
    return (exchange: Exchange, head: RequestHead, req: HttpRequest): void => {
      const { gate, hasBody } = head;
      this.ask(exchange, head, {
        protocol,
        method: methodOf(req.getCaseSensitiveMethod(), gate, hasBody),
        path: gate.path(callPathOf(req)),
        readBody: (bytes) =>
          gate.isPartial
            ? tooLarge('the proxy sent only a part of the body; raise its limit')
            : bodyOfBytes(bytes, gate.headers),
        act: (decision, closes) => answer(exchange, decision, closes),
      });
    };
  }

  /** Reads a request, and decides on it. */
  ask(exchange: Exchange, head: RequestHead, asking: Asking): void {
    const take: IntakeSink = (_, body) => this.#take(exchange, head.gate, asking, body);
    if (head.hasBody) this.#intake.read(exchange, head, take);
    else this.#intake.admit(exchange, Buffer.alloc(0), take);
  }

  #take(exchange: Exchange, { headers }: GateHead, asking: Asking, body: Buffer | IntakeFault): void {
    const { protocol, method, path, readBody, hasRoom, act } = asking;
    if (body === 'timeout') {
      act(this.#decider.timedOut({ protocol, endpoint: 'gate' }), true);
      return;
    }
    if (body === 'overloaded' || body === 'shutting_down') {
      act(this.#decider.unavailable({ protocol, endpoint: 'gate' }, body), body === 'shutting_down');
      return;
    }
    const isLarge = body === 'too_large';
    const read = isLarge ? tooLarge(tooLargeMessage(this.#maxBodyBytes)) : readBody(body);
    exchange.releaseBody();
    const bytes = isLarge ? 0 : body.length;
    if (hasRoom?.(bytes) === false) {
      act(this.#decider.unavailable({ protocol, endpoint: 'gate' }, 'overloaded'), isLarge);
      return;
    }
    const { onVerdict, decided } = this.#verdicts.ofGate(exchange);
    this.#decider
      .decide({
        ...{ protocol, endpoint: 'gate', request: { method, path, headers, body: read }, bytes },
        isWanted: () => !exchange.isOver,
        onVerdict,
      })
      .then((decision) => {
        decided(decision);
        act(decision, isLarge);
      })
      // decide() never rejects: this catches an answer that cannot be written.
      .catch(() => exchange.refuse(500, 'internal'));
  }
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
function callPathOf(req: HttpRequest): string {
  const url = req.getUrl();
  const start = url.indexOf('/', '/gate/'.length);
  if (start < 0) return '';
  const query = req.getQuery();
  return query === undefined ? url.slice(start) : `${url.slice(start)}?${query}`;
}

/** Answers with a decision. */
export function answer(exchange: Exchange, decision: GateDecision, closes: boolean): void {
  switch (decision.kind) {
    case 'pass':
      exchange.answer(200, '', { headers: wireHeaders(NO_CONTEXT) });
      break;
    case 'allow':
      exchange.answer(200, '', { headers: wireHeaders(contextHeaders(decision.context, decision.token)) });
      break;
    case 'deny': {
      const { status, headers, body } = decision.response;
      // By the name that the front ends look for: under another, they would send a second one.
      const { 'content-type': type = 'application/json', ...more } = headers;
      exchange.answer(status, JSON.stringify(body), {
        headers: { 'Content-Type': type, ...more, 'X-DRS-Code': decision.code },
        ...(closes ? { closes } : {}),
      });
    }
  }
}

/** Envoy removes the headers that the answer names. In other proxies, the configuration does it. */
function wireHeaders({ set, remove }: HeaderChanges): Record<string, string> {
  return remove.length === 0 ? set : { 'x-envoy-auth-headers-to-remove': remove.join(','), ...set };
}
