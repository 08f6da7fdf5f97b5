import { bodyOfBytes } from '../../gate/call-body.js';
import { contextHeaders, NO_CONTEXT, type HeaderChanges } from '../../gate/context-headers.js';
import type { GateProtocol } from '../../gate/open.js';
import type { GateRequest } from '../../gate/request.js';
import { PASSING_METHODS } from '../../gate/json-rpc.js';
import { tooLargeMessage, type BodyIntake, type IntakeFault, type IntakeSink } from '../http/body-intake.js';
import type { Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import type { GateDecider, GateDecision } from './gate-decider.js';
import type { GateHead } from '../http/gate-head.js';
import type { RequestHead } from '../http/request-head.js';
import type { RouteContext } from './context.js';
import type { VerdictLogs } from '../observe/logs/verdict-logs.js';

/** `/gate/http`, `/gate/mcp`, `/gate/a2a`, `/gate/chain`: a proxy forwards the caller's request and asks about it. */
export class GateRoute {
  readonly #decider: GateDecider;
  readonly #intake: BodyIntake;
  readonly #maxBodyBytes: number;
  readonly #verdicts: VerdictLogs;

  constructor({ gate, configuration, verdicts }: RouteContext, intake: BodyIntake) {
    this.#decider = gate;
    this.#intake = intake;
    this.#maxBodyBytes = configuration.maxBodyBytes;
    this.#verdicts = verdicts;
  }

  /**
   * Reads the request and answers with the decision.
   */
  serve(protocol: GateProtocol, exchange: Exchange, req: HttpRequest, head: RequestHead): void {
    const { gate, hasBody } = head;
    const asked = {
      method: methodOf(req.getCaseSensitiveMethod(), gate, hasBody),
      path: gate.path(callPathOf(req)),
    };
    const take: IntakeSink = (_, body) => this.#take(protocol, exchange, asked, gate, body);
    if (hasBody) this.#intake.read(exchange, head, take);
    else this.#intake.admit(exchange, Buffer.alloc(0), take);
  }

  #take(
    protocol: GateProtocol,
    exchange: Exchange,
    asked: Pick<GateRequest, 'method' | 'path'>,
    head: GateHead,
    body: Buffer | IntakeFault,
  ): void {
    if (body === 'timeout') {
      answer(exchange, this.#decider.timedOut({ protocol, endpoint: 'gate' }), true);
      return;
    }
    if (body === 'overloaded' || body === 'shutting_down') {
      const denial = this.#decider.unavailable({ protocol, endpoint: 'gate' }, body);
      answer(exchange, denial, body === 'shutting_down');
      return;
    }
    const isLarge = body === 'too_large';
    const tooLarge = (reason: string) => ({ kind: 'too large', reason }) as const;
    const request = {
      method: asked.method,
      path: asked.path,
      headers: head.headers,
      body: isLarge
        ? tooLarge(tooLargeMessage(this.#maxBodyBytes))
        : head.isPartial
          ? tooLarge('the proxy sent only a part of the body; raise its limit')
          : bodyOfBytes(body, head.headers),
    };
    exchange.releaseBody();
    const bytes = isLarge ? 0 : body.length;
    const { onVerdict, decided } = this.#verdicts.ofGate(exchange);
    this.#decider
      .decide({ protocol, endpoint: 'gate', request, bytes, isWanted: () => !exchange.isOver, onVerdict })
      .then((decision) => {
        decided(decision);
        answer(exchange, decision, isLarge);
      })
      // decide() never rejects: this catches an answer that cannot be written.
      .catch(() => exchange.refuse(500, 'internal'));
  }
}

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

function answer(exchange: Exchange, decision: GateDecision, closes: boolean): void {
  switch (decision.kind) {
    case 'pass':
      exchange.answer(200, '', { headers: wireHeaders(NO_CONTEXT) });
      break;
    case 'allow':
      exchange.answer(200, '', { headers: wireHeaders(contextHeaders(decision.context, decision.token)) });
      break;
    case 'deny': {
      const { status, headers, body } = decision.response;
      exchange.answer(status, JSON.stringify(body), {
        headers: { ...headers, 'X-DRS-Code': decision.code },
        ...(closes ? { closes } : {}),
      });
    }
  }
}

/** Envoy removes the headers that the answer names. In other proxies, the configuration does it. */
function wireHeaders({ set, remove }: HeaderChanges): Record<string, string> {
  return remove.length === 0 ? set : { 'x-envoy-auth-headers-to-remove': remove.join(','), ...set };
}
