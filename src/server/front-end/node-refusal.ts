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

/** Answers bytes that are no request, with JSON, and closes the connection. Comes again for what is sent behind them. */
export function answerFault(fault: ParserFault, socket: Socket): void {
  const since = refusedAt.get(socket);
  if (since !== undefined) {
    if (socket.bytesRead - since > MAX_DISCARDED_BYTES) socket.destroy();
    return;
  }
  // A connection that was opened ahead and never used: an answer could be taken for that to a later request.
  if (!socket.writable || socket.bytesRead === 0) {
    socket.destroy();
    return;
  }
  refusedAt.set(socket, socket.bytesRead);
  const [status, error] = describe(fault);
  const body = JSON.stringify({ error });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  const timer = setTimeout(() => socket.destroy(), MAX_DISCARDING_MS);
  socket.once('close', () => clearTimeout(timer));
}

function describe({ code, reason, message }: ParserFault): [number, string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return [431, `the headers are larger than ${MAX_HEADER_BYTES} bytes`];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'the headers did not arrive in time'];
    case 'HPE_INVALID_VERSION':
      return [505, 'the version is not supported, expected HTTP/1.1 or HTTP/1.0'];
    case 'HPE_UNEXPECTED_CONTENT_LENGTH':
      return [400, 'Content-Length comes more than once, or together with Transfer-Encoding; expected one'];
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return [400, 'Transfer-Encoding is not "chunked", or comes more than once; expected "chunked", once'];
    default:
      return [400, `the request is not HTTP/1.1: ${reason ?? message}`];
  }
}
