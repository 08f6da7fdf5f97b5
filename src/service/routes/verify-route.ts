import { isJsonObject } from '../../protocol/json.js';
import { WorkDropped } from '../../signatures/signature-verifier.js';
import { parseBundleText } from '../../verify/bundle-text.js';
import type { Call, Judgement } from '../../verify/judge.js';
import { asksForDetails, toVerdictJson } from '../../verifier/verdict.js';
import type { Ticket } from '../load/admission.js';
import {
  readJson,
  refuseBody,
  type BodyIntake,
  type IntakeFault,
  type IntakeSink,
} from '../http/body-intake.js';
import type { Exchange } from '../http/exchange.js';
import type { Rejection } from '../observe/metrics/rejections.js';
import type { RequestHead } from '../http/request-head.js';
import type { RouteContext } from './context.js';

/** `POST /verify`. */
export class VerifyRoute {
  readonly #context: RouteContext;
  readonly #intake: BodyIntake;

  constructor(context: RouteContext, intake: BodyIntake) {
    this.#context = context;
    this.#intake = intake;
  }

  /** Reads the body and answers with a verdict. */
  serve(exchange: Exchange, head: RequestHead): void {
    this.#intake.read(exchange, head, this.#take);
  }

  readonly #take: IntakeSink = (exchange, body) => {
    if (typeof body === 'string') this.#rejectBody(exchange, body);
    else this.#verify(exchange, body);
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

  #answer(exchange: Exchange, ticket: Ticket, outcome: Judgement, bundle: unknown): void {
    ticket.release();
    try {
      this.#context.metrics.countOutcome(outcome);
      this.#context.verdicts.record(exchange, outcome, bundle);
      exchange.answer(200, toVerdictJson(outcome, asksForDetails(bundle)));
    } catch (error) {
      this.#fail(exchange, ticket, error);
    }
  }

  /** Handles every error on the way to a verdict. The answer is then an error, never a verdict. */
  #fail(exchange: Exchange, ticket: Ticket, error: unknown): void {
    ticket.release();
    if (error instanceof WorkDropped) return;
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    this.#reject(exchange, 'internal', 500, 'internal');
  }

  /** Parses a body. If it is malformed, answers the request and returns `null`. */
  #parse(exchange: Exchange, bytes: Buffer, ticket: Ticket): Call | null {
    const read = readJson(bytes, (text) => parseBundleText(text, this.#context.engine.cache));
    if (read.fault !== undefined) {
      this.#reject(exchange, read.fault, read.fault === 'too_large' ? 413 : 400, read.error);
      return null;
    }
    const { bundle, text, document } = read.parsed;
    const hasBody = isJsonObject(document) && Object.hasOwn(document, 'body');
    const body = hasBody ? ({ kind: 'member', text, document } as const) : null;
    return {
      bundle,
      body,
      isWanted: () => !exchange.isOver,
      mayWait: () => ticket.park(),
    };
  }

  #rejectBody(exchange: Exchange, fault: IntakeFault): void {
    const { configuration, metrics } = this.#context;
    metrics.countRejection(fault);
    refuseBody(exchange, fault, configuration);
  }

  #reject(exchange: Exchange, reason: Rejection, status: number, error: string): void {
    this.#context.metrics.countRejection(reason);
    exchange.refuse(status, error);
  }
}
