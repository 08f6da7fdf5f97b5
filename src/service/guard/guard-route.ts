import { Buffer } from 'node:buffer';
import type { Logger } from 'pino';
import { isEnvelope, unwrap, wholeBodyOfBytes } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import { contextHeaders, NO_CONTEXT } from '../../gate/context.js';
import { forwardMcp } from '../../gate/mcp-forward.js';
import type { HeaderLookup } from '../../gate/request.js';
import type { GateDecision } from '../gate-decider.js';
import type { GateHead } from '../http/gate-head.js';
import { refusal, type Answer, type Incoming } from '../http/incoming.js';
import { answerTo } from '../http/judged-body.js';
import { NodeWire } from '../http/node/node-wire.js';
import type { Gatekeeper, Ticket } from '../load/gatekeeper.js';
import type { PerClientSlots } from '../load/per-client-slots.js';
import { answerOf, GateJudge, type GateJudgeContext } from '../routes/gate-route.js';
import { forwardedHeaders } from './forwarded-headers.js';
import type { Destination } from './target.js';
import type { Upstream } from './upstream.js';

/** What a {@link GuardRoute} needs. */
export interface GuardRouteParts {
  readonly protocol: Protocol;
  readonly destination: Destination;
  readonly context: GateJudgeContext;
  readonly upstream: Upstream;
  readonly gatekeeper: Pick<Gatekeeper, 'isLeaving'>;
  /** Connections to the tool server. */
  readonly slots: PerClientSlots;
  readonly log: Logger;
}

/** Decides on the requests of clients, and sends on what the gate lets pass. */
export class GuardRoute {
  readonly judge: GateJudge;
  readonly #parts: GuardRouteParts;

  constructor(parts: GuardRouteParts) {
    this.#parts = parts;
    const { protocol, destination, context, slots } = parts;
    this.judge = new GateJudge(
      context,
      protocol,
      (incoming, bytes, ticket) => {
        let kept: Buffer | null = null;
        return {
          ...{ method: incoming.method, path: targetOf(incoming) },
          readBody: (body) => {
            kept = Buffer.from(body);
            return wholeBodyOfBytes(kept, (incoming.gate as GateHead).headers);
          },
          // A tool server may take minutes, and an event stream hours: no client's requests may take what all others need.
          hasRoom: slots.hasFor(incoming.client) && ticket?.canGrow(bytes) !== false,
          act: (decision, isTooLarge) => {
            if (decision.kind === 'deny') return answerOf(decision, isTooLarge);
            if (kept === null || ticket === null)
              return refusal(413, 'the body is larger than MAX_BODY_BYTES', { closes: true });
            return this.#sendOn(incoming, ticket, decision, kept);
          },
        };
      },
      (incoming) =>
        destination.takes(incoming.method, targetOf(incoming))
          ? null
          : refusal(404, `there is nothing at this path, expected ${destination.expected}`),
    );
  }

  /** Settled when the body is sent, or cannot be. The answer of the tool server may then take any time. */
  async #sendOn(
    incoming: Incoming,
    ticket: Ticket,
    decision: Exclude<GateDecision, { readonly kind: 'deny' }>,
    bytes: Buffer,
  ): Promise<Answer | null> {
    const { protocol, context, upstream, gatekeeper, slots, log } = this.#parts;
    const { client, method } = incoming;
    const { headers } = incoming.gate as GateHead;
    const isOpened = protocol === 'http' && isEnvelope(headers);
    const body = isOpened ? openedOf(bytes, headers) : bodyOf(protocol, method, bytes);
    // It waits for no verdict any more.
    ticket.release();
    const hasSlot = slots.take(client);
    const wire = hasSlot && ticket.grow(bytes.length) ? incoming.handOver() : null;
    if (!(wire instanceof NodeWire)) {
      // Others have taken the room meanwhile, or the client has gone.
      if (hasSlot) slots.give(client);
      return answerTo('overloaded', context.configuration);
    }
    const { request, response } = wire.handOver();
    const changes = decision.kind === 'allow' ? contextHeaders(decision.context, decision.token) : NO_CONTEXT;
    const sent = forwardedHeaders(request.rawHeaders, changes, isOpened ? 'application/json' : null);
    await new Promise<void>((resolve) => {
      upstream
        .forward({ method, path: targetOf(incoming), headers: sent, body }, response, {
          closes: gatekeeper.isLeaving,
          onSent: resolve,
        })
        .catch((error: unknown) => {
          log.error({ err: error }, 'a request failed inside the guard');
          response.destroy();
        })
        .finally(() => {
          slots.give(client);
          resolve();
        });
    });
    return null;
  }
}

/** Path and query, as they were sent. */
function targetOf({ path, query }: Incoming): string {
  return query === undefined ? path : `${path}?${query}`;
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
function openedOf(bytes: Buffer, headers: HeaderLookup): Buffer {
  const body = wholeBodyOfBytes(bytes, headers);
  const opened = unwrap({ method: 'POST', path: null, headers, body });
  if ('code' in opened || opened.body.kind !== 'value') throw new Error('this is no envelope');
  return Buffer.from(JSON.stringify(opened.body.value));
}
