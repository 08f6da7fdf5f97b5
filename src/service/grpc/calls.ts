import { status as Status, type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js';
import type { Logger } from 'pino';
import type { Protocol } from '../../gate/codes.js';
import type { Admission } from '../load/admission.js';
import type { LoggedRequest } from '../http/exchange.js';
import type { GateDecider, GateDecision } from '../routes/gate-decider.js';
import type { RateLimit } from '../load/rate-limit.js';
import { newRequestId, readRequestId } from '../http/request-head.js';
import type { VerdictLogs } from '../observe/logs/verdict-logs.js';
import { readCheck, writeCheck, writeDenial } from './check.js';
import { clientOfPeer } from './intake.js';
import { readMcpCheck, writeMcpDenial, writeMcpResult } from './ext-mcp.js';
import type { CheckRequest, McpRequest } from './messages.js';
import type { Question } from './question.js';

/** A message and its length on the wire. */
export interface Received<T> {
  readonly bytes: number;
  readonly message: T;
}

/** What {@link GateCalls} works with. */
export interface CallContext {
  readonly decider: GateDecider;
  readonly admission: Admission;
  readonly verdicts: VerdictLogs;
  readonly log: Logger;
  /** The gate's rate limit, shared by all its transports; `null` if there is none. */
  readonly rateLimit: RateLimit | null;
  readonly protocol: Protocol;
  readonly maxBodyBytes: number;
}

/** How one of the services writes its answers. */
interface Writer {
  readonly decision: (decision: GateDecision, requestId: string | null) => Buffer;
  /** An answer that is not a decision of the gate. @param status the HTTP status that it would have */
  readonly refusal: (status: number, reason: string, requestId: string | null) => Buffer;
}

const CHECK: Writer = {
  decision: writeCheck,
  refusal: (status, reason, requestId) => {
    const retry: Record<string, string> = status === 429 ? { 'retry-after': '1' } : {};
    const headers = { 'content-type': 'application/json', ...retry };
    return writeDenial(status, reason, headers, JSON.stringify({ error: reason }), requestId);
  },
};
const MCP: Writer = { decision: writeMcpResult, refusal: (status, reason) => writeMcpDenial(status, reason) };
const LOG_PAUSE_MS = 10_000;

/** Answers gateways that ask over gRPC. All decisions come from {@link GateDecider}. */
export class GateCalls {
  readonly #context: CallContext;
  #loggedAt = -Infinity;

  constructor(context: CallContext) {
    this.#context = context;
  }

  /** `envoy.service.auth.v3.Authorization/Check` */
  readonly check = (
    call: ServerUnaryCall<Received<CheckRequest>, Buffer>,
    reply: sendUnaryData<Buffer>,
  ): void => {
    const { protocol, maxBodyBytes } = this.#context;
    this.#serve(call, reply, CHECK, (message) => readCheck(message, protocol, maxBodyBytes));
  };

  /** `agentgateway.dev.ext_mcp.ExtMcp/CheckRequest` */
  readonly checkMcp = (
    call: ServerUnaryCall<Received<McpRequest>, Buffer>,
    reply: sendUnaryData<Buffer>,
  ): void => {
    const { maxBodyBytes } = this.#context;
    this.#serve(call, reply, MCP, (message) => readMcpCheck(message, maxBodyBytes));
  };

  #serve<T>(
    call: ServerUnaryCall<Received<T>, Buffer>,
    reply: sendUnaryData<Buffer>,
    writer: Writer,
    read: (message: T) => Question | string,
  ): void {
    const { admission, rateLimit, decider } = this.#context;
    const client = clientOfPeer(call.getPeer());
    if ((rateLimit?.admit(client) ?? 0) > 0) {
      decider.rejected('grpc', 'rate_limited');
      reply(null, writer.refusal(429, 'rate_limited', null));
      return;
    }
    const run = (isLate: boolean): void => {
      this.#answer(call, reply, writer, read, isLate).catch((error: unknown) => {
        this.#context.log.error({ err: error }, 'a call failed inside the service');
        decider.rejected('grpc', 'internal');
        reply({ code: Status.INTERNAL, details: 'internal' });
      });
    };
    const { bytes } = call.request;
    admission.run(() => client, bytes, bytes, run);
  }

  async #answer<T>(
    call: ServerUnaryCall<Received<T>, Buffer>,
    reply: sendUnaryData<Buffer>,
    writer: Writer,
    read: (message: T) => Question | string,
    isLate: boolean,
  ): Promise<void> {
    const { decider, verdicts } = this.#context;
    const isWanted = (): boolean => !call.cancelled && Date.now() < Number(call.getDeadline());
    if (!isWanted()) {
      reply({ code: Status.DEADLINE_EXCEEDED, details: 'the deadline passed before the call was checked' });
      return;
    }
    const { bytes, message } = call.request;
    const question = read(message);
    if (typeof question === 'string') {
      this.#logMistake(question);
      decider.rejected('grpc', 'malformed');
      reply(
        null,
        writer.refusal(503, "the gate cannot read the gateway's question: see the gate's log", null),
      );
      return;
    }
    const { protocol, request } = question;
    const logged = new LoggedCall(question, call.metadata.get('traceparent'), addressOf(call));
    const record = verdicts.ofGate(logged);
    const decision = isLate
      ? decider.unavailable({ protocol, endpoint: 'grpc' }, 'overloaded')
      : await decider.decide({
          ...{ protocol, endpoint: 'grpc', request, bytes, isWanted },
          onVerdict: record.onVerdict,
        });
    record.decided(decision);
    reply(null, writer.decision(decision, logged.knownRequestId));
  }

  /** Logs once in ten seconds at most: a misconfigured gateway makes the same mistake in every call. */
  #logMistake(mistake: string): void {
    const now = performance.now();
    if (now - this.#loggedAt < LOG_PAUSE_MS) return;
    this.#loggedAt = now;
    this.#context.log.error(`refused a gateway's question over gRPC: ${mistake}`);
  }
}

/** The address of the gateway. */
function addressOf(call: { getPeer(): string }): string {
  // address:port
  const peer = call.getPeer();
  return peer.slice(0, peer.lastIndexOf(':'));
}

/** A call, as the logs describe it. */
class LoggedCall implements LoggedRequest {
  readonly endpoint = 'gate';
  readonly traceparent: string | null;
  readonly address: string;
  code: string | null = null;
  #requestId: string | null;

  constructor({ requestId, traceparent }: Question, sent: readonly (string | Buffer)[], address: string) {
    this.address = address;
    // The gateway's own span if it has one, else the caller's.
    const [own] = sent;
    this.traceparent = typeof own === 'string' ? own : traceparent;
    this.#requestId = readRequestId(requestId);
  }

  get knownRequestId(): string | null {
    return this.#requestId;
  }

  get requestId(): string {
    return (this.#requestId ??= newRequestId());
  }
}
