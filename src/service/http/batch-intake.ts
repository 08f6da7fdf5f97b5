import { Buffer } from 'node:buffer';
import { MAX_TYPICAL_BYTES, type Admission, type BodyReservation } from '../load/admission.js';
import { clientOf, type RateLimit } from '../load/rate-limit.js';
import { Batch, BYTES_PER_LINE, splitLines, NDJSON_TYPE } from './batch.js';
import type { BatchFault, BodyIntake, BodyLimits, IntakeSink, QuestionFault } from './body-intake.js';
import { MAX_PIECES } from './body-reader.js';
import type { Exchange, Question } from './exchange.js';
import type { RequestHead } from './request-head.js';

/** The limits of batches. */
export interface BatchLimits extends BodyLimits {
  /** Lines; 0 if there are no batches. */
  readonly maxBatch: number;
  readonly maxBatchBytes: number;
}

/** Receives a body, a line of a batch, or why there is none. See {@link IntakeSink}. */
export type QuestionSink = (question: Question, body: Buffer | QuestionFault) => void;

/** A batch may take one in so many bytes of the memory for bodies: a client that is alone has a quarter of it. */
const BATCH_SHARE = 8;
/** Beside its lines, a batch counts for short answers with at most one in so many bytes of it. */
const ANSWERS_SHARE = 16;
/** The lines that are under way at the same time have one in so many bytes of it: parsed, they may take an eighth. */
const AHEAD_SHARE = 128;

const TYPE_FORM = /^application\/x-ndjson[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?$/i;

const NO_LINES: BatchFault = {
  reason: 'malformed',
  status: 400,
  error: 'the batch has no line, expected one JSON text a line',
};
const NO_BATCHES = 'batches (application/x-ndjson) are off, since MAX_BATCH is 0; send single requests';

/**
 * Reads the bodies of single requests, and batches: many bodies in one exchange, one a line. Whoever takes a line need not
 * know: every line passes the limits and waits for its turn as if it had come alone.
 */
export class BatchIntake {
  readonly #admission: Admission;
  readonly #limits: BatchLimits;
  readonly #intake: BodyIntake;

  /** @param intake reads single bodies */
  constructor(
    { admission, configuration }: { readonly admission: Admission; readonly configuration: BatchLimits },
    intake: BodyIntake,
  ) {
    this.#admission = admission;
    this.#limits = configuration;
    this.#intake = intake;
  }

  /**
   * Reads a body, or each line of a batch; see {@link BodyIntake.read}.
   *
   * @param limit which the request has passed, for its lines but the first
   */
  read(exchange: Exchange, head: RequestHead, limit: RateLimit | null, sink: QuestionSink): void {
    if (!isBatch(head)) {
      this.#intake.read(exchange, head, sink);
      return;
    }
    const { maxBatch, maxBatchBytes } = this.#limits;
    const fault = maxBatch === 0 ? { status: 415, error: NO_BATCHES } : findHeaderFault(head);
    if (fault !== null) {
      sink(exchange, { reason: 'malformed', ...fault });
      return;
    }
    const maxBytes = Math.min(maxBatchBytes, Math.floor(this.#admission.memory.limit / BATCH_SHARE));
    const forWhole: IntakeSink = (_, body) =>
      sink(exchange, body === 'too_large' ? tooLarge(maxBytes) : body);
    this.#intake.readUpTo(maxBytes, exchange, head, forWhole, (body) =>
      this.#split(exchange, body, limit, sink),
    );
  }

  #split(exchange: Exchange, body: Buffer, limit: RateLimit | null, sink: QuestionSink): void {
    const { maxBatch } = this.#limits;
    const isLarge = body.length > MAX_TYPICAL_BYTES;
    // A body that came in one piece is only valid during the call.
    const lines = splitLines(isLarge ? body : Buffer.from(body), maxBatch);
    if (lines === null || lines.length === 0) {
      this.#intake.hand(sink, exchange, lines === null ? tooManyLines(maxBatch) : NO_LINES);
      return;
    }
    const client = clientOf(exchange.clientAddress);
    const { memory } = this.#admission;
    const held = memory.reserve(client);
    const forAnswers = Math.min(lines.length * BYTES_PER_LINE, memory.limit / ANSWERS_SHARE);
    if (!held.take((isLarge ? 0 : body.length) + forAnswers)) {
      this.#intake.hand(sink, exchange, 'overloaded');
      return;
    }
    exchange.holdUntilSent(held);
    this.#feed({ exchange, client, held, lines, limit, sink });
  }

  /**
   * Admits line by line. What of a batch is under way at the same time is bounded: alone, a line would not be refused
   * because of lines that are answered within the same turn. And of the bodies that take a turn of their own, it has one:
   * those of its client wait for each other.
   */
  #feed({ exchange, client, held, lines, limit, sink }: Feed): void {
    const maxAhead = this.#admission.memory.limit / AHEAD_SHARE;
    let [next, ahead, isFeeding, hasLarge] = [0, 0, false, false];
    const feed = (): void => {
      // An answer within this call: the loop goes on by itself.
      if (isFeeding) return;
      isFeeding = true;
      for (; next < lines.length && !exchange.isOver; next++) {
        const line = lines[next] as Buffer;
        const isLarge = line.length > MAX_TYPICAL_BYTES;
        const bytes = Math.max(line.length, BYTES_PER_LINE);
        if (ahead > 0 && (ahead + bytes > maxAhead || (isLarge && hasLarge))) break;
        ahead += bytes;
        hasLarge ||= isLarge;
        const question = batch.line(next, (answerBytes) => {
          ahead -= bytes;
          if (answerBytes > bytes) held.add(answerBytes - bytes);
          if (isLarge) hasLarge = false;
          feed();
        });
        if (next > 0 && limit !== null && limit.admit(client) > 0)
          this.#intake.hand(sink, question, 'rate_limited');
        else this.#admit(client, line, question, sink);
      }
      isFeeding = false;
    };
    const batch = new Batch(exchange, lines.length);
    feed();
  }

  /** Passes a line on when its turn comes: at once if the main thread has time, and not at all if the client has gone. */
  #admit(client: string, line: Buffer, question: Question, sink: QuestionSink): void {
    if (line.length > this.#limits.maxBodyBytes) {
      this.#intake.hand(sink, question, 'too_large');
      return;
    }
    this.#admission.run(
      () => client,
      line.length,
      0,
      (isLate) => {
        if (!question.isOver) this.#intake.hand(sink, question, isLate ? 'overloaded' : line);
      },
    );
  }
}

