import type { Logger } from 'pino';
import { isEnvelope, unwrap, wholeBodyOfBytes } from '../gate/carriers.js';
import type { Protocol } from '../gate/codes.js';
import { contextHeaders, passHeaders } from '../gate/context.js';
import { forwardMcp } from '../gate/mcp-forward.js';
import { NAMING_HEADERS, type GateRequest, type RequestBody } from '../gate/request.js';
import type { JsonValue } from '../protocol/json.js';
import type { Configuration } from '../service/configuration/configuration.js';
import { openCore, type RouteContext } from '../service/core.js';
import { reload } from '../service/http/listen/listen.js';
import { errorAnswer } from '../service/http/exchange.js';
import { approveRows } from '../service/routes/approve-route.js';
import { answerOf, gateHandler } from '../service/routes/gate-route.js';
import type { HttpRelayParts, MakeHandler } from './http-relay.js';

/** What an application could take for another method or path than those that were decided on. */
const NAMING: ReadonlySet<string> = new Set(NAMING_HEADERS);
/** What `Connection` may name besides: headers that a relay never sends on. */
const OF_UPGRADE = /(?<![\w-])(?:te|trailer|upgrade|http2-settings)(?![\w-])/gi;
/** The bundle and the context of a call: only a gate may say who acts for whom. */
const OURS = 'x-drs-';

/** Opens what a guard decides with: all that a service has, but for its routes. @param openReplays as of {@link openCore} */
export const openGuard =
  (
    configuration: Configuration,
    protocol: Protocol,
    log: Logger,
    openReplays?: Parameters<typeof openCore>[3],
  ): HttpRelayParts['openDecider'] =>
  async (opened) => {
    const core = await openCore(configuration, log, opened, openReplays);
    return {
      ...core,
      makeHandler: guardHandler({ ...core, configuration }, protocol),
      routes: new Map(approveRows({ ...core, configuration, log })),
      reload: (certificate) => reload(core, certificate, log),
    };
  };

/**
 * Decides on the requests of clients, and sends on what the gate lets pass. The front end has refused names like
 * `X_DRS_Agent`, which some servers take for `X-DRS-Agent`.
 */
function guardHandler(
  context: Pick<RouteContext, 'configuration' | 'gate' | 'gatekeeper'>,
  protocol: Protocol,
): MakeHandler {
  return (forwarder) =>
    gateHandler(context, protocol, (exchange, size, ticket) => {
      let bytes: Buffer | null = null;
      let body: RequestBody = { kind: 'none' };
      const { method, target, headers } = exchange;
      // The gate refuses upgrades. This one is not sent on, so nothing is upgraded: Java's client asks for it in each first request.
      const withoutUpgrade = new Map(headers);
      withoutUpgrade.delete('upgrade');
      const connection = headers.get('connection');
      if (connection !== undefined) withoutUpgrade.set('connection', connection.replaceAll(OF_UPGRADE, ''));
      return {
        method,
        target,
        headers: withoutUpgrade,
        mayAsk: true,
        readBody: (read) => {
          bytes = Buffer.from(read);
          return (body = wholeBodyOfBytes(bytes, headers));
        },
        hasRoom: forwarder.hasRoom(exchange, ticket, size),
        act: (decision, isTooLarge) => {
          if (decision.kind === 'deny') return answerOf(decision, isTooLarge);
          if (bytes === null || ticket === null)
            return errorAnswer(413, 'the body is larger than DRS_MAX_BODY_BYTES', { closes: true });
          const { set } =
            decision.kind === 'allow'
              ? contextHeaders(decision.context, decision.token)
              : passHeaders(decision.observed);
          const sent = bodyToSend(protocol, bytes, { method, target: null, headers, body });
          if (typeof sent === 'string') return errorAnswer(400, sent);
          return forwarder.send(exchange, ticket, {
            set: {
              'X-Forwarded-For': exchange.clientAddress,
              ...(protocol === 'http' && isEnvelope(headers) && { 'Content-Type': 'application/json' }),
              ...set,
            },
            isLeftOut: (name) => NAMING.has(name) || name === 'x-original-uri' || name.startsWith(OURS),
            body: sent,
          });
        },
      };
    });
}

/** The body that is sent on: what was decided on, to the byte, but for what only concerns the gate. A text says why there is none. */
function bodyToSend(protocol: Protocol, bytes: Buffer, request: GateRequest) {
  const { method, body } = request;
  // What passes without a check has no body: the event stream, the end of a session, an agent card.
  if (bytes.length === 0 || (protocol === 'mcp' && method !== 'POST')) return Buffer.alloc(0);
  if (protocol === 'http') {
    const opened = unwrap(request);
    // On trial, a malformed envelope would pass, and no tool server reads it.
    if ('code' in opened) return 'the envelope is malformed';
    return opened.body.kind === 'value' ? Buffer.from(JSON.stringify(opened.body.value)) : bytes;
  }
  if (protocol === 'a2a') return bytes;
  const parsed = body.kind === 'text' ? (body.parsed as JsonValue | undefined) : undefined;
  const forwarded = forwardMcp(bytes.toString(), null, parsed);
  return forwarded === null ? 'the message nests too deep' : Buffer.from(forwarded);
}
