import { Buffer } from 'node:buffer';
import { WorkDropped } from '../../signatures/signature-verifier.js';
import { bodyIn } from '../../verify/binding.js';
import type { Call, Judgement } from '../../verify/judge.js';
import { asksForDetails, toVerdictJson } from '../../verifier/verdict.js';
import type { Ticket } from '../load/admission.js';
import { readJson, refuseBody, type QuestionFault } from '../http/body-intake.js';
import type { BatchIntake, QuestionSink } from '../http/batch-intake.js';
import type { Exchange, Question } from '../http/exchange.js';
import type { RateLimit } from '../load/rate-limit.js';
import type { Rejection } from '../observe/metrics/metrics.js';
import type { RequestHead } from '../http/request-head.js';
import type { RouteContext } from './context.js';

/** `POST /verify`. */
export class VerifyRoute {
  readonly #context: RouteContext;
  readonly #intake: BatchIntake;
  readonly #limit: RateLimit | null;

  /** @param limit which requests have passed */
  constructor(context: RouteContext, intake: BatchIntake, limit: RateLimit | null) {
    this.#context = context;
    this.#intake = intake;
    this.#limit = limit;
  }

  /** Reads the body, and answers it or each line of a batch with a verdict. */
  readonly serve = (exchange: Exchange, head: RequestHead): void =>
    this.#intake.read(exchange, head, this.#limit, this.#take);

  readonly #take: QuestionSink = (question, body) => {
    if (Buffer.isBuffer(body)) this.#verify(question, body);
    else this.#rejectBody(question, body);
  };

  #verify(question: Question, bytes: Buffer): void {
    const { admission, engine } = this.#context;
    const ticket = admission.enter(bytes.length);
    if (ticket === null) {
      this.#rejectBody(question, 'overloaded');
      return;
    }
    try {
      const request = this.#parse(question, bytes, ticket);
      question.releaseBody();
      if (request === null) ticket.release();
      else
        engine.verify(request).then(
          (outcome) => this.#answer(question, ticket, outcome, request.bundle),
          (error: unknown) => this.#fail(question, ticket, error),
        );
    } catch (error) {
      this.#fail(question, ticket, error);
    }
  }

  #answer(question: Question, ticket: Ticket, outcome: Judgement, bundle: unknown): void {
    ticket.release();
    try {
      this.#context.metrics.countOutcome(outcome);
      this.#context.verdicts.record(question, outcome, bundle);
      question.answer(200, toVerdictJson(outcome, asksForDetails(bundle)));
    } catch (error) {
      this.#fail(question, ticket, error);
    }
  }

  /** Handles every error on the way to a verdict. The answer is then an error, never a verdict. */
  #fail(question: Question, ticket: Ticket, error: unknown): void {
    ticket.release();
    if (error instanceof WorkDropped) return;
    this.#context.log.error({ err: error }, 'a request failed inside the service');
    this.#reject(question, 'internal', 500, 'internal');
  }

  /** Parses a body. If it is malformed, answers the request and returns `null`. */
  #parse(question: Question, bytes: Buffer, ticket: Ticket): Call | null {
    const read = readJson(bytes, (text) => ({ text, bundle: JSON.parse(text) as unknown }));
    if (read.fault !== undefined) {
      this.#reject(question, read.fault, read.fault === 'too_large' ? 413 : 400, read.error);
      return null;
    }
    return {
      bundle: read.parsed.bundle,
      body: bodyIn(read.parsed.text, read.parsed.bundle),
      isWanted: () => !question.isOver,
      mayWait: () => ticket.park(),
    };
  }

  #rejectBody(question: Question, fault: QuestionFault): void {
    const { configuration, metrics } = this.#context;
    metrics.countRejection(typeof fault === 'string' ? fault : fault.reason);
    refuseBody(question, fault, configuration);
  }

  #reject(question: Question, reason: Rejection, status: number, error: string): void {
    this.#context.metrics.countRejection(reason);
    question.refuse(status, error);
  }
}