/** Whether a request is a batch: its content type is NDJSON, as far as that can be told. */
function isBatch({ contentType }: Pick<RequestHead, 'contentType'>): boolean {
  // The usual `application/json` is shorter.
  if (contentType === null || contentType.length < NDJSON_TYPE.length) return false;
  return contentType.toLowerCase().includes(NDJSON_TYPE);
}

/** Why the headers of a batch are not those of one; `null` if they are. */
function findHeaderFault({
  contentType,
  contentEncoding,
  hasBundle,
}: Pick<RequestHead, 'contentType' | 'contentEncoding' | 'hasBundle'>): {
  readonly status: number;
  readonly error: string;
} | null {
  const type = contentType ?? '';
  if (!TYPE_FORM.test(type))
    return {
      status: 415,
      error: `Content-Type is ${JSON.stringify(type.slice(0, 80))}, expected ${NDJSON_TYPE} for a batch, without other parameters than charset=utf-8`,
    };
  if (contentEncoding !== null)
    return { status: 415, error: 'a batch has Content-Encoding, expected none: send it as it is' };
  if (hasBundle)
    return {
      status: 400,
      error: 'a batch has the header X-DRS-Bundle, expected none: put each bundle into a line of the body',
    };
  return null;
}

/** A batch whose lines are to be admitted. */
interface Feed {
  readonly exchange: Exchange;
  readonly client: string;
  readonly held: BodyReservation;
  readonly lines: readonly Buffer[];
  readonly limit: RateLimit | null;
  readonly sink: QuestionSink;
}

function tooLarge(maxBytes: number): BatchFault {
  const error =
    `the batch is larger than ${maxBytes} bytes (MAX_BATCH_BYTES, or an eighth of MAX_BODY_MEMORY), ` +
    `or came in more than ${MAX_PIECES} pieces; send it as several`;
  return { reason: 'too_large', status: 413, error };
}

function tooManyLines(maxBatch: number): BatchFault {
  const error = `the batch has more than MAX_BATCH (${maxBatch}) lines; send it as several`;
  return { reason: 'too_large', status: 413, error };
}
