import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { errors, Pool } from 'undici';
import { answeredHeaders } from './forwarded-headers.js';

/** Time to connect to a tool server, and time in which it must begin to answer. Afterwards it may take any time. */
const CONNECT_MS = 10_000;
const ANSWER_MS = 300_000;
/** With these, nothing was sent. */
const NOT_CONNECTED: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT']);

/** A request for a tool server. */
export interface ForwardedRequest {
  readonly method: string;
  readonly path: string;
  /** Names and values by turns. */
  readonly headers: string[];
  readonly body: Uint8Array | null;
}

/** Sends requests to a tool server, and its answers to clients, piece by piece as they come. */
export class Upstream {
  readonly #origin: string;
  readonly #pool: Pool;
  readonly #log: Logger;
  #open = 0;

  /** @param answerMs within which the tool server must begin to answer */
  constructor(origin: string, log: Logger, answerMs = ANSWER_MS) {
    this.#origin = origin;
    this.#log = log;
    this.#pool = new Pool(origin, {
      connect: { timeout: CONNECT_MS },
      headersTimeout: answerMs,
      // An event stream may be silent for hours.
      bodyTimeout: 0,
    });
  }

  /** Number of requests that are not answered whole. */
  get open(): number {
    return this.#open;
  }

  /**
   * Sends a request, and its answer to the client. Never rejects: without an answer, the client gets 502 or 504.
   *
   * @param closes whether the answer closes the connection of the client
   * @param onSent called once, when the body is no longer needed
   */
  async forward(
    { method, path, headers, body }: ForwardedRequest,
    response: ServerResponse,
    { closes, onSent }: { readonly closes: boolean; readonly onSent: () => void },
  ): Promise<void> {
    this.#open++;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const answer = await this.#pool
        .request({
          ...{ method, path, headers, body, signal: gone.signal, responseHeaders: 'raw' },
        })
        .finally(onSent);
      // With `raw`, these are names and values by turns.
      const sent = answeredHeaders(answer.headers as unknown as string[]);
      if (closes) sent.push('Connection', 'close');
      response.writeHead(answer.statusCode, sent);
      // An event stream begins at once, also without an event.
      response.flushHeaders();
      await pipeline(answer.body, response);
    } catch (error) {
      if (!gone.signal.aborted) this.#fail(error, response);
      else response.destroy();
    } finally {
      this.#open--;
    }
  }

  /** Cuts off what is under way. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #fail(error: unknown, response: ServerResponse): void {
    this.#log.warn({ err: error }, 'the tool server did not answer');
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const isLate = error instanceof errors.HeadersTimeoutError || error instanceof errors.ConnectTimeoutError;
    const { code, message } = error as NodeJS.ErrnoException;
    const outcome = NOT_CONNECTED.has(code ?? '') ? 'was not executed' : 'may have been executed';
    const text = JSON.stringify({
      error: `the tool server at ${this.#origin} did not answer: ${code ?? message}. The call ${outcome}; to repeat it, sign it anew`,
    });
    response.writeHead(isLate ? 504 : 502, {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(text),
    });
    response.end(text);
  }
}
