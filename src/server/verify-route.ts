import { hasMoreNodes, isJsonObject, MAX_JSON_NODES, type JsonObject } from '../protocol/json.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import { WorkDropped } from '../signatures/signature-verifier.js';
import type { Outcome, Request } from '../engine/engine.js';
import { asksForDetails } from '../engine/create-verifier.js';
import { toVerdictJson } from '../engine/verdict.js';
import { MAX_TYPICAL_BYTES, type Ticket } from './admission.js';
import type { BodyFault } from './body-reader.js';
import type { AnswerOptions, Exchange } from './exchange.js';
import type { Rejection } from './metrics.js';
import type { RequestHead } from './request-head.js';
import type { RouteContext } from './routes.js';

const RETRY: AnswerOptions = { headers: { 'Retry-After': '1' } };
const RETRY_ELSEWHERE: AnswerOptions = { ...RETRY, closes: true };

// Large bodies take their turns, and 64 of them may be read: whoever comes late is told to come again.
const MAX_LARGE_WAIT_MS = 1000;

interface LargeBody {
  readonly exchange: Exchange;
  readonly body: Buffer;
  /** When it was complete, in milliseconds of `performance.now()`. */
  readonly at: number;
}

/** `POST /verify`. */
export class VerifyRoute {
  readonly #context: RouteContext;
  /** Bodies that take long to parse, oldest first. */
  readonly #large: LargeBody[] = [];

  constructor(context: RouteContext) {
    this.#context = context;
  }

  /** Reads the body, however it comes, and answers with a verdict. */
  serve(exchange: Exchange, { contentLength }: RequestHead): void {
    const { admission, configuration } = this.#context;
    const { maxBodyBytes, requestTimeoutSecs } = configuration;
    if (admission.isDraining) {
      this.#reject(exchange, 'shutting_down', 503, 'shutting down', RETRY_ELSEWHERE);
      return;
    }
    if (contentLength > maxBodyBytes) {
      this.#rejectBody(exchange, 'too_large');
      return;
    }
    if (!admission.hasRoomFor(contentLength)) {
      this.#rejectBody(exchange, 'overloaded');
      return;
    }
    const rules = {
      admission,
      maxBytes: maxBodyBytes,
      announcedBytes: contentLength,
      timeoutMs: requestTimeoutSecs * 1000,
    };
    exchange.readBody(rules, (body) => {
      if (typeof body === 'string') this.#rejectBody(exchange, body);
      else if (body.length <= MAX_TYPICAL_BYTES) this.#verify(exchange, body);
      else {
        this.#large.push({ exchange, body, at: performance.now() });
        if (this.#large.length === 1) setImmediate(this.#verifyNextLarge);
      }
    });
  }

  /** One for each turn of the event loop, so that everything else is served between them. */
  readonly #verifyNextLarge = (): void => {
    const next = this.#large.shift();
    if (this.#large.length > 0) setImmediate(this.#verifyNextLarge);
    if (next === undefined || next.exchange.isOver) return;
    if (performance.now() - next.at > MAX_LARGE_WAIT_MS) this.#rejectBody(next.exchange, 'overloaded');
    else this.#verify(next.exchange, next.body);
  };

  #verify(exchange: Exchange, bytes: Buffer): void {
    const { admission, engine } = this.#context;
    const ticket = admission.enter(bytes.length);
    if (ticket === null) {
      this.#rejectBody(exchange, 'overloaded');
      return;
    }
    try {
      const request = this.#parse(exchange, bytes, ticket);
      exchange.releaseBody();
      if (request === null) ticket.release();
      else
        engine.verify(request).then(
          (outcome) => this.#answer(exchange, ticket, outcome, request.bundle),
          (error: unknown) => this.#fail(exchange, ticket, error),
        );
    } catch (error) {
      this.#fail(exchange, ticket, error);
    }
  }

  #answer(exchange: Exchange, ticket: Ticket, outcome: Outcome, bundle: unknown): void {
    ticket.release();
    try {
      this.#context.metrics.countOutcome(outcome);
      this.#context.verdicts.record(exchange, outcome, bundle);
      exchange.answer(200, toVerdictJson(outcome));
    } catch (error) {
      this.#fail(exchange, ticket, error);
    }
  }

  /** Whatever fails on the way to a verdict ends here, and is none. */
  #fail(exchange: Exchange, ticket: Ticket, error: unknown): void {
    ticket.release();
    if (error instanceof WorkDropped) return;
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    this.#reject(exchange, 'internal', 500, 'internal');
  }

  /** Parses a body, or refuses it and returns `null`. */
  #parse(exchange: Exchange, bytes: Buffer, ticket: Ticket): Request | null {
    const text = decodeUtf8(bytes);
    if (text === null) {
      this.#reject(exchange, 'malformed', 400, 'the body is not UTF-8, expected JSON (RFC 8259)');
      return null;
    }
    if (hasMoreNodes(text)) {
      const error = `the body holds more than ${MAX_JSON_NODES} JSON objects, arrays and members`;
      this.#reject(exchange, 'too_large', 413, error);
      return null;
    }
    let bundle: unknown;
    try {
      bundle = JSON.parse(text);
    } catch (error) {
      this.#reject(exchange, 'malformed', 400, (error as SyntaxError).message);
      return null;
    }
    const hasBody = isJsonObject(bundle) && Object.hasOwn(bundle, 'body');
    const body = hasBody ? ({ kind: 'member', text, document: bundle as JsonObject } as const) : null;
    return {
      bundle,
      body,
      wantsDetails: asksForDetails(bundle),
      isWanted: () => !exchange.isOver,
      mayWait: () => ticket.park(),
    };
  }

  #rejectBody(exchange: Exchange, fault: BodyFault): void {
    const { maxBodyBytes, requestTimeoutSecs } = this.#context.configuration;
    switch (fault) {
      case 'too_large': {
        const error = `the body is larger than MAX_BODY_BYTES (${maxBodyBytes})`;
        this.#reject(exchange, 'too_large', 413, error, { closes: true });
        break;
      }
      case 'timeout': {
        const error = `the body did not arrive within REQUEST_TIMEOUT_SECS (${requestTimeoutSecs})`;
        this.#reject(exchange, 'timeout', 408, error, { closes: true });
        break;
      }
      case 'overloaded':
        this.#reject(exchange, 'overloaded', 503, 'overloaded', RETRY);
    }
  }

  #reject(
    exchange: Exchange,
    reason: Rejection,
    status: number,
    error: string,
    options?: AnswerOptions,
  ): void {
    this.#context.metrics.countRejection(reason);
    exchange.refuse(status, error, options);
  }
}
