import { randomBytes } from 'node:crypto';
import { valuesOf, type GateRequest } from '../../gate/request.js';
import { isJsonObject } from '../../protocol/json.js';
import type { RpcMessage } from '../../gate/json-rpc.js';
import type { Endpoint } from '../observe/metrics/metrics.js';

// Covers what proxies and frameworks send: UUIDs, hex digits, base64 in both alphabets.
const FORM = /^[\w.:@+/=-]{1,128}$/;
// trace-id and parent-id of W3C Trace Context. Version ff and all-zero ids are invalid, and only later versions than 00 may be longer.
const TRACEPARENT =
  /^(?!ff|00.{54})[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:$|-(?!.*[^!-~]).{0,100}$)/;
/** What W3C Baggage asks everybody to pass on; of a `tracestate` it is 512. */
const MAX_LENGTH = 8192;

/** What a request belongs to, by the names of W3C Trace Context and W3C Baggage: what OpenTelemetry reads. */
export interface TraceParent {
  readonly traceparent: string;
  readonly tracestate?: string;
  readonly baggage?: string;
}

/** What the logs of verdicts read of a request, over any protocol. */
export interface LoggedRequest {
  readonly endpoint: Endpoint;
  /** What it belongs to by its headers, or else by its message, which the gate reads. */
  parent: TraceParent | null;
  /** The code of an invalid verdict or of a denial, for traces. */
  code: string | null;
  /** What the gate has read of a message of MCP, for traces. */
  message?: TracedMessage;
  /** Its id in logs: the caller's, or a new one, which the answer then carries. */
  readonly requestId: string;
  /** The address of the client for the decision log; `null` if nobody reads it there. */
  readonly address: string | null;
}

/** A message of MCP, and the session that its headers name. */
export interface TracedMessage extends Pick<RpcMessage, 'method' | 'params' | 'id'> {
  readonly session: string | undefined;
}

const instance = randomBytes(6).toString('hex');
let requests = 0;

/**
 * Returns the caller's request id if it is safe to log and send back: 1 to 128 letters, digits and `_ . : @ + / = -`.
 * Otherwise returns `null`.
 */
export function readRequestId(text: string | null): string | null {
  return text !== null && FORM.test(text) ? text : null;
}

/** Makes a request id that is unique among all instances. */
export function newRequestId(): string {
  return `${instance}-${(++requests).toString(36)}`;
}

/**
 * What a request belongs to.
 *
 * @param valueOf a header, with its values joined, or a member of `params._meta`, of any type
 * @returns `null` if `traceparent` is absent or malformed: the others mean nothing without it
 */
export function traceParentOf(valueOf: (name: keyof TraceParent) => unknown): TraceParent | null {
  const traceparent = valueOf('traceparent');
  if (typeof traceparent !== 'string' || !TRACEPARENT.test(traceparent)) return null;
  const rest = (['tracestate', 'baggage'] as const).flatMap((name) => {
    const value = valueOf(name);
    return typeof value === 'string' && value.length <= MAX_LENGTH ? [[name, value] as const] : [];
  });
  return { traceparent, ...Object.fromEntries(rest) };
}

/** Notes for logs and traces what a request says of itself: in headers, or else in the message. */
export function noteFor(
  asked: LoggedRequest,
  { headers }: Pick<GateRequest, 'headers'>,
  message: Omit<TracedMessage, 'session'> | undefined,
): void {
  const params = isJsonObject(message?.params) ? message.params : {};
  const meta = isJsonObject(params['_meta']) ? params['_meta'] : {};
  asked.parent ??=
    traceParentOf((name) => valuesOf(headers, name).join()) ?? traceParentOf((name) => meta[name]);
  if (message === undefined) return;
  const [session] = valuesOf(headers, 'mcp-session-id');
  asked.message = { method: message.method, params, id: message.id, session };
}

/** The id of its trace: 32 hex digits. */
export function traceIdOf(parent: TraceParent | null): string | undefined {
  return parent?.traceparent.slice(3, 35);
}
