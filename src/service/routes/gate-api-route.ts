import type { Buffer } from 'node:buffer';
import { bodyOfText, unusable, whyNoJson } from '../../gate/carriers.js';
import type { Protocol } from '../../gate/codes.js';
import { GATE_PROTOCOLS } from '../../gate/open.js';
import { readHeaders, shorten, type GateRequest, type HeaderMap } from '../../gate/request.js';
import { findJsonDefect } from '../../protocol/json-defects.js';
import { isJsonObject, type JsonObject } from '../../protocol/json.js';
import { wholeContextOf } from '../../gate/decide.js';
import { answerTo, readJson, type BodyHandler, type Fault } from '../http/body-handler.js';
import { MAX_HEADER_BYTES, MAX_HEADERS } from '../http/front-end.js';
import type { RouteContext } from '../core.js';
import type { GateDecision } from '../gate-decider.js';

/** Why a request to `/v1/gate` itself is invalid. */
interface GateRequestDefect {
  readonly error: 'INVALID_GATE_REQUEST' | 'UNKNOWN_PROTOCOL';
  readonly detail: string;
}

/** `POST /v1/gate`: gates in other processes and languages send a description of the caller's request, or a batch of them. */
export function gateRequestHandler({ configuration, metrics, gate: { decider } }: RouteContext): BodyHandler {
  const refuse = (fault: Fault) => {
    metrics.countRejection('gate', fault);
    return answerTo(fault, configuration);
  };
  return {
    maxBytes: configuration.maxBodyBytes,
    answer: async (asked, body, ticket) => {
      const read = readGateRequest(body);
      if ('error' in read) {
        metrics.countRejection('gate', 'malformed');
        return { status: 400, body: JSON.stringify(read) };
      }
      const decision = await decider.decide({
        ...read,
        endpoint: 'gate',
        asked,
        isWanted: () => !asked.isOver,
        mayWait: () => ticket.park(),
      });
      return { status: 200, body: JSON.stringify(gateAnswer(decision)) };
    },
    refuse: (_, fault) => refuse(fault),
    overloaded: () => refuse('overloaded'),
  };
}

/** What an answer says of a decision. */
export function gateAnswer(decision: GateDecision): object {
  switch (decision.kind) {
    case 'pass': {
      const { observed } = decision;
      return { allow: true, gated: false, status: 200, ...(observed !== undefined && { observed }) };
    }
    case 'deny': {
      const { status, body } = decision.response;
      return { allow: false, gated: true, status, response: body };
    }
    case 'allow': {
      const signed = decision.token === null ? {} : { context_jwt: decision.token };
      return { allow: true, gated: true, status: 200, context: wholeContextOf(decision), ...signed };
    }
  }
}

export function readGateRequest(
  bytes: Buffer,
): { protocol: Protocol; request: GateRequest } | GateRequestDefect {
  const read = readJson(bytes, (text) => ({ text, value: JSON.parse(text) as unknown }));
  if (read.fault !== undefined) return invalid(read.error);
  const { text, value } = read.parsed;
  if (!isJsonObject(value)) return invalid('the body is not a JSON object');
  // Two parsers can read a duplicate member differently. Rounded numbers need no check: they never match signed
  // arguments.
  const defect = findJsonDefect(text, { depth: Infinity, only: 'duplicate' });
  if (defect !== null) return invalid(`the body is not strict JSON: ${defect.message}`);
  const unknown = Object.keys(value).find((name) => !MEMBERS.has(name));
  if (unknown !== undefined)
    return invalid(`the member ${JSON.stringify(shorten(unknown))} is none of ${[...MEMBERS].join(', ')}`);
  const { protocol, method = 'POST', path = null, headers = {} } = value;
  if (typeof protocol !== 'string') return invalid('protocol is not a string, expected http, mcp or a2a');
  const known = GATE_PROTOCOLS.find((name) => name === protocol);
  if (known === undefined) {
    const found = JSON.stringify(shorten(protocol));
    return { error: 'UNKNOWN_PROTOCOL', detail: `protocol is ${found}, expected http, mcp or a2a` };
  }
  if (typeof method !== 'string') return invalid('method is not a string, expected an HTTP method');
  if (path !== null && typeof path !== 'string')
    return invalid('path is not a string, expected path and query as the caller sent them');
  if (!isJsonObject(headers)) return invalid('headers is not an object, expected strings by header name');
  const fault = headerDefect(headers);
  if (fault !== null) return invalid(fault);
  const found = readHeaders(headers);
  const body = bodyMemberOf(value, found);
  if ('error' in body) return body;
  return {
    protocol: known,
    // Who asks about A2A without a path has an endpoint of JSON-RPC.
    request: {
      method,
      target: path ?? (known === 'a2a' ? '/' : null),
      headers: found,
      body,
      // A transport of stdio may send an empty object: no request over HTTP is without headers.
      ...(Object.keys(headers).length === 0 ? { mayLackHeaders: true } : {}),
    },
  };
}

const MEMBERS: ReadonlySet<string> = new Set(['protocol', 'method', 'path', 'headers', 'body', 'body_text']);

function bodyMemberOf(value: JsonObject, headers: HeaderMap): GateRequest['body'] | GateRequestDefect {
  const { body, body_text: text } = value;
  if (text === undefined) {
    const reason = whyNoJson(headers);
    if (reason !== null) return unusable(reason);
    return body === undefined || body === null ? { kind: 'none' } : { kind: 'value', value: body };
  }
  if (body !== undefined) return invalid('there is a body and a body_text, expected one of them');
  if (typeof text !== 'string') return invalid('body_text is not a string');
  return bodyOfText(text, headers);
}

/** Why no front end would have taken these headers: more of them could cost more time than a body of this size. */
function headerDefect(headers: JsonObject): string | null {
  let [values, characters] = [0, 0];
  for (const [name, value] of Object.entries(headers)) {
    const all = Array.isArray(value) ? value : [value];
    if ((values += Math.max(1, all.length)) > MAX_HEADERS)
      return `headers has more than ${MAX_HEADERS} values, expected at most as many`;
    characters += name.length;
    for (const item of all) {
      if (typeof item !== 'string') return 'a header is neither a string nor an array of strings';
      characters += item.length;
    }
  }
  return characters <= MAX_HEADER_BYTES
    ? null
    : `headers has ${characters} characters, expected at most ${MAX_HEADER_BYTES}`;
}

function invalid(detail: string): GateRequestDefect {
  return { error: 'INVALID_GATE_REQUEST', detail };
}
