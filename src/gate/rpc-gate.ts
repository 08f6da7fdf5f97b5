import type { JsonObject, JsonValue } from '../protocol/json.js';
import { bodyOfValue, unusable } from './call-body.js';
import { decodeCarried, findBundle } from './carriers.js';
import { gateFailure, type GateFailure, type Protocol } from './codes.js';
import { denied } from './decide.js';
import { echoOf, readRpcMessage, type RpcMessage } from './json-rpc.js';
import {
  methodOf,
  shorten,
  type CallBody,
  type Denial,
  type Expectation,
  type GateRequest,
  type HeaderLookup,
  type Opening,
  type PendingCall,
} from './request.js';

/** The common part of the two JSON-RPC protocols, `mcp` and `a2a`. */

/** The HTTP methods of requests that may pass unchecked. */
export const PASSING_METHODS: ReadonlySet<string> = new Set(['GET', 'DELETE', 'HEAD', 'OPTIONS']);

/** Whether a request without a message passes to an MCP server: the event stream, the end of a session, OPTIONS. */
export function passesMcpHttp(method: string, headers: HeaderLookup): boolean {
  if (method === 'GET' || method === 'HEAD') return headers('accept').some(namesEventStream);
  return PASSING_METHODS.has(method);
}

function namesEventStream(accept: string): boolean {
  return accept.split(',').some((range) => EVENT_STREAM.test(range));
}

const EVENT_STREAM = /^[ \t]*text\/event-stream[ \t]*(?:;|$)/i;

/**
 * Reads the message of a request. A request that is not a POST passes or is denied at once. If the body cannot be read,
 * only the bundle in the header is checked.
 */
export function openRpc(
  protocol: Exclude<Protocol, 'http'>,
  request: GateRequest,
): { readonly kind: 'message'; readonly message: RpcMessage } | Opening {
  const { headers, body } = request;
  const method = methodOf(request);
  if (protocol === 'mcp' && passesMcpHttp(method, headers)) return { kind: 'pass' };
  const deny = denier(protocol, null, null);
  if (method !== 'POST') {
    const message = `the HTTP method is ${shorten(method)}, expected POST`;
    return deny(gateFailure('METHOD_NOT_ALLOWED', protocol, message));
  }
  if (body.kind === 'too large') return deny(gateFailure('BODY_TOO_LARGE', protocol, body.reason));
  if (body.kind === 'unread' || body.kind === 'unusable') {
    const encoded = findBundle(protocol, headers, undefined);
    if (typeof encoded !== 'string') return deny(encoded);
    const unreadable = body.kind === 'unread' ? unusable('the body was not read') : body;
    return openCall(protocol, { id: null, requested: null, encoded, body: unreadable, expected: ANY });
  }
  const message = readRpcMessage(protocol, body.kind === 'none' ? { kind: 'text', text: '' } : body);
  if ('failure' in message) return denier(protocol, message.id, null)(message.failure);
  return { kind: 'message', message };
}

const ANY: Expectation = { command: null, orBelow: false, tool: null };

/** Makes a function that denies one message. */
export function denier(
  protocol: Protocol,
  id: JsonValue,
  requested: string | null,
  form?: 'http',
): (failure: GateFailure) => Denial {
  return (failure) => denied({ protocol, id, requested, form }, failure);
}

/** Decodes the bundle of a call. */
export function openCall(
  protocol: Protocol,
  call: Omit<PendingCall, 'kind' | 'protocol' | 'bundle'>,
): PendingCall | Denial {
  const decoded = decodeCarried(protocol, call.encoded);
  if ('code' in decoded) return denied({ ...call, protocol }, decoded);
  const { id, form, encoded, body, requested, expected } = call;
  return { kind: 'check', protocol, id, form, bundle: decoded.bundle, encoded, body, requested, expected };
}

/** The body to compare with the signed arguments, for a message that {@link readRpcMessage} has read. */
export function bodyOfMessage({ defect, isReparsed }: RpcMessage, args: JsonObject): CallBody {
  if (defect !== null) return unusable(`the body is not strict JSON: ${defect}`);
  return isReparsed ? bodyOfValue(args) : { kind: 'value', value: args };
}

/** The id to answer a message with. */
export function answerId({ id, defect, isReparsed }: RpcMessage): JsonValue {
  return echoOf(id, defect !== null || isReparsed);
}
