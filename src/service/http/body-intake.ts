import { Buffer } from 'node:buffer';
import type { Logger } from 'pino';
import { MAX_TYPICAL_BYTES, type Admission } from '../load/admission.js';
import type { Work } from '../load/backlog.js';
import { MAX_PIECES, type BodyFault } from './body-reader.js';
import type { AnswerOptions, Exchange, Question } from './exchange.js';
import { hasMoreNodes, JSON_LIMITS } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import { clientOf } from '../load/rate-limit.js';
import type { RequestHead } from './request-head.js';

/** Why a body is not passed on to its route. */
export type IntakeFault = BodyFault | 'shutting_down';

/** Why a batch is not split into its lines. */
export interface BatchFault {
  readonly reason: 'malformed' | 'too_large';
  readonly status: number;
  readonly error: string;
}

/** Why a question of a request or a batch is not passed on to its route. */
export type QuestionFault = IntakeFault | 'rate_limited' | BatchFault;

// Made once: what is refused for load must cost as little as can be.
const OVERLOADED = JSON.stringify({ error: 'overloaded' });
const RETRY: AnswerOptions = { headers: { 'Retry-After': '1' } };

/** The limits of bodies. */
export interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly requestTimeoutSecs: number;
}

/** Says what `too_large` means. */
export const tooLargeMessage = (maxBytes: number): string =>
  `the body is larger than MAX_BODY_BYTES (${maxBytes}), or came in more than ${MAX_PIECES} pieces`;

/** Answers a request whose body did not come whole, or has waited for too long. */
export function refuseBody(
  exchange: Question,
  fault: QuestionFault,
  { maxBodyBytes, requestTimeoutSecs }: BodyLimits,
): void {
  switch (fault) {
    case 'too_large':
      exchange.refuse(413, tooLargeMessage(maxBodyBytes), { closes: true });
      break;
    case 'timeout': {
      const error = `the body did not arrive within REQUEST_TIMEOUT_SECS (${requestTimeoutSecs})`;
      exchange.refuse(408, error, { closes: true });
      break;
    }
    case 'overloaded':
      exchange.answer(503, OVERLOADED, RETRY);
      break;
    case 'shutting_down':
      exchange.refuse(503, 'shutting down', { ...RETRY, closes: true });
      break;
    case 'rate_limited':
      exchange.refuse(429, 'rate_limited', RETRY);
      break;
    default:
      exchange.refuse(fault.status, fault.error);
  }
}

/** A body that was parsed as JSON, or why it is none. */
export type JsonBody<Parsed> =
  | { readonly parsed: Parsed; readonly fault?: never }
  | { readonly fault: 'malformed' | 'too_large'; readonly error: string };

/**
 * Reads a body as JSON. Whether it is strict is for the route to see.
 *
 * @param parse like `JSON.parse`
 */
export function readJson<Parsed>(bytes: Buffer, parse: (text: string) => Parsed): JsonBody<Parsed> {
  const text = decodeUtf8(bytes);
  if (text === null)
    return { fault: 'malformed', error: 'the body is not UTF-8, expected JSON (RFC 8259), not compressed' };
  if (text === '') return { fault: 'malformed', error: 'the body is empty, expected JSON' };
  if (hasMoreNodes(text)) {
    return { fault: 'too_large', error: `the body holds more than ${JSON_LIMITS}` };
  }
  try {
    return { parsed: parse(text) };
  } catch (error) {
    return { fault: 'malformed', error: `the body is not JSON: ${(error as SyntaxError).message}` };
  }
}

/** What reading bodies needs. */
interface IntakeContext {
  readonly admission: Admission;
  readonly configuration: BodyLimits;
  readonly log: Logger;
}

/** Receives the body or the fault. Called exactly once, or never if the client disconnects first. */
export type IntakeSink = (exchange: Exchange, body: Buffer | IntakeFault) => void;

/**
 * Reads the bodies of requests that need a verdict, within the limits of admission, and passes them on when their turn
 * comes; see {@link Backlog}.
 */
export class BodyIntake {
  readonly #context: IntakeContext;

  constructor(context: IntakeContext) {
    this.#context = context;
  }

  /** Reads a body. The sink must use it synchronously and must not keep a reference to it. */
  read(exchange: Exchange, head: RequestHead, sink: IntakeSink): void {
    const { maxBodyBytes } = this.#context.configuration;
    this.readUpTo(maxBodyBytes, exchange, head, sink, (body) => this.admit(exchange, body, sink));
  }

  /** Like {@link read}, with another limit, and as soon as the body is there. @param take is given the body */
  readUpTo(
    maxBytes: number,
    exchange: Exchange,
    { contentLength }: RequestHead,
    sink: IntakeSink,
    take: (body: Buffer) => void,
  ): void {
    const { admission, configuration } = this.#context;
    if (admission.isDraining) sink(exchange, 'shutting_down');
    else if (contentLength > maxBytes) sink(exchange, 'too_large');
    else if (!admission.hasRoomFor(contentLength, exchange)) sink(exchange, 'overloaded');
    else {
      const rules = {
        memory: admission.memory,
        maxBytes,
        announcedBytes: contentLength,
        timeoutMs: configuration.requestTimeoutSecs * 1000,
      };
      exchange.readBody(rules, (body) => {
        if (typeof body === 'string') this.hand(sink, exchange, body);
        else take(body);
      });
    }
  }

  /**
   * Passes a body on at once if the main thread has time, and later if not. If it has waited too long, passes on
   * `overloaded` instead.
   *
   * @param body up to {@link MAX_TYPICAL_BYTES}: valid during the call; larger: until `exchange.releaseBody()`
   */
  admit(exchange: Exchange, body: Buffer, sink: IntakeSink): void {
    const { admission } = this.#context;
    const isLarge = body.length > MAX_TYPICAL_BYTES;
    let kept = body;
    const work: Work = (isLate) => {
      if (!exchange.isOver) this.hand(sink, exchange, isLate ? 'overloaded' : kept);
    };
    const isDone = admission.run(
      () => clientOf(exchange.clientAddress),
      body.length,
      isLarge ? 0 : body.length,
      work,
    );
    if (!isDone && !isLarge) kept = Buffer.from(body);
  }

  /** Calls a sink and catches its errors. No caller above would catch them, so they would end the process. */
  hand<Asked extends Question, Body>(
    sink: (asked: Asked, body: Body) => void,
    asked: Asked,
    body: Body,
  ): void {
    try {
      sink(asked, body);
    } catch (error) {
      this.#context.log.error({ err: error }, 'a request failed inside the service');
      asked.refuse(500, 'internal');
    }
  }
}
