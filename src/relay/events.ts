import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { IncomingMessage } from 'node:http';
import { MAX_MESSAGE_BYTES } from './message.js';

/** Where a stream of events stands, so that it can be continued on another connection. */
export interface StreamPosition {
  /** The id of the last event; `null` if none had one, so that the stream cannot be continued. */
  lastEventId: string | null;
  /** How long the server wants a client to wait before it continues, in milliseconds. */
  retryMs: number;
}

const MIN_RETRY_MS = 100;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 30_000;

/** The start of a stream. */
export const newPosition = (): StreamPosition => ({ lastEventId: null, retryMs: FIRST_RETRY_MS });

/** How long to wait before the next try, after so many in vain. A server that says 0 must not be asked without a pause. */
export function waitBefore({ retryMs }: StreamPosition, failures: number): number {
  return Math.min(Math.max(retryMs, MIN_RETRY_MS) * 2 ** failures, MAX_RETRY_MS);
}

/**
 * Reads server-sent events until the stream ends or breaks, and hands on the messages among them. The stream is read
 * only as fast as they are taken.
 *
 * @param position is kept up to date
 * @throws Error if an event is too large
 */
export async function readEvents(
  response: IncomingMessage,
  position: StreamPosition,
  onMessage: (data: string, from: IncomingMessage) => Promise<void>,
): Promise<void> {
  let events: EventSourceMessage[] = [];
  const limit = { isPassed: false };
  const parser = createParser({
    onEvent: (event) => events.push(event),
    onRetry: (ms) => (position.retryMs = Math.min(ms, MAX_RETRY_MS)),
    // Other errors are fields that are not known, which clients ignore.
    onError: ({ type }) => (limit.isPassed ||= type === 'max-buffer-size-exceeded'),
    maxBufferSize: MAX_MESSAGE_BYTES,
  });
  const decoder = new TextDecoder();
  for await (const chunk of untilBroken(response)) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (limit.isPassed) {
      response.destroy();
      throw new Error(`the server sent an event of more than ${MAX_MESSAGE_BYTES} characters`);
    }
    const arrived = events;
    events = [];
    for (const { id, event = 'message', data } of arrived) {
      if (id !== undefined && id !== '') position.lastEventId = id;
      if (event === 'message' && data !== '') await onMessage(data, response);
    }
  }
}

/** The chunks of an answer. A connection that breaks ends them. */
async function* untilBroken(response: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* response as AsyncIterable<Buffer>;
  } catch {
    // What was to come is asked for again, if the stream can be continued.
  }
}
