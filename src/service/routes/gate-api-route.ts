import {
  bodyOfText,
  gateAnswer,
  headersOf,
  shorten,
  unusable,
  whyNoJson,
  type GateRequest,
  type HeaderLookup,
  type Protocol,
} from '../../gate/index.js';
import { findJsonDefect } from '../../protocol/json-defects.js';
import { hasMoreNodes, isJsonObject, MAX_JSON_NODES, type JsonObject } from '../../protocol/json.js';
import { decodeUtf8 } from '../../protocol/utf8.js';
import type { Admission } from '../load/admission.js';
import type { BodyIntake, IntakeFault, IntakeSink } from '../http/body-intake.js';
import { tooLargeMessage } from '../http/body-reader.js';
import type { AnswerOptions, Exchange } from '../http/exchange.js';
import { wholeContextOf, type GateDecider } from './gate-decider.js';
import type { RequestHead } from '../http/request-head.js';
import type { VerdictLogs } from '../observe/verdict-logs.js';

const RETRY: AnswerOptions = { headers: { 'Retry-After': '1' } };

const PROTOCOLS: readonly string[] = ['http', 'mcp', 'a2a'] satisfies readonly Protocol[];

/** Why a request to `/v1/gate` itself is invalid. */
interface GateRequestFault {
  readonly error: 'INVALID_GATE_REQUEST' | 'UNKNOWN_PROTOCOL';
  readonly detail: string;
}

/** `POST /v1/gate`: gates in other processes and languages send a description of the caller's request. */
export class GateApiRoute {
  readonly #decider: GateDecider;
  readonly #admission: Admission;
  readonly #intake: BodyIntake;
  readonly #maxBodyBytes: number;
  readonly #verdicts: VerdictLogs;

  constructor(
    decider: GateDecider,
    admission: Admission,
    intake: BodyIntake,
    maxBodyBytes: number,
    verdicts: VerdictLogs,
  ) {
    this.#decider = decider;
    this.#admission = admission;
    this.#intake = intake;
    this.#maxBodyBytes = maxBodyBytes;
    this.#verdicts = verdicts;
  }

  /** Reads the body and answers with the decision. */
  serve(exchange: Exchange, head: RequestHead): void {
    this.#intake.read(exchange, head, this.#take);
  }

  readonly #take: IntakeSink = (exchange, body) => {
    if (typeof body === 'string') {
      this.#refuseBody(exchange, body);
      return;
    }
    const bytes = body.length;
    const ticket = this.#admission.enter(bytes);
    if (ticket === null) {
      this.#refuseBody(exchange, 'overloaded');
      return;
    }
    let read: { protocol: Protocol; request: GateRequest } | GateRequestFault;
    try {
      read = readGateRequest(body);
    } catch (error) {
      ticket.release();
      throw error;
    } finally {
      exchange.releaseBody();
    }
    if ('error' in read) {
      ticket.release();
      this.#decider.rejected('gate', 'malformed');
      exchange.answer(400, JSON.stringify(read));
      return;
    }
    const { onVerdict, decided } = this.#verdicts.ofGate(exchange);
    this.#decider
      .decide({ ...read, endpoint: 'gate', bytes, ticket, isWanted: () => !exchange.isOver, onVerdict })
      .then((decision) => {
        decided(decision);
        const whole =
          decision.kind === 'allow' ? { ...decision, context: wholeContextOf(decision) } : decision;
        exchange.answer(200, JSON.stringify(gateAnswer(whole)));
      })
      // decide() never rejects: this catches an answer that cannot be written.
      .catch(() => exchange.refuse(500, 'internal'));
  };

  #refuseBody(exchange: Exchange, fault: IntakeFault): void {
    this.#decider.rejected('gate', fault);
    switch (fault) {
      case 'too_large':
        exchange.refuse(413, tooLargeMessage(this.#maxBodyBytes), { closes: true });
        break;
      case 'timeout':
        exchange.refuse(408, 'the body did not arrive within REQUEST_TIMEOUT_SECS', { closes: true });
        break;
      case 'overloaded':
        exchange.refuse(503, 'overloaded', RETRY);
        break;
      case 'shutting_down':
        exchange.refuse(503, 'shutting down', { ...RETRY, closes: true });
    }
  }
}

/**
 * Reads the body of a request to `/v1/gate`.
 *
 * @param assumed the protocol of a request that names none; if left out, there is none
 */
export function readGateRequest(
  bytes: Buffer,
  assumed?: Protocol,
): { protocol: Protocol; request: GateRequest } | GateRequestFault {
  const text = decodeUtf8(bytes);
  if (text === null) return invalid('the body is not UTF-8, expected JSON');
  if (hasMoreNodes(text)) {
    return invalid(`the body holds more than ${MAX_JSON_NODES} JSON objects, arrays and members`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return invalid(`the body is not JSON: ${(error as SyntaxError).message}`);
  }
  if (!isJsonObject(value)) return invalid('the body is not a JSON object');
  // Two parsers can read a duplicate member differently. Rounded numbers need no check: they never match signed
  // arguments.
  const defect = findJsonDefect(text, { depth: Infinity, only: 'duplicate' });
  if (defect !== null) return invalid(`the body is not strict JSON: ${defect.message}`);
  const unknown = Object.keys(value).find((name) => !MEMBERS.has(name));
  if (unknown !== undefined)
    return invalid(`the member ${JSON.stringify(shorten(unknown))} is none of ${[...MEMBERS].join(', ')}`);
  const { protocol = assumed, method = 'POST', path = null, headers = {} } = value;
  if (typeof protocol !== 'string') return invalid('protocol is not a string, expected http, mcp or a2a');
  if (!PROTOCOLS.includes(protocol)) {
    return { error: 'UNKNOWN_PROTOCOL', detail: `protocol is none of ${PROTOCOLS.join(', ')}` };
  }
  if (typeof method !== 'string') return invalid('method is not a string, expected an HTTP method');
  if (path !== null && typeof path !== 'string')
    return invalid('path is not a string, expected path and query as the caller sent them');
  if (!isJsonObject(headers)) return invalid('headers is not an object, expected strings by header name');
  const odd = Object.values(headers).some((item) => !isHeaderValue(item));
  if (odd) return invalid('a header is neither a string nor an array of strings');
  const lookup = headersOf(headers);
  const body = bodyOf(value, lookup);
  if ('error' in body) return body;
  return {
    protocol: protocol as Protocol,
    request: { method, path: path ?? (protocol === 'a2a' ? RPC_PATH : null), headers: lookup, body },
  };
}

/** Who asks about A2A without a path has an endpoint of JSON-RPC. */
const RPC_PATH = '/';

const MEMBERS: ReadonlySet<string> = new Set(['protocol', 'method', 'path', 'headers', 'body', 'body_text']);

function bodyOf(value: JsonObject, headers: HeaderLookup): GateRequest['body'] | GateRequestFault {
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

function isHeaderValue(value: unknown): boolean {
  return (
    typeof value === 'string' || (Array.isArray(value) && value.every((item) => typeof item === 'string'))
  );
}

function invalid(detail: string): GateRequestFault {
  return { error: 'INVALID_GATE_REQUEST', detail };
}
