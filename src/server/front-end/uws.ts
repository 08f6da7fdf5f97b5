import { Buffer } from 'node:buffer';
import { STATUS_CODES } from 'node:http';
import './uws-settings.js';
import uWS from 'uWebSockets.js';
import { cannotListen, type OpenFrontEnd, type TakePiece, type Wire, type WireAnswer } from './front-end.js';

/**
 * The front end on uWebSockets.js. Import this file only with `import()`: it loads a binary that is not installed
 * everywhere and does not run everywhere.
 */
export const openUws: OpenFrontEnd = ({ handle, connections }) => {
  const app = uWS.App().any('/*', (res, req) => handle(new UwsWire(res), req));
  (app as unknown as FilteredApp).filter((connection, change) => {
    if (change < 0) connections.closed();
    else if (!connections.opened()) connection.close();
  });
  let listening: uWS.us_listen_socket | null = null;
  return {
    listen: (host, port, isShared) =>
      new Promise((resolve, reject) => {
        // Unless it is told otherwise, uWebSockets.js sets SO_REUSEPORT: a second process would share the port without an
        // error, and take half the requests.
        const options = isShared ? LIBUS_LISTEN_DEFAULT : LIBUS_LISTEN_EXCLUSIVE_PORT;
        (app as unknown as ListenWithOptions).listen(host, port, options, (socket) => {
          if (socket === false) {
            reject(cannotListen(host, port));
            return;
          }
          listening = socket;
          resolve(uWS.us_socket_local_port(socket));
        });
      }),
    stopListening: () => {
      if (listening !== null) uWS.us_listen_socket_close(listening);
      listening = null;
    },
    close: () => void app.close(),
  };
};

/** uWebSockets.js frees `res` when the client disconnects or the answer is written. Using it then ends the process. */
class UwsWire implements Wire {
  readonly #res: uWS.HttpResponse;

  constructor(res: uWS.HttpResponse) {
    this.#res = res;
  }

  remoteAddress(): string {
    return Buffer.from(this.#res.getRemoteAddressAsText()).toString('latin1');
  }

  onAborted(gone: () => void): void {
    this.#res.onAborted(gone);
  }

  receive(take: TakePiece): void {
    this.#res.onData((piece, isLast) => take(Buffer.from(piece), isLast));
  }

  /**
   * uWebSockets.js closes connections that send less than 16 KB/s for ten seconds. Pause and resume restart that
   * timer.
   */
  keepOpen(): void {
    this.#res.pause();
    this.#res.resume();
  }

  write({ status, body, headers, isHead, closes }: WireAnswer): void {
    const res = this.#res;
    res.cork(() => {
      if (status !== 200) res.writeStatus(statusLine(status));
      if (headers?.['Content-Type'] === undefined) res.writeHeader('Content-Type', 'application/json');
      if (headers !== undefined)
        for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value);
      // uWebSockets.js sends `Connection: close` itself.
      if (isHead) res.endWithoutBody(Buffer.byteLength(body), closes);
      else res.end(body, closes);
    });
  }

  /**
   * uWebSockets.js has no half-closed state. A response that has ended cannot be closed later, and closing it at once
   * resets the connection before the client has read the answer. So the whole answer is sent as the status line,
   * which leaves the response open. uWebSockets.js appends a line break, which `Content-Length` counts as the end of
   * the body.
   */
  writeEarly({ status, body, headers, isHead }: WireAnswer): void {
    const lines = [statusLine(status)];
    if (headers?.['Content-Type'] === undefined) lines.push('Content-Type: application/json');
    for (const [name, value] of Object.entries(headers ?? {})) lines.push(`${name}: ${value}`);
    lines.push('Connection: close', `Content-Length: ${Buffer.byteLength(body) + 2}`);
    this.#res.cork(() => this.#res.writeStatus(`${lines.join('\r\n')}\r\n\r\n${isHead ? '' : body}`));
  }

  close(): void {
    this.#res.close();
  }
}

function statusLine(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;
}

// Missing in the published types: the filter, `listen` with both host and options, and the constant.
interface FilteredApp {
  /** @param onChange called with 1 for a new connection, and with -1 when one ends */
  filter(onChange: (connection: { close(): void }, change: number) => void): void;
}
interface ListenWithOptions {
  listen(
    host: string,
    port: number,
    options: number,
    callback: (socket: uWS.us_listen_socket | false) => void,
  ): void;
}
const { LIBUS_LISTEN_EXCLUSIVE_PORT } = uWS as unknown as { LIBUS_LISTEN_EXCLUSIVE_PORT: number };
const LIBUS_LISTEN_DEFAULT = 0;
