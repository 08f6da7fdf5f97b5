import { Buffer } from 'node:buffer';
import type { Logger } from 'pino';
import { isEnvelope, unwrap, wholeBodyOfBytes } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import { contextHeaders, NO_CONTEXT } from '../../gate/context.js';
import { forwardMcp } from '../../gate/mcp-forward.js';
import type { Exchange } from '../http/exchange.js';
import type { HttpRequest } from '../http/front-end.js';
import { NodeWire } from '../http/node/node-wire.js';
import { isForeignOrigin, type RequestHead } from '../http/request-head.js';
import type { Admission } from '../load/admission.js';
import type { Places } from '../load/places.js';
import { clientOf } from '../load/rate-limit.js';
import type { GateDecision } from '../routes/gate-decider.js';
import { answer, type GateRoute } from '../routes/gate-route.js';
import { forwardedHeaders } from './forwarded-headers.js';
import type { Destination } from './target.js';
import type { Upstream } from './upstream.js';

/** What a {@link GuardRoute} needs. */
export interface GuardRouteParts {
  readonly protocol: Protocol;
  readonly destination: Destination;
  readonly gate: GateRoute;
  readonly upstream: Upstream;
  readonly admission: Admission;
  /** Connections to the tool server. */
  readonly places: Places;
  /** `ALLOWED_ORIGINS` */
  readonly origins: ReadonlySet<string>;
  readonly log: Logger;
}

/** A request that was read, and is being decided on. */
interface Asked {
  readonly exchange: Exchange;
  /** As `clientOf` names it. */
  readonly client: string;
  readonly head: RequestHead;
  readonly method: string;
  readonly target: string;
  /** Its body, exactly as it came. */
  readonly bytes: Buffer;
}

/** Sends requests on to a tool server, if the gate lets them pass. */
export class GuardRoute {
  readonly #parts: GuardRouteParts;

  constructor(parts: GuardRouteParts) {
    this.#parts = parts;
  }

  /** Decides on a request, and sends it on or refuses it. */
  serve(exchange: Exchange, head: RequestHead, req: HttpRequest): void {
    const { protocol, destination, gate, origins, places, admission } = this.#parts;
    const method = req.getCaseSensitiveMethod();
    const query = req.getQuery();
    const target = query === undefined ? req.getUrl() : `${req.getUrl()}?${query}`;
    if (isForeignOrigin(head, origins)) {
      const why = 'requests of web pages are refused unless their origin is listed in ALLOWED_ORIGINS';
      exchange.refuse(403, why);
      return;
    }
    if (!destination.takes(method, target)) {
      exchange.refuse(404, `there is nothing at this path, expected ${destination.expected}`);
      return;
    }
    // A tool server may take minutes, and an event stream hours: no client's requests may take what all others need.
    const client = clientOf(exchange.clientAddress);
    let bytes = Buffer.alloc(0);
    gate.ask(exchange, head, {
      ...{ protocol, method, path: target },
      readBody: (came) => {
        bytes = Buffer.from(came);
        return wholeBodyOfBytes(bytes, head.gate.headers);
      },
      hasRoom: (length) => places.hasFor(client) && admission.memory.canRead(length, exchange),
      act: (decision, closes) => {
        if (decision.kind === 'deny') answer(exchange, decision, closes);
        else if (closes) exchange.refuse(413, 'the body is larger than MAX_BODY_BYTES', { closes });
        else this.#sendOn({ exchange, client, head, method, target, bytes }, decision);
      },
    });
  }

  #sendOn(
    { exchange, client, head, method, target, bytes }: Asked,
    decision: Exclude<GateDecision, { readonly kind: 'deny' }>,
  ): void {
    const { protocol, upstream, admission, places, log } = this.#parts;
    const { headers } = head.gate;
    const isOpened = protocol === 'http' && isEnvelope(headers);
    const body = isOpened ? openedOf(bytes, headers) : bodyOf(protocol, method, bytes);
    const held = admission.memory.reserve(client);
    const hasPlace = places.take(client);
    const wire = hasPlace && held.take(bytes.length) ? exchange.handOver() : null;
    if (!(wire instanceof NodeWire)) {
      // Others have taken the room meanwhile, or the client has gone.
      if (hasPlace) places.give(client);
      held.release();
      exchange.answer(503, '{"error":"overloaded"}', { headers: { 'Retry-After': '1' } });
      return;
    }
    const { request, response } = wire.handOver();
    const changes = decision.kind === 'allow' ? contextHeaders(decision.context, decision.token) : NO_CONTEXT;
    const sent = forwardedHeaders(request.rawHeaders, changes, isOpened ? 'application/json' : null);
    upstream
      .forward({ method, path: target, headers: sent, body }, response, {
        closes: admission.isLeaving,
        onSent: () => held.release(),
      })
      .catch((error: unknown) => {
        log.error({ err: error }, 'a request failed inside the guard');
        response.destroy();
      })
      .finally(() => places.give(client));
  }
}

/** The body that is sent on: what was decided on, to the byte, but for what only concerns the gate. */
function bodyOf(protocol: Protocol, method: string, bytes: Buffer): Buffer | null {
  // What passes without a check has no body: the event stream, the end of a session, an agent card.
  if (bytes.length === 0 || (protocol === 'mcp' && method !== 'POST')) return null;
  if (protocol !== 'mcp') return bytes;
  const text = bytes.toString('utf8');
  const forwarded = forwardMcp(text, null);
  return forwarded === text ? bytes : Buffer.from(forwarded);
}

/** The body in an envelope that was allowed. */
function openedOf(bytes: Buffer, headers: RequestHead['gate']['headers']): Buffer {
  const body = wholeBodyOfBytes(bytes, headers);
  const opened = unwrap({ method: 'POST', path: null, headers, body });
  if ('code' in opened || opened.body.kind !== 'value') throw new Error('this is no envelope');
  return Buffer.from(JSON.stringify(opened.body.value));
}
