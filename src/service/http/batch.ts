import type { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import type { Configuration } from '../configuration/configuration.js';
import type { RouteContext } from '../core.js';
import { MAX_TYPICAL_BYTES, type Ticket } from '../load/gatekeeper.js';
import type { RateLimit } from '../load/rate-limit.js';
import { MAX_PIECES } from './body-reader.js';
import type { BodyHandler } from './body-handler.js';
import { handleInTurn } from './serve.js';
import { NDJSON_TYPE, errorAnswer, type Answer, type Exchange } from './exchange.js';

type BatchDeps = Pick<RouteContext, 'configuration' | 'gatekeeper' | 'log' | 'metrics'> & {
  readonly limit: RateLimit | null;
};

const MAX_LINES = 1024;
/** Memory for the answer to a line, and for what is noted of it while it waits. */
const BYTES_PER_LINE = 1024;
/** A batch may take one in so many bytes of the memory for bodies: a client that is alone has a quarter of it. */
const BATCH_SHARE = 8;
/** Beside its lines, a batch counts for short answers with at most one in so many bytes of it. */
const ANSWERS_SHARE = 16;
/** The lines that are under way at the same time have one in so many bytes of it: parsed, they may take an eighth. */
const AHEAD_SHARE = 128;
const LINE_FEED = 0x0a;

const TYPE_FORM = /^application\/x-ndjson[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?$/i;

/** The largest batch. */
export function maxBatchBytesOf({ maxBodyMemory }: Pick<Configuration, 'maxBodyMemory'>): number {
  return Math.floor(maxBodyMemory / BATCH_SHARE);
}

/**
 * Has each line of a batch judged: many bodies in one request. What judges a line need not know: every line passes the limits and waits for
 * its turn as if it had come alone.
 *
 * @param deps `limit`: which the request has passed, for its lines but the first
 */
export async function answerBatch(
  exchange: Exchange,
  ticket: Ticket,
  handler: BodyHandler,
  deps: BatchDeps,
): Promise<Answer | null> {
  const { configuration, metrics } = deps;
  const { maxBodyMemory } = configuration;
  const maxBytes = maxBatchBytesOf(configuration);
  const refuse = (status: number, error: string) => {
    metrics.countRejection(exchange.endpoint, status === 413 ? 'too_large' : 'malformed');
    return errorAnswer(status, error);
  };
  const type = exchange.header('content-type') ?? '';
  if (!TYPE_FORM.test(type)) {
    const expected = `${NDJSON_TYPE} for a batch, without other parameters than charset=utf-8`;
    return refuse(415, `Content-Type is ${JSON.stringify(type.slice(0, 80))}, expected ${expected}`);
  }
  if (exchange.header('content-encoding') !== null)
    return refuse(415, 'a batch has Content-Encoding, expected none: send it as it is');
  if (exchange.header('x-drs-bundle') !== null)
    return refuse(400, 'a batch has X-DRS-Bundle, expected none: put each bundle into a line of it');
  const body = await exchange.read(maxBytes, ticket);
  if (body === 'gone') return null;
  if (body === 'too_large') {
    const limits = `${maxBytes} bytes (an eighth of MAX_BODY_MEMORY), or came in more than ${MAX_PIECES} pieces`;
    return refuse(413, `the batch is larger than ${limits}; send it as several`);
  }
  if (typeof body === 'string') return handler.refuse(exchange, body);
  const lines = splitLines(body, MAX_LINES);
  if (lines === null) return refuse(413, `the batch has more than ${MAX_LINES} lines; send it as several`);
  if (lines.length === 0) return refuse(400, 'the batch has no line, expected one JSON text a line');
  const forAnswers = Math.min(lines.length * BYTES_PER_LINE, maxBodyMemory / ANSWERS_SHARE);
  // What came in one piece is not counted yet.
  const uncounted = body.length > MAX_TYPICAL_BYTES ? 0 : body.length;
  if (!ticket.grow(uncounted + forAnswers)) return handler.refuse(exchange, 'overloaded');
  const answers = await answerLines(exchange, lines, ticket, handler, deps);
  exchange.isBatch = true;
  return exchange.isOver
    ? null
    : { status: 200, body: inPieces(answers), headers: { 'Content-Type': NDJSON_TYPE }, isTimed: true };
}

/**
 * Has each line judged. What of a batch is under way at the same time is bounded: alone, a line would not be refused because of lines that
 * are answered within the same turn. And of the bodies that take a turn of their own, it has one: those of its client wait for each other.
 *
 * @returns the answers, each with its line feed
 */
async function answerLines(
  exchange: Exchange,
  lines: readonly Buffer[],
  ticket: Ticket,
  handler: BodyHandler,
  { configuration, gatekeeper, limit, log }: BatchDeps,
): Promise<string[]> {
  const answers = new Array<string>(lines.length).fill('');
  const maxAhead = configuration.maxBodyMemory / AHEAD_SHARE;
  const answerLine = async (line: Buffer, at: number): Promise<void> => {
    const asked = lineOf(exchange, at + 1);
    const own = gatekeeper.ticketWithoutLimits(exchange);
    let answer: Answer | null;
    try {
      if (at > 0 && limit !== null && limit.admit(exchange.client) > 0)
        answer = await handler.refuse(asked, 'rate_limited');
      else if (line.length > configuration.maxBodyBytes) answer = await handler.refuse(asked, 'too_large');
      else answer = await handleInTurn(asked, line, own, handler);
    } catch (error) {
      log.error({ err: error }, 'a request failed inside the service');
      answer = errorAnswer(500, 'internal');
    } finally {
      own.release();
    }
    if (answer === null || exchange.isOver) return;
    asked.status = answer.status;
    exchange.reportLine(asked);
    const text = (answers[at] = toLine(answer));
    // Two bytes for each character at most.
    ticket.add(Math.max(0, 2 * text.length - BYTES_PER_LINE));
  };
  let [group, ahead, hasLarge] = [[] as Promise<void>[], 0, false];
  for (const [at, line] of lines.entries()) {
    const isLarge = line.length > MAX_TYPICAL_BYTES;
    const bytes = Math.max(line.length, BYTES_PER_LINE);
    if (ahead + bytes > maxAhead || (isLarge && hasLarge)) {
      await Promise.all(group);
      [group, ahead, hasLarge] = [[], 0, false];
    }
    if (exchange.isOver) break;
    ahead += bytes;
    hasLarge ||= isLarge;
    group.push(answerLine(line, at));
  }
  await Promise.all(group);
  return answers;
}

/** A line of a batch. To what judges it, it is like a request. */
function lineOf(exchange: Exchange, number: number) {
  const { endpoint, parent, address, startedAt } = exchange;
  const numbered = (id: string) => `${id}-${number}`;
  return {
    endpoint,
    parent,
    address,
    startedAt,
    code: null as string | null,
    status: 0,
    get requestId() {
      return numbered(exchange.requestId);
    },
    get knownRequestId() {
      return exchange.knownRequestId && numbered(exchange.knownRequestId);
    },
    get isOver() {
      return exchange.isOver;
    },
  };
}

/** An answer as a line, with what the status line and the headers would have said. */
function toLine({ status, body, headers }: Answer): string {
  const json = body as string;
  if (status === 200) return `${json}\n`;
  const retryAfter = headers?.['Retry-After'];
  const retry = retryAfter === undefined ? '' : `,"retry_after":${Number(retryAfter)}`;
  return `${json.slice(0, -1)},"status":${status}${retry}}\n`;
}

/**
 * Splits a batch into lines, without their line feeds. What follows the last line feed is a line, unless it is empty.
 *
 * @param body which the lines share
 * @returns `null` if there are more lines than that
 */
function splitLines(body: Buffer, maxLines: number): Buffer[] | null {
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

const PIECE_CHARACTERS = 32 * 1024;

/** Lines as pieces that are worth a write. Other requests have their turn between two, also if the client reads fast. */
export async function* inPieces(lines: Iterable<string>): AsyncGenerator<string, void> {
  let piece = '';
  for (const line of lines) {
    piece += line;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
    await setImmediate();
  }
  if (piece !== '') yield piece;
}
