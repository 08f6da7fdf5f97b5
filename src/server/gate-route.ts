import {
  bodyOfBytes,
  contextHeaders,
  NO_CONTEXT,
  PASSING_METHODS,
  type GateProtocol,
  type HeaderChanges,
} from '../gate/index.js';
import type { BodyIntake, IntakeFault, IntakeSink } from './body-intake.js';
import { tooLargeMessage } from './body-reader.js';
import type { Exchange } from './exchange.js';
import type { GateDecider, GateDecision } from './gate-decider.js';
import type { GateHead } from './gate-head.js';
import type { RequestHead } from './request-head.js';
import type { VerdictLogs } from './verdict-logs.js';

/** `/gate/http`, `/gate/mcp`, `/gate/a2a`, `/gate/chain`: a proxy forwards the caller's request and asks about it. */
export class GateRoute {
  readonly #decider: GateDecider;
  readonly #intake: BodyIntake;
  readonly #maxBodyBytes: number;
  readonly #verdicts: VerdictLogs;

  constructor(decider: GateDecider, intake: BodyIntake, maxBodyBytes: number, verdicts: VerdictLogs) {
    this.#decider = decider;
    this.#intake = intake;
    this.#maxBodyBytes = maxBodyBytes;
    this.#verdicts = verdicts;
  }

  /**
   * Reads the request and answers with the decision.
   *
   * @param method method of the request to the gate, in upper case
   */
  serve(protocol: GateProtocol, exchange: Exchange, method: string, head: RequestHead): void {
    const { gate, hasBody } = head;
    const callMethod = methodOf(method, gate, hasBody);
    const take: IntakeSink = (_, body) => this.#take(protocol, exchange, callMethod, gate, body);
    if (hasBody) this.#intake.read(exchange, head, take);
    else this.#intake.admit(exchange, Buffer.alloc(0), take);
  }

  #take(
    protocol: GateProtocol,
    exchange: Exchange,
    method: string,
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
      method,
      headers: head.headers,
      body: isLarge
        ? tooLarge(tooLargeMessage(this.#maxBodyBytes))
        : head.isPartial
          ? tooLarge('the proxy sent only a part of the body; raise its limit')
          : bodyOfBytes(body, head),
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
 * call, but cannot make a request with a body pass. If the headers disagree, the result is an unknown method, which is
 * refused.
 */
function methodOf(actual: string, head: GateHead, hasBody: boolean): string {
  const [named = actual, ...others] = head.forwardedMethods;
  const doubtful: string[] = others.filter((other) => other !== named);
  if (hasBody && carriesCall(actual) && !carriesCall(named)) doubtful.push(actual);
  if (!carriesCall(named)) doubtful.push(...head.overridingMethods.filter(carriesCall));
  return doubtful.length === 0 ? named : [named, ...doubtful].join(' or ');
}

function carriesCall(method: string): boolean {
  return !PASSING_METHODS.has(method);
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
