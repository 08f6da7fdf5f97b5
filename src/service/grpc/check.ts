import { bodyOfBytes, unusable } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import type { HeaderChanges } from '../../gate/context.js';
import { GATE_PROTOCOLS } from '../../gate/open.js';
import type { HeaderMap, RequestBody } from '../../gate/request.js';
import type { GateDecision } from '../gate-decider.js';
import { callTargetOf, isPartial } from '../http/proxied.js';
import {
  MAX_BESIDES_BYTES,
  readMessage,
  readSentHeaders,
  writeMessage,
  type WireHeader,
} from './messages.js';

/** Values of `google.rpc.Code`. Of a denial, gateways read the HTTP status. */
const OK = 0;
const PERMISSION_DENIED = 7;
/** A value of `HeaderAppendAction`. */
const OVERWRITE_IF_EXISTS_OR_ADD = 2;

/** Envoy's `Authorization/Check`, which others have adopted: a question is about one HTTP request. */
export const CHECK = {
  read: readCheck,
  allow: ({ set, remove }: HeaderChanges) =>
    write({ status: { code: OK }, okResponse: { headers: options(set), headersToRemove: remove } }),
  /** @param requestId is told to the caller; `null` if there is none */
  deny: ({ code, response }: Extract<GateDecision, { kind: 'deny' }>, requestId: string | null) => {
    const id = requestId === null ? {} : { 'X-Request-Id': requestId };
    const headers = { ...response.headers, 'X-DRS-Code': code, ...id };
    return writeDenial(response.status, code, headers, response.body);
  },
  /**
   * A denial that is not a decision of the gate. It is an answer and not a gRPC error: proxies take an error for a failure of the
   * gate, and some are configured to let requests pass then.
   *
   * @param status the HTTP status that it would have
   */
  refuse: (status: number, reason: string) => {
    const retry: Headers = status === 429 ? { 'retry-after': '1' } : {};
    return writeDenial(status, reason, { 'content-type': 'application/json', ...retry }, { error: reason });
  },
};

/**
 * Reads a question as a request to the gate.
 *
 * @param protocol used if the gateway names none
 * @param maxBodyBytes the longest body that is checked
 * @throws Error that says what is wrong with it, or with the gateway's configuration
 */
function readCheck(bytes: Buffer, protocol: Protocol, maxBodyBytes: number) {
  const { attributes } = readMessage('CheckRequest', bytes);
  const wanted = protocolIn(attributes?.contextExtensions ?? []) ?? protocol;
  const http = attributes?.request?.http ?? null;
  if (http === null)
    throw new Error('attributes.request.http is missing: have the gateway ask about HTTP requests only');
  const { method, path, query, body, rawBody } = http;
  // A long header may take longer than a long body.
  const besides = bytes.length - (body?.length ?? 0) - (rawBody?.length ?? 0);
  if (besides > MAX_BESIDES_BYTES)
    throw new Error(
      `the message has ${besides} bytes besides the body, expected at most ${MAX_BESIDES_BYTES}: have the gateway send fewer headers`,
    );
  if (query !== '' && path.includes('?'))
    throw new Error('attributes.request.http has a query in path and in query: have the gateway send one');
  const headers = readSentHeaders([...http.headers, ...(http.headerMap?.headers ?? [])]);
  return {
    protocol: wanted,
    request: {
      method,
      // Envoy sends both as the path, others apart.
      target: callTargetOf(headers, query === '' ? path : `${path}?${query}`),
      headers,
      body: requestBodyOf(headers, body ?? NONE, rawBody ?? NONE, maxBodyBytes),
    },
  };
}

const NONE = Buffer.alloc(0);

/** The protocol that the gateway names; `null` if it names none. */
function protocolIn(extensions: readonly WireHeader[]): Protocol | null {
  const named = extensions.filter(({ key }) => key === 'drs_protocol');
  if (named.length === 0) return null;
  const [name, ...others] = named.map(({ value }) => value?.toString('latin1') ?? '');
  const wanted = GATE_PROTOCOLS.find((known) => known === name);
  if (wanted !== undefined && others.length === 0) return wanted;
  throw new Error('context_extensions.drs_protocol is none of http, mcp, a2a: correct it in the gateway');
}

type Headers = Readonly<Record<string, string>>;

const write = (response: object): Buffer => writeMessage('CheckResponse', response);

function writeDenial(status: number, message: string, headers: Headers, body: object): Buffer {
  return write({
    status: { code: PERMISSION_DENIED, message },
    deniedResponse: { status: { code: status }, headers: options(headers), body: JSON.stringify(body) },
  });
}

function requestBodyOf(headers: HeaderMap, text: Buffer, raw: Buffer, maxBytes: number): RequestBody {
  if (text.length > 0 && raw.length > 0) return unusable('the gateway sent two bodies');
  const body = text.length > 0 ? text : raw;
  if (body.length > maxBytes)
    return { kind: 'too large', reason: `the body is larger than ${maxBytes} bytes (MAX_BODY_BYTES)` };
  const [announced] = /^\d+$/.exec(headers.get('content-length') ?? '') ?? [];
  const isCut = announced !== undefined && Number(announced) > body.length;
  if (!isPartial(headers) && !isCut) return bodyOfBytes(body, headers);
  const reason = 'the proxy did not send the whole body; configure it to send all of it, and raise its limit';
  return { kind: 'too large', reason };
}

/** Headers that replace those of the caller. Older proxies read this from `append`, newer ones from `appendAction`. */
function options(headers: Headers): object[] {
  return Object.entries(headers).map(([name, value]) => ({
    header: { key: name.toLowerCase(), value: Buffer.from(value) },
    append: {},
    appendAction: OVERWRITE_IF_EXISTS_OR_ADD,
  }));
}
