import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { addHeader, type HeaderName } from '../../../gate/request.js';
import { GONE_PEER, type Pieces, type TakePiece, type Wire, type WireAnswer } from '../front-end.js';

const NOTHING = Buffer.alloc(0);

/** A {@link Wire} over `node:http`. */
export class NodeWire implements Wire {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  /** Whether the client has disconnected. */
  isGone = false;
  #gone: ((peer: string) => void) | null = null;
  /** Whether the answer is the last one of the connection. */
  closes = false;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    this.#response = response;
  }

  /** Whether a part of the body has not arrived yet. */
  get isReceiving(): boolean {
    return !this.#request.complete;
  }

  /** Reports that the client has disconnected, or sends a malformed body. */
  abort(): void {
    this.isGone = true;
    this.#gone?.(this.remoteAddress());
    this.#gone = null;
  }

  remoteAddress(): string {
    return this.#request.socket.remoteAddress ?? GONE_PEER;
  }

  onAborted(gone: (peer: string) => void): void {
    if (this.isGone) gone(this.remoteAddress());
    else this.#gone = gone;
  }

  receive(take: TakePiece): void {
    const request = this.#request;
    const announced = Number(request.headers['content-length'] ?? NaN);
    let received = 0;
    let hasBegun = false;
    let isComplete = false;
    const hand = (piece: Buffer, isLast: boolean) => {
      if (isComplete) return;
      hasBegun = true;
      isComplete = isLast;
      take(piece, isLast);
    };
    request.on('data', (piece: Buffer) => {
      received += piece.length;
      // Detect the last piece here: the event `end` comes one turn later.
      hand(piece, received === announced || (request.complete && request.readableLength === 0));
    });
    request.on('end', () => hand(NOTHING, true));
    setImmediate(() => {
      if (!hasBegun && !request.destroyed) hand(NOTHING, false);
    });
  }

  keepOpen(): void {
    // Nothing to do: here only `server.timeout` closes slow connections.
  }

  write(answer: WireAnswer): void {
    const { status, body, headers, closes } = answer;
    this.closes = closes;
    this.#response.writeHead(status, {
      'Content-Type': 'application/json',
      ...headers,
      'Content-Length': Buffer.byteLength(body),
      ...(closes && { Connection: 'close' }),
    });
    this.#response.end(answer.isHead ? undefined : answer.body);
    this.#gone = null;
  }

  async stream({ status, headers, closes }: Omit<WireAnswer, 'body'>, pieces: Pieces): Promise<void> {
    this.closes = closes;
    this.#response.writeHead(status, { ...headers, ...(closes && { Connection: 'close' }) });
    // It fails only where the client has gone.
    await pipeline(Readable.from(pieces), this.#response).catch(() => undefined);
    this.#gone = null;
  }

  cut(): void {
    this.#request.socket.destroy();
  }

  /**
   * Gives the connection away, for an answer that comes in pieces. From now on, whoever has it writes to the client, and
   * sees it go. The body must have been read.
   */
  handOver(): { readonly request: IncomingMessage; readonly response: ServerResponse } {
    this.#gone = null;
    // The answer may take long, and pause. `node:http` sets the time again for the next request.
    this.#request.socket.setTimeout(0);
    return { request: this.#request, response: this.#response };
  }
}

/** The head of a request from `node:http`. */
export function headOf({ method = '', url = '', rawHeaders }: IncomingMessage) {
  const headers = new Map<HeaderName, string>();
  // Not `headers`, which joins some repeated headers and drops others.
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    addHeader(headers, rawHeaders[at] ?? '', decode(rawHeaders[at + 1] ?? ''));
  return { method, target: url, headers };
}

/** Decodes a header as UTF-8, as uWebSockets.js does. Node decodes headers as Latin-1. */
function decode(value: string): string {
  return /[^\x00-\x7f]/.test(value) ? Buffer.from(value, 'latin1').toString('utf8') : value;
}
