import { isJsonObject } from '../protocol/json.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import type { Outcome, OutcomeSink } from '../verifier/engine.js';
import { toVerdictJson } from '../verifier/verdict.js';
import { parseBundleText, type BundleText } from '../verify/bundle-text.js';
import { MAX_TYPICAL_BYTES, type Ticket } from './admission.js';
import type { BodyFault } from './body-reader.js';
import type { AnswerOptions, Exchange } from './exchange.js';
import type { Rejection } from './metrics.js';
import type { RequestHead } from './request-head.js';
import type { RouteContext } from './routes.js';

const RETRY: AnswerOptions = { headers: { 'Retry-After': '1' } };
const RETRY_ELSEWHERE: AnswerOptions = { ...RETRY, closes: true };

// The worst body of 1 MiB takes a quarter of a second to parse, and 64 of them may be read: whoever comes late is told
// to come again rather than kept waiting.
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

  /** Reads the body, however it comes, and judges it. */
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
      else if (body.length <= MAX_TYPICAL_BYTES) this.#judge(exchange, body);
      else {
        this.#large.push({ exchange, body, at: performance.now() });
        if (this.#large.length === 1) setImmediate(this.#judgeNextLarge);
      }
    });
  }

  /** Answers a request that failed inside the service, which is never a verdict. */
  fail(exchange: Exchange, error: unknown): void {
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    this.#reject(exchange, 'internal', 500, 'internal');
  }

  /** Answers with a verdict. */
  answer(exchange: Exchange, outcome: Outcome): void {
    this.#context.metrics.countOutcome(outcome);
    exchange.answer(200, toVerdictJson(outcome));
  }

  /** One for each turn of the event loop, so that everything else is served between them. */
  readonly #judgeNextLarge = (): void => {
    const next = this.#large.shift();
    if (this.#large.length > 0) setImmediate(this.#judgeNextLarge);
    if (next === undefined || next.exchange.isOver) return;
    if (performance.now() - next.at > MAX_LARGE_WAIT_MS) this.#rejectBody(next.exchange, 'overloaded');
    else this.#judge(next.exchange, next.body);
  };

  #judge(exchange: Exchange, bytes: Buffer): void {
    const ticket = this.#context.admission.enter(bytes.length);
    if (ticket === null) {
      this.#rejectBody(exchange, 'overloaded');
      return;
    }
    const answer = new Answer(this, exchange, ticket);
    try {
      const parsed = this.#parse(exchange, bytes);
      exchange.releaseBody();
      if (parsed === null) {
        ticket.release();
        return;
      }
      const { bundle, document } = parsed;
      const hasBody = isJsonObject(document) && Object.hasOwn(document, 'body');
      const body = hasBody ? ({ kind: 'member', text: parsed.text, document } as const) : null;
      this.#context.engine.judge({ bundle, body }, answer);
    } catch (error) {
      answer.abandon(error as Error);
    }
  }

  #parse(exchange: Exchange, bytes: Buffer): BundleText | null {
    const text = decodeUtf8(bytes);
    if (text === null) {
      this.#reject(exchange, 'malformed', 400, 'the body is not UTF-8, expected JSON (RFC 8259)');
      return null;
    }
    try {
      return parseBundleText(text, this.#context.engine.cache);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#reject(exchange, 'malformed', 400, error.message);
      return null;
    }
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

/** Where one verdict goes. Whatever happens on the way, the request is answered and its ticket given back, once. */
class Answer implements OutcomeSink {
  readonly #route: VerifyRoute;
  readonly #exchange: Exchange;
  readonly #ticket: Ticket;

  constructor(route: VerifyRoute, exchange: Exchange, ticket: Ticket) {
    this.#route = route;
    this.#exchange = exchange;
    this.#ticket = ticket;
  }

  deliver(outcome: Outcome): void {
    this.#ticket.release();
    try {
      this.#route.answer(this.#exchange, outcome);
    } catch (error) {
      this.#route.fail(this.#exchange, error);
    }
  }

  abandon(error: Error): void {
    this.#ticket.release();
    this.#route.fail(this.#exchange, error);
  }
}
