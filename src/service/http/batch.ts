import { Buffer } from 'node:buffer';
import type { AnswerOptions, Endpoint, Exchange, Question } from './exchange.js';

/** Memory for the answer to a line, and for what is noted of it while it waits. */
export const BYTES_PER_LINE = 1024;

/** Longer than most verdicts. */
const MAX_TEXT_LENGTH = 1024;
const LINE_FEED = 0x0a;
/** The content type of a batch, and of its answer. */
export const NDJSON_TYPE = 'application/x-ndjson';
const ANSWER: AnswerOptions = { headers: { 'Content-Type': NDJSON_TYPE } };

/**
 * Splits a batch into lines, without their line feeds. What follows the last line feed is a line, unless it is empty.
 *
 * @param body which the lines share
 * @returns `null` if there are more lines than that
 */
export function splitLines(body: Buffer, maxLines: number): Buffer[] | null {
  const lines: Buffer[] = [];
  for (let from = 0; from < body.length;) {
    if (lines.length === maxLines) return null;
    const feed = body.indexOf(LINE_FEED, from);
    const end = feed < 0 ? body.length : feed;
    lines.push(body.subarray(from, end));
    from = end + 1;
  }
  return lines;
}

/** Gathers the answers to the lines of a batch, and sends them when all are there. */
export class Batch {
  readonly #exchange: Exchange;
  /** Each with its line feed. Long ones as bytes: to encode all of them at the end would take tens of milliseconds. */
  readonly #answers: (string | Buffer)[];
  #left: number;

  constructor(exchange: Exchange, lines: number) {
    this.#exchange = exchange;
    this.#answers = new Array<string | Buffer>(lines).fill('');
    this.#left = lines;
  }

  /**
   * A line as a question of its own.
   *
   * @param at its place, from 0
   * @param answered called when it is answered, before the batch is
   */
  line(at: number, answered: (answerBytes: number) => void): Question {
    return new BatchLine(this.#exchange, at + 1, (answer) => {
      const line = `${answer}\n`;
      const kept = line.length > MAX_TEXT_LENGTH ? Buffer.from(line) : line;
      this.#answers[at] = kept;
      answered(kept.length);
      this.#end();
    });
  }

  #end(): void {
    if (--this.#left > 0) return;
    this.#exchange.isBatch = true;
    this.#exchange.answer(200, joinAll(this.#answers), ANSWER);
  }
}

function joinAll(parts: readonly (string | Buffer)[]): string | Buffer {
  if (parts.every((part) => typeof part === 'string')) return parts.join('');
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
}

/** A line of a batch. To what judges it, it is like a request. */
class BatchLine implements Question {
  code: string | null = null;
  readonly #exchange: Exchange;
  readonly #number: number;
  readonly #take: (answer: string) => void;
  #status = 0;

  constructor(exchange: Exchange, number: number, take: (answer: string) => void) {
    this.#exchange = exchange;
    this.#number = number;
    this.#take = take;
  }

  get endpoint(): Endpoint {
    return this.#exchange.endpoint;
  }

  get traceparent(): string | null {
    return this.#exchange.traceparent;
  }

  get address(): string | null {
    return this.#exchange.address;
  }

  get startedAt(): number {
    return this.#exchange.startedAt;
  }

  get requestId(): string {
    return `${this.#exchange.requestId}-${this.#number}`;
  }

  get knownRequestId(): string | null {
    const id = this.#exchange.knownRequestId;
    return id === null ? null : `${id}-${this.#number}`;
  }

  get status(): number {
    return this.#status;
  }

  get isOver(): boolean {
    return this.#status !== 0 || this.#exchange.isOver;
  }

  answer(status: number, json: string, { headers }: AnswerOptions = {}): void {
    if (this.isOver) return;
    this.#status = status;
    this.#exchange.lineAnswered(this);
    this.#take(status === 200 ? json : withStatus(status, json, headers?.['Retry-After']));
  }

  refuse(status: number, error: string, options?: AnswerOptions): void {
    this.answer(status, JSON.stringify({ error }), options);
  }

  releaseBody(): void {
    // The body of the whole batch is kept until its answer is sent.
  }
}

/** Adds what the status line and the headers of an answer would have said. @param json an object that is not empty */
function withStatus(status: number, json: string, retryAfter: string | undefined): string {
  const retry = retryAfter === undefined ? '' : `,"retry_after":${Number(retryAfter)}`;
  return `${json.slice(0, -1)},"status":${status}${retry}}`;
}
