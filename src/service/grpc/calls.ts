import { status as Status, type handleUnaryCall, type ServerUnaryCall } from '@grpc/grpc-js';
import { contextHeaders, passHeaders } from '../../gate/context.js';
import { clientOf } from '../http/client-address.js';
import type { Traced } from '../observe/tracing.js';
import type { LoggedRequest } from '../http/logged-request.js';
import type { Certificate } from '../http/listen/certificate.js';
import { newRequestId, readRequestId, traceParentOf } from '../http/logged-request.js';
import type { Ticket } from '../load/gatekeeper.js';
import type { Connections } from '../load/connections.js';
import type { RateLimit } from '../load/rate-limit.js';
import type { RouteContext } from '../core.js';
import { CHECK } from './check.js';

/** What gRPC shares with the HTTP side, and what it has besides. */
export interface GrpcContext extends RouteContext {
  readonly connections: Connections;
  /** The certificate to serve; `null` if the service has no TLS. */
  readonly certificate: Certificate | null;
  /** The gate's rate limit, shared by all its transports; `null` if there is none. */
  readonly rateLimit: RateLimit | null;
}

type Call = ServerUnaryCall<Buffer, Buffer>;

const LOG_PAUSE_MS = 10_000;

/** The handler of a gateway's calls. Messages are bytes until their turn comes. All decisions come from the gate. */
export function answerChecks(context: GrpcContext): handleUnaryCall<Buffer, Buffer> {
  const { gatekeeper, configuration, log, metrics, rateLimit, tracing } = context;
  const { decider } = context.gate;
  let loggedAt = -Infinity;

  /** @returns `null` if nobody waits for the answer any more: the library itself says DEADLINE_EXCEEDED */
  const answer = async (call: Call, ticket: Ticket | null): Promise<Buffer | null> => {
    if (!isWanted(call)) return null;
    let question: ReturnType<typeof CHECK.read>;
    try {
      question = CHECK.read(call.request, configuration.grpcProtocol, configuration.maxBodyBytes);
    } catch (error) {
      // Once in ten seconds at most: a misconfigured gateway makes the same mistake in every call.
      if (performance.now() - loggedAt >= LOG_PAUSE_MS) {
        loggedAt = performance.now();
        log.error(`refused a gateway's question over gRPC: ${(error as Error).message}`);
      }
      metrics.countRejection('grpc', 'malformed');
      return CHECK.refuse(503, "the gate cannot read the gateway's question: see the gate's log");
    }
    const { protocol, request } = question;
    let requestId = readRequestId(request.headers.get('x-request-id') ?? null);
    const logged: LoggedRequest & Traced = {
      endpoint: 'gate',
      status: null,
      startedAt: performance.now(),
      // The gateway's own span if it has one; else the gate finds the caller's.
      parent: traceParentOf((name) => call.metadata.get(name).join()),
      address: addressOf(call),
      code: null,
      get requestId() {
        return (requestId ??= newRequestId());
      },
    };
    const asked = { protocol, endpoint: 'grpc' } as const;
    const decision =
      ticket === null
        ? decider.unread(asked, gatekeeper.isDraining ? 'shutting_down' : 'overloaded')
        : await decider.decide({
            ...asked,
            request,
            asked: logged,
            isWanted: () => isWanted(call),
            mayWait: () => ticket.park(),
          });
    tracing?.record(logged, performance.now() - logged.startedAt);
    switch (decision.kind) {
      case 'pass':
        return CHECK.allow(passHeaders(decision.observed));
      case 'allow':
        return CHECK.allow(contextHeaders(decision.context, decision.token));
      case 'deny':
        return CHECK.deny(decision, requestId);
    }
  };

  const serve = async (call: Call): Promise<Buffer | null> => {
    const client = clientOf(addressOf(call));
    if ((rateLimit?.admit(client) ?? 0) > 0) {
      metrics.countRejection('grpc', 'rate_limited');
      return CHECK.refuse(429, 'rate_limited');
    }
    const ticket = gatekeeper.isDraining ? null : gatekeeper.enter({ client }, 0);
    if (ticket === null) return answer(call, null);
    call.once('cancelled', () => ticket.giveUp());
    try {
      return await ticket.takeTurn(call.request.length, (isRefused) =>
        answer(call, isRefused ? null : ticket),
      );
    } finally {
      ticket.release();
    }
  };

  return (call, reply) => {
    serve(call)
      .then((bytes) => bytes !== null && reply(null, bytes))
      .catch((error: unknown) => {
        log.error({ err: error }, 'a call failed inside the service');
        metrics.countRejection('grpc', 'internal');
        reply({ code: Status.INTERNAL, details: 'internal' });
      });
  };
}

function isWanted(call: Call): boolean {
  return !call.cancelled && Date.now() < Number(call.getDeadline());
}

function addressOf(call: Call): string {
  // address:port
  const peer = call.getPeer();
  return peer.slice(0, peer.lastIndexOf(':'));
}
