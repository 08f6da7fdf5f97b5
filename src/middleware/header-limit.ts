import type { Server } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * A header limit in bytes that is enough for a bundle of 16 receipts with large policies. By default, Node.js accepts
 * 16 KiB of headers, which is enough for about 12 receipts.
 *
 * @example createServer({ maxHeaderSize: BUNDLE_HEADER_ROOM }, app);
 */
export const BUNDLE_HEADER_ROOM = 64 * 1024;

const ANSWER = JSON.stringify({
  error: {
    code: 'HEADERS_TOO_LARGE',
    message: 'the request headers are larger than this server takes',
    suggestion:
      'Delegate over fewer levels, or have the operator raise maxHeaderSize (node --max-http-header-size).',
  },
});

/**
 * Makes a server say why it refuses a request whose headers are too large. By default, Node.js answers with an empty
 * 431 before any middleware runs.
 *
 * @returns the server
 * @example explainHeaderLimit(createServer({ maxHeaderSize: BUNDLE_HEADER_ROOM }, app)).listen(3000);
 */
export function explainHeaderLimit<S extends Server>(server: S): S {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
    } else if (error.code === 'HPE_HEADER_OVERFLOW') {
      socket.end(
        `HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${ANSWER.length}\r\n\r\n${ANSWER}`,
      );
    } else {
      const status = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? '408 Request Timeout' : '400 Bad Request';
      socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    }
  });
  return server;
}
