import { isJsonObject, parseStrictJson, type JsonObject, type JsonValue } from '../protocol/json.js';
import { findJsonDefect } from '../protocol/json-defects.js';
import { gateFailure, type GateFailure, type Protocol } from './codes.js';
import {
  shorten,
  shown,
  valuesOf,
  type RequestBody,
  methodOf,
  type CallBody,
  type Denial,
  type Expectation,
  type GateRequest,
  type Opening,
  type PendingCall,
} from './request.js';
import { BUNDLE_HEADER, bodyOfValue, decodeCarried, findBundle, unusable } from './carriers.js';
import { denied } from './decide.js';

/** A JSON-RPC message whose envelope has been checked. */
export interface RpcMessage {
  /** `undefined` in a response. */
  readonly method: string | undefined;
  readonly params: JsonValue | undefined;
  readonly id: JsonValue | undefined;
  /**
   * Why the message is not strict JSON although it parses, so that nothing in it may be bound; `null` if it is
   * strict.
   */
  readonly defect: string | null;
  /** Whether another parser has read the message, which may have rounded numbers beyond 2^53. */
  readonly isReparsed: boolean;
}

/**
 * Reads the single JSON-RPC message in a body.
 *
 * All parsers must read the same envelope. If `method` came twice, or `Method` beside it, the server might run another
 * method than the one checked here, and what stands beside the envelope is not signed: only the members of JSON-RPC may
 * come, and not those of a request and of a response together. Other defects are only reported in `defect`, so that a
 * message which needs no check passes in spite of them.
 */
export function readRpcMessage(
  protocol: Protocol,
  body: Extract<RequestBody, { kind: 'text' | 'value' }>,
): RpcMessage | Denial {
  const deny = denier(protocol, null, null);
  const invalid = (message: string, id: JsonValue = null) =>
    denier(protocol, id, null)(gateFailure('INVALID_JSONRPC', protocol, message));
  const parsed =
    body.kind === 'text' ? parse(body.text) : { value: body.value, defect: null, isAmbiguous: false };
  if ('syntax' in parsed) return invalid(`the body is not JSON: ${parsed.syntax}`);
  if ('size' in parsed) return deny(gateFailure('BODY_TOO_LARGE', protocol, parsed.size));
  const { value, defect, isAmbiguous } = parsed;
  if (body.kind === 'text') body.parsed = value;
  if (Array.isArray(value)) {
    const message = `the body is a batch of ${value.length} JSON-RPC messages, expected one`;
    return deny(gateFailure('BATCH_NOT_SUPPORTED', protocol, message));
  }
  if (!isJsonObject(value)) return invalid('the body is not a JSON object');
  const id = own(value, 'id');
  const isReparsed = body.kind === 'value';
  const echoed = echoOf(id, defect !== null || isReparsed);
  if (isAmbiguous) return invalid(`the body is not strict JSON: ${defect}`, echoed);
  const fault = findEnvelopeFault(value);
  if (fault !== null) return invalid(fault, echoed);
  const method = own(value, 'method');
  if (method !== undefined && typeof method !== 'string')
    return invalid('the method is not a string', echoed);
  return { method, params: own(value, 'params'), id, defect, isReparsed };
}

/** What in an object is not as in a message (JSON-RPC 2.0, sections 4 and 5), but for the type of the method. */
function findEnvelopeFault(value: JsonObject): string | null {
  const unknown = Object.keys(value).find((name) => !ENVELOPE.has(name));
  if (unknown !== undefined) return `the member ${shown(unknown)} is none of ${[...ENVELOPE].join(', ')}`;
  if (own(value, 'jsonrpc') !== '2.0') return 'the member jsonrpc is not "2.0"';
  const id = own(value, 'id');
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number')
    return 'the id is not a string, a number or null';
  const hasMethod = own(value, 'method') !== undefined;
  const isResponse = Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error');
  if (hasMethod === isResponse)
    return hasMethod
      ? 'the message has a method, and a result or an error: expected a request or a response'
      : 'the message has no method';
  return null;
}

/** An own member of an object, never an inherited one; `null` has none. */
export function own(object: JsonObject | null, name: string): JsonValue | undefined {
  return object !== null && Object.hasOwn(object, name) ? object[name] : undefined;
}

const MAX_ECHOED = 1024;

/**
 * The id to answer a message with. `null` if it is neither a text nor a number (JSON-RPC 2.0, section 5), a text that is
 * too long, or a number that may have been rounded.
 *
 * @param isInexact whether the message's numbers may have been rounded
 */
