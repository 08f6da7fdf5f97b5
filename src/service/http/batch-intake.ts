import { Buffer } from 'node:buffer';
import { MAX_TYPICAL_BYTES, type Admission } from '../load/admission.js';
import { clientOf, type RateLimit } from '../load/rate-limit.js';
import { Batch, BYTES_PER_LINE, findHeaderFault, isBatch, splitLines } from './batch.js';
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
    const { maxBatch, maxBodyBytes } = this.#limits;
    const isLarge = body.length > MAX_TYPICAL_BYTES;
    // A body that came in one piece is only valid during the call.
    const lines = splitLines(isLarge ? body : Buffer.from(body), maxBatch);
    if (lines === null || lines.length === 0) {
      this.#intake.hand(sink, exchange, lines === null ? tooManyLines(maxBatch) : NO_LINES);
      return;
    }
    const client = clientOf(exchange.clientAddress);
    const held = this.#admission.memory.reserve(client);
    if (!held.take((isLarge ? 0 : body.length) + lines.length * BYTES_PER_LINE)) {
      this.#intake.hand(sink, exchange, 'overloaded');
      return;
    }
    exchange.holdUntilSent(held);
    const batch = new Batch(exchange, lines.length);
    // Bodies that take a turn of their own wait without regard to their clients. So a batch has one there at a time.
    const large: number[] = [];
    const admit = (at: number, done?: () => void) =>
      this.#admit(exchange, client, lines[at] as Buffer, (body) => {
        this.#intake.hand(sink, batch.line(at), body);
        done?.();
      });
    const admitLarge = () => {
      const next = large.shift();
      if (next !== undefined) admit(next, admitLarge);
    };
    for (const [at, { length }] of lines.entries()) {
      if (at > 0 && limit !== null && limit.admit(client) > 0)
        this.#intake.hand(sink, batch.line(at), 'rate_limited');
      else if (length > maxBodyBytes) this.#intake.hand(sink, batch.line(at), 'too_large');
      else if (length > MAX_TYPICAL_BYTES) large.push(at);
      else admit(at);
    }
    admitLarge();
  }

  /** Passes a line on when its turn comes: at once if the main thread has time, and not at all if the client has gone. */
  #admit(
    exchange: Exchange,
    client: string,
    line: Buffer,
    take: (body: Buffer | 'overloaded') => void,
  ): void {
    this.#admission.run(
      () => client,
      line.length,
      0,
      (isLate) => {
        if (!exchange.isOver) take(isLate ? 'overloaded' : line);
      },
    );
  }
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
