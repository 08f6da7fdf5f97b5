import { bodyOfBytes, unusable } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import { contextHeaders, NO_CONTEXT, type HeaderChanges } from '../../gate/context.js';
import type { RequestBody } from '../../gate/request.js';
import { wholeContextOf, type GateDecision } from '../routes/gate-decider.js';
import { readGateHead, type GateHead } from '../http/request-head.js';
import { writeCheckResponse, type CheckRequest, type HeaderOption } from './messages.js';
import { bufferOf, WireHeaders, type Question } from './question.js';
import { toStruct } from './struct.js';

/** Envoy's `Authorization/Check`: reads the question about one HTTP request, and writes the answer. */

// google.rpc.Code
const OK = 0;
const PERMISSION_DENIED = 7;
const RESOURCE_EXHAUSTED = 8;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;
/** A value of `HeaderAppendAction`. */
const OVERWRITE_IF_EXISTS_OR_ADD = 2;

const PROTOCOLS: ReadonlySet<string> = new Set(['http', 'mcp', 'a2a'] satisfies Protocol[]);

/**
 * Reads a question.
 *
 * @param protocol used if `context_extensions.drs_protocol` is missing
 * @param maxBodyBytes the longest body that is checked
 * @returns the question. A string says what is wrong with the gateway's configuration, if it cannot be understood.
 */
export function readCheck(
  { attributes }: CheckRequest,
  protocol: Protocol,
  maxBodyBytes: number,
): Question | string {
  const named = (attributes?.contextExtensions ?? []).filter(({ key }) => key === 'drs_protocol');
  const [wanted = protocol, ...others] = named.map(({ value }) => bufferOf(value).toString('latin1'));
  if (!isProtocol(wanted) || others.length > 0) {
    return 'context_extensions.drs_protocol is not one of http, mcp, a2a: correct the configuration of the gateway';
  }
  const http = attributes?.request?.http;
  if (http === undefined || http === null) {
    return 'attributes.request.http is missing: configure the gateway to ask about HTTP requests only';
  }
  const { path, query } = http;
  if (query !== '' && path.includes('?'))
    return 'attributes.request.http has a query both in path and in query: have the gateway send one';
  const headers = new WireHeaders(http.headers, http.headerMap?.headers ?? []);
  const head = readGateHead(headers);
  return {
    protocol: wanted,
    request: {
      method: http.method,
      // Envoy sends both as the path, others apart.
      path: head.path(query === '' ? path : `${path}?${query}`),
      headers: head.headers,
      body: bodyOf(http.body, http.rawBody, head, headers.only('content-length'), maxBodyBytes),
    },
    requestId: headers.only('x-request-id'),
    traceparent: headers.only('traceparent'),
  };
}

/** Writes the answer to a question. */
export function writeCheck(decision: GateDecision, requestId: string | null): Buffer {
  switch (decision.kind) {
    case 'pass':
      return PASS;
    case 'allow': {
      const { context, token } = decision;
      return writeCheckResponse({
        status: { code: OK },
        okResponse: changes(contextHeaders(context, token)),
        dynamicMetadata: toStruct(wholeContextOf(decision)),
      });
    }
    case 'deny': {
      const { code, response } = decision;
      const headers = { ...response.headers, 'X-DRS-Code': code };
      return writeDenial(response.status, code, headers, JSON.stringify(response.body), requestId);
    }
  }
}

/**
 * Writes a denial. It is an answer and not a gRPC error: proxies take an error for a failure of the gate, and some are
 * configured to let requests pass then.
 */
export function writeDenial(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  requestId: string | null,
): Buffer {
  const all = requestId === null ? headers : { ...headers, 'X-Request-Id': requestId };
  return writeCheckResponse({
    status: { code: codeOf(status), message },
    deniedResponse: { status: { code: status }, headers: options(all), body },
  });
}

const PASS = writeCheckResponse({ status: { code: OK }, okResponse: changes(NO_CONTEXT) });

function isProtocol(text: string): text is Protocol {
  return PROTOCOLS.has(text);
}

function bodyOf(
  text: Uint8Array,
  raw: Uint8Array,
  head: GateHead,
  contentLength: string | null,
  maxBodyBytes: number,
): RequestBody {
  if (text.length > 0 && raw.length > 0) return unusable('the gateway sent two bodies');
  const body = text.length > 0 ? text : raw;
  if (body.length > maxBodyBytes) {
    return {
      kind: 'too large',
      reason: `the body is larger than ${maxBodyBytes} bytes (MAX_BODY_BYTES)`,
    };
  }
  const isCut = contentLength !== null && /^\d+$/.test(contentLength) && Number(contentLength) > body.length;
  if (head.isPartial || isCut) {
    return {
      kind: 'too large',
      reason: 'the proxy did not send the whole body; configure it to send all of it, and raise its limit',
    };
  }
  return bodyOfBytes(bufferOf(body), head.headers);
}

function changes({ set, remove }: HeaderChanges) {
  return { headers: options(set), headersToRemove: remove };
}

/** Headers that replace those of the caller. Older proxies read this from `append`, newer ones from `appendAction`. */
function options(headers: Readonly<Record<string, string>>): HeaderOption[] {
  return Object.entries(headers).map(([name, value]) => ({
    header: { key: name.toLowerCase(), value: Buffer.from(value) },
    append: {},
    appendAction: OVERWRITE_IF_EXISTS_OR_ADD,
  }));
}

function codeOf(status: number): number {
  switch (status) {
    case 401:
      return UNAUTHENTICATED;
    case 429:
      return RESOURCE_EXHAUSTED;
    case 503:
      return UNAVAILABLE;
    default:
      return PERMISSION_DENIED;
  }
}
