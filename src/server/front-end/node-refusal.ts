import { Buffer } from 'node:buffer';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { MAX_HEADER_BYTES } from './front-end.js';

// As for bodies: what a client still sends is read for a while, so that it gets to read the answer.
const MAX_DISCARDED_BYTES = 1024 * 1024;
const MAX_DISCARDING_MS = 2000;

/** What the parser of Node says about bytes that are no request. */
export interface ParserFault extends Error {
  readonly code?: string;
  /** In the parser's words. */
  readonly reason?: string;
}

/** Bytes read by the time of the refusal, of connections that were refused. */
const refusedAt = new WeakMap<Socket, number>();

/** Answers bytes that are no request, and closes the connection. It is called again for what is sent behind them. */
export function answerFault(fault: ParserFault, socket: Socket): void {
  const since = refusedAt.get(socket);
  if (since !== undefined) {
    if (socket.bytesRead - since > MAX_DISCARDED_BYTES) socket.destroy();
  } else if (!socket.writable || socket.bytesRead === 0) {
    // Opened ahead and never used: an answer could be taken for that to a later request.
    socket.destroy();
  } else refuseConnection(socket, ...describe(fault));
}

/** Answers `{ "error": … }` past `node:http`, and closes the connection. */
export function refuseConnection(socket: Socket, status: number, error: string): void {
  refusedAt.set(socket, socket.bytesRead);
  const body = JSON.stringify({ error });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  const timer = setTimeout(() => socket.destroy(), MAX_DISCARDING_MS);
  socket.once('close', () => clearTimeout(timer));
}

/** Status and message; the parser's own message for what is not listed. */
function describe({ code, reason, message }: ParserFault): [number, string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return [431, `the headers are larger than ${MAX_HEADER_BYTES} bytes`];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'the headers did not arrive in time'];
    case 'HPE_INVALID_VERSION':
    case 'HPE_PAUSED_H2_UPGRADE':
      return [505, 'the version is not supported, expected HTTP/1.1 or HTTP/1.0'];
    case 'HPE_UNEXPECTED_CONTENT_LENGTH':
      return [
        400,
        'Content-Length comes more than once, or together with Transfer-Encoding; expected one of them',
      ];
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return [
        400,
        'Transfer-Encoding is not "chunked", comes more than once, or together with Content-Length',
      ];
    default:
      return [400, `the request is not HTTP/1.1: ${reason ?? message}`];
  }
}
