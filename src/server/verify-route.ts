import type { HttpRequest } from 'uWebSockets.js';
import { hasMoreNodes, isJsonObject, MAX_JSON_NODES } from '../protocol/json.js';
import { decodeUtf8 } from '../protocol/utf8.js';
import { WorkDropped } from '../signatures/signature-verifier.js';
import { toVerdictJson } from '../verifier/verdict.js';
import type { AnswerOptions, Exchange } from './exchange.js';
import type { Rejection } from './metrics.js';
import type { RouteContext } from './routes.js';

const RETRY: AnswerOptions = { headers: { 'Retry-After': '1' } };
const RETRY_ELSEWHERE: AnswerOptions = { ...RETRY, closes: true };

/** `POST /verify`. Service document 4.1, decisions sections 4 and 5. */
export class VerifyRoute {
  readonly #context: RouteContext;
  #pending = 0;

  constructor(context: RouteContext) {
    this.#context = context;
  }

  /** Requests that wait for a verdict. */
  get pending(): number {
    return this.#pending;
  }

  /** Reads the body, however it comes, and judges it. */
  serve(exchange: Exchange, req: HttpRequest): void {
    const { maxBodyBytes } = this.#context.configuration;
    if (Number(req.getHeader('content-length')) > maxBodyBytes) {
      this.#rejectSize(exchange);
      return;
    }
    exchange.readBody(maxBodyBytes, (body) => {
      try {
        if (body === null) this.#rejectSize(exchange);
        else this.#judge(exchange, body);
      } catch (error) {
        this.fail(exchange, error);
      }
    });
  }

  /** Answers a request that came too late to be judged. */
  turnAway(exchange: Exchange): void {
    this.#reject(exchange, 'shutting_down', 503, 'shutting down', RETRY_ELSEWHERE);
  }

  /** Answers a request that failed inside the service, which is never a verdict. */
  fail(exchange: Exchange, error: unknown): void {
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    this.#reject(exchange, 'internal', 500, 'internal');
  }

  #judge(exchange: Exchange, bytes: Buffer): void {
    const { configuration } = this.#context;
    if (this.#pending >= configuration.maxPending) {
      this.#reject(exchange, 'overloaded', 503, 'overloaded', RETRY);
      return;
    }
    const text = decodeUtf8(bytes);
    if (text === null) {
      this.#reject(exchange, 'malformed', 400, 'the body is not UTF-8, expected JSON (RFC 8259)');
      return;
    }
    if (hasMoreNodes(text)) {
      const error = `the body holds more than ${MAX_JSON_NODES} JSON objects, arrays and members`;
      this.#reject(exchange, 'too_large', 413, error);
      return;
    }
    let bundle: unknown;
    try {
      bundle = JSON.parse(text);
    } catch (error) {
      this.#reject(exchange, 'malformed', 400, (error as SyntaxError).message);
      return;
    }
    void this.#answer(exchange, text, bundle);
  }

  async #answer(exchange: Exchange, text: string, bundle: unknown): Promise<void> {
    const hasBody = isJsonObject(bundle) && Object.hasOwn(bundle, 'body');
    const body = hasBody ? ({ kind: 'member', text, document: bundle } as const) : null;
    this.#pending++;
    try {
      const outcome = await this.#context.engine.verify({ bundle, body, isWanted: () => !exchange.isOver });
      this.#context.metrics.countOutcome(outcome);
      exchange.answer(200, toVerdictJson(outcome));
    } catch (error) {
      if (!(error instanceof WorkDropped)) this.fail(exchange, error);
    } finally {
      this.#pending--;
    }
  }

  #rejectSize(exchange: Exchange): void {
    const { maxBodyBytes } = this.#context.configuration;
    const error = `the body is larger than MAX_BODY_BYTES (${maxBodyBytes})`;
    this.#reject(exchange, 'too_large', 413, error, { closes: true });
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
