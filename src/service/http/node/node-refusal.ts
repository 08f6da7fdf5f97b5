import { Buffer } from 'node:buffer';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { MAX_HEADER_BYTES } from '../front-end.js';

// What the client still sends is read and discarded for a while, so that the client can read the answer.
const MAX_DISCARDED_BYTES = 1024 * 1024;
const MAX_DISCARDING_MS = 2000;

/** The error of Node's parser for bytes that are not an HTTP request. */
export interface ParserFault extends Error {
  readonly code?: string;
  /** The parser's own message. */
  readonly reason?: string;
}

/** For each refused connection, the number of bytes read at the time of the refusal. */
const refusedAt = new WeakMap<Socket, number>();

/** Answers bytes that are not an HTTP request, and closes the connection. Called again if more bytes follow. */
export function answerFault(fault: ParserFault, socket: Socket): void {
  const since = refusedAt.get(socket);
  if (since !== undefined) {
    if (socket.bytesRead - since > MAX_DISCARDED_BYTES) socket.destroy();
  } else if (!socket.writable || socket.bytesRead === 0) {
    // Opened in advance and never used. An answer could be mistaken for the answer to a later request.
    socket.destroy();
  } else refuseConnection(socket, ...describe(fault));
}

/** Writes `{ "error": … }` directly to the socket, without `node:http`, and closes the connection. */
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

/** Returns status and message. For a code that is not listed, the message is the parser's. */
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