export function echoOf(id: unknown, isInexact: boolean): string | number | null {
  if (typeof id === 'string') return id.length <= MAX_ECHOED ? id : null;
  if (typeof id !== 'number' || !Number.isFinite(id)) return null;
  return isInexact && Math.abs(id) > Number.MAX_SAFE_INTEGER ? null : id;
}

const ENVELOPE: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);

function parse(
  text: string,
): { value: unknown; defect: string | null; isAmbiguous: boolean } | { syntax: string } | { size: string } {
  const { value, defect, parsed } = parseStrictJson(text);
  if (defect === undefined) return { value, defect: null, isAmbiguous: false };
  if (defect.kind === 'syntax') return { syntax: text === '' ? 'it is empty' : defect.message };
  if (defect.kind === 'size') return { size: `the body: ${defect.message}` };
  return { value: parsed, defect: defect.message, isAmbiguous: isAmbiguousEnvelope(text) };
}

/** Whether `method` or `jsonrpc` occurs twice in the outermost object. */
const isAmbiguousEnvelope = (text: string): boolean =>
  findJsonDefect(text, { only: 'duplicate', within: ['method', 'jsonrpc'], depth: Infinity }) !== null;

/** The HTTP methods of requests that may pass unchecked. */
export const PASSING_METHODS: ReadonlySet<string> = new Set(['GET', 'DELETE', 'HEAD', 'OPTIONS']);

/** Where a client that must sign in reads how, before the path of the server if there are several: RFC 9728 §3.1. */
export const RESOURCE_METADATA = '/.well-known/oauth-protected-resource';

/** Whether a request without a message passes to an MCP server: the event stream, the end of a session, OPTIONS, metadata. */
export function passesMcpHttp(request: GateRequest): boolean {
  const method = methodOf(request);
  if (!PASSING_METHODS.has(method) || mayHaveBody(request.body)) return false;
  if (method !== 'GET' && method !== 'HEAD') return true;
  if (`${request.target ?? ''}/`.startsWith(`${RESOURCE_METADATA}/`)) return true;
  const accepted = valuesOf(request.headers, 'accept').filter((value) => value !== '');
  // It proves nothing, since callers may write it: whoever asks a gate may have left it out, or send an empty one instead.
  return accepted.length === 0 || accepted.some((accept) => EVENT_STREAM.test(accept));
}

/** Whether a server could find something in the body, which nobody has signed: for requests that pass without a message. */
export function mayHaveBody(body: RequestBody): boolean {
  return body.kind !== 'none' && !(body.kind === 'text' && body.text === '');
}

const EVENT_STREAM = /(?:^|,)[ \t]*text\/event-stream[ \t]*(?:[;,]|$)/i;

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
  if (protocol === 'mcp' && passesMcpHttp(request)) return { kind: 'pass' };
  const deny = denier(protocol, null, null);
  if (method !== 'POST') {
    const message = `the HTTP method is ${shorten(method)}, expected POST`;
    return deny(gateFailure('METHOD_NOT_ALLOWED', protocol, message));
  }
  if (body.kind === 'too large') return deny(gateFailure('BODY_TOO_LARGE', protocol, body.reason));
  if (body.kind === 'unread' || body.kind === 'unusable') {
    const unreadable = body.kind === 'unread' ? unusable('the body was not read') : body;
    const encoded = findBundle(protocol, headers, undefined, () => ({
      message: `no ${BUNDLE_HEADER} header, and the body cannot be searched for a bundle: ${unreadable.reason}`,
      ...(body.kind === 'unusable' ? { suggestion: 'Send the message as application/json, in UTF-8.' } : {}),
    }));
    if (typeof encoded !== 'string') return deny(encoded);
    return openCall(protocol, { id: null, requested: null, encoded, body: unreadable, expected: ANY });
  }
  const message = readRpcMessage(protocol, body.kind === 'none' ? { kind: 'text', text: '' } : body);
  return 'failure' in message ? message : { kind: 'message', message };
}

const ANY: Expectation = { command: null, orBelow: false, tool: null };

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
  const { id, form, encoded, body, requested, expected, elicits } = call;
  const { bundle } = decoded;
  return { kind: 'check', protocol, id, form, bundle, encoded, body, requested, expected, elicits };
}

/** The body to compare with the signed arguments, for a message that {@link readRpcMessage} has read. */
export function bodyOfMessage({ defect, isReparsed }: RpcMessage, args: JsonObject): CallBody {
  if (defect !== null) return unusable(`the body is not strict JSON: ${defect}`);
  return isReparsed ? bodyOfValue(args) : { kind: 'value', value: args };
}

export function answerId({ id, defect, isReparsed }: RpcMessage): JsonValue {
  return echoOf(id, defect !== null || isReparsed);
}
