import type { Buffer } from 'node:buffer';
import { hasMoreNodes, jsonLimits } from '../../protocol/json.js';
import { decodeUtf8 } from '#platform';
import type { Configuration } from '../configuration/configuration.js';
import type { Ticket } from '../load/gatekeeper.js';
import { MAX_PIECES, type BodyFault } from './body-reader.js';
import {
  errorAnswer,
  type Answer,
  type Answering,
  type Asker,
  type Exchange,
  type TextAnswer,
} from './exchange.js';

/** Why something is not judged. */
export type Fault = Exclude<BodyFault, 'gone'> | 'shutting_down' | 'rate_limited';

/** What answers bodies: of requests, and the lines of batches. */
export interface BodyHandler<One extends Asker = Asker> {
  /** Of the body of a request. */
  readonly maxBytes: number;
  /** Why a request is refused before its body is read; `null` if it is not. */
  readonly refusalOf?: ((exchange: Exchange) => Answer | null) | undefined;
  /**
   * @param ticket waits for the verdict, and is given back by the caller
   * @returns `null` if nobody waits for the answer
   */
  answer(asked: One, body: Buffer, ticket: Ticket): Promise<Answer | null>;
  /** Counts and says why there is no verdict. */
  refuse(asked: One, fault: Fault): Answering;
  /** Does so for `overloaded`, of a request of which nothing is known. */
  overloaded(): TextAnswer;
}

// Made once: what is refused for load must cost as little as can be.
const RETRY = { 'Retry-After': '1' };
const OVERLOADED = errorAnswer(503, 'overloaded', { headers: RETRY });

type BodyLimits = Pick<Configuration, 'maxBodyBytes' | 'requestTimeoutSecs'>;

/** Says what `too_large` means. */
export const tooLargeMessage = (maxBytes: number): string =>
  `the body is larger than MAX_BODY_BYTES (${maxBytes}), or came in more than ${MAX_PIECES} pieces`;

/** The answer to a request whose body did not come whole, or has waited for too long. */
export function answerTo(fault: Fault, { maxBodyBytes, requestTimeoutSecs }: BodyLimits): TextAnswer {
  switch (fault) {
    case 'too_large':
      return errorAnswer(413, tooLargeMessage(maxBodyBytes), { closes: true });
    case 'timeout': {
      const error = `the body did not arrive within REQUEST_TIMEOUT_SECS (${requestTimeoutSecs})`;
      return errorAnswer(408, error, { closes: true });
    }
    case 'overloaded':
      return OVERLOADED;
    case 'shutting_down':
      return errorAnswer(503, 'shutting down', { headers: RETRY, closes: true });
    case 'rate_limited':
      return errorAnswer(429, 'rate_limited', { headers: RETRY });
  }
}

/** A body that was parsed as JSON, or why it is none. */
export type JsonBody<Parsed> =
  | { readonly parsed: Parsed; readonly fault?: never }
  | { readonly fault: 'malformed' | 'too_large'; readonly error: string };

/**
 * Reads a body as JSON. Whether it is strict is for the route to see.
 *
 * @param parse like `JSON.parse`
 */
export function readJson<Parsed>(bytes: Buffer, parse: (text: string) => Parsed): JsonBody<Parsed> {
  const text = decodeUtf8(bytes);
  if (text === null)
    return { fault: 'malformed', error: 'the body is not UTF-8, expected JSON (RFC 8259), not compressed' };
  if (text === '') return { fault: 'malformed', error: 'the body is empty, expected JSON' };
  if (hasMoreNodes(text)) {
    return { fault: 'too_large', error: `the body holds more than ${jsonLimits()}` };
  }
  try {
    return { parsed: parse(text) };
  } catch (error) {
    return { fault: 'malformed', error: `the body is not JSON: ${(error as SyntaxError).message}` };
  }
}
