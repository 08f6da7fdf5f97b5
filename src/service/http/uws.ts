import { Buffer } from 'node:buffer';
import { STATUS_CODES } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { addHeader, type HeaderName } from '../../gate/request.js';
import { withFiles, type Certificate } from './listen/certificate.js';
import {
  cannotListen,
  GONE_PEER,
  type ListenAddress,
  type OpenFrontEnd,
  type Pieces,
  type TakePiece,
  type Wire,
  type WireAnswer,
} from './front-end.js';
// Behind the file that sets what its binary reads when it is loaded.
import uWS from 'uWebSockets.js';

/**
 * The front end on uWebSockets.js. Import this file only with `import()`: it loads a binary that is not installed
 * everywhere and does not run everywhere.
 */
export const openUws: OpenFrontEnd = ({ certificate, handle, connections }) => {
  /** The app that listens, with its address; `null` before it listens. */
  let listening: { readonly app: UwsApp; readonly at: ListenAddress } | null = null;
  let socket: uWS.us_listen_socket | null = null;
  /** Apps with an earlier certificate that still have connections. */
  const retired = new Set<UwsApp>();
  const makeApp = (served: Certificate | null): UwsApp => {
    const app = served === null ? uWS.App() : makeSslApp(served);
    const made: UwsApp = { app, open: 0 };
    app.any('/*', (res, req) => handle(new UwsWire(res, req), headOf(req)));
    (app as unknown as UntypedApp).filter((connection, change) => {
      made.open += change;
      if (change < 0) {
        connections.closed();
        if (made.open === 0) retired.delete(made);
      } else if (!connections.opened()) connection.close();
    });
    return made;
  };
  const stopListening = () => {
    if (socket !== null) uWS.us_listen_socket_close(socket);
    socket = null;
  };
  return {
    stopListening,
    // Within a promise, an error rejects.
    listen: (address) =>
      new Promise((resolve) => {
        const app = makeApp(certificate);
        socket = listenOn(app, address);
        const port = uWS.us_socket_local_port(socket);
        const at = typeof address === 'string' ? address : { ...address, port };
        // A change of the certificate binds the port again. uSockets allows that only for a port given by number, so a port
        // that the system chose is closed here and opened by its number.
        if (typeof address !== 'string' && address.port === 0 && certificate !== null) {
          stopListening();
          socket = listenOn(app, at);
        }
        listening = { app, at };
        resolve(port);
      }),
    /**
     * An app cannot change its certificate, so a new app takes over the port. The old socket is closed and the new one
     * opened within one turn of the event loop. Connections that the kernel has accepted, but not the old app, are reset.
     */
    useCertificate(next) {
      if (listening === null || socket === null) return;
      const { app: old, at } = listening;
      const app = makeApp(next);
      stopListening();
      try {
        socket = listenOn(app, at);
      } catch (error) {
        // Nobody can reach the service any more. The error ends the process, so that its supervisor starts a new one.
        setImmediate(() => {
          throw error;
        });
        throw error;
      }
      listening = { app, at };
      if (old.open > 0) retired.add(old);
    },
    close() {
      for (const { app } of retired) app.close();
      listening?.app.app.close();
    },
  };
};

/** The head of a request, copied: uWebSockets.js frees it when the handler returns. */
function headOf(req: uWS.HttpRequest) {
  const headers = new Map<HeaderName, string>();
  // In one pass, which costs as much as five look-ups by name, and also finds repeated headers.
  req.forEach((name, value) => addHeader(headers, name, value));
  const [path, query] = [req.getUrl(), req.getQuery() as string | undefined];
  // Not `getMethod`, which uWebSockets.js turns into lower case.
  return {
    method: req.getCaseSensitiveMethod(),
    target: query === undefined ? path : `${path}?${query}`,
    headers,
  };
}

interface UwsApp {
  readonly app: uWS.TemplatedApp;
  /** Number of open connections. */
  open: number;
}

/** Makes an app that accepts only TLS 1.2 and 1.3, and no renegotiation. */
function makeSslApp(certificate: Certificate): uWS.TemplatedApp {
  try {
    return withFiles(certificate, (certFile, keyFile) =>
      uWS.SSLApp({ cert_file_name: certFile, key_file_name: keyFile }),
    );
  } catch (error) {
    throw new Error(
      `uWebSockets.js cannot serve the certificate in TLS_CERT_FILE (${JSON.stringify(certificate.certFile)}), ` +
        'expected an ECDSA, Ed25519 or RSA certificate with its key; issue another one, or set FRONT_END=node',
      { cause: error },
    );
  }
}

/**
 * Unless an option forbids it, uWebSockets.js sets SO_REUSEPORT: a second process would share the port without an
 * error, and take half the requests. `listen` calls back before it returns.
 *
 * @throws Error if it cannot listen there
 */
function listenOn({ app }: UwsApp, address: ListenAddress): uWS.us_listen_socket {
  let socket: uWS.us_listen_socket | false = false;
  const take: Listening = (listening) => void (socket = listening);
  if (typeof address === 'string') app.listen_unix(take, address);
  else {
    const options = address.isShared ? LIBUS_LISTEN_DEFAULT : LIBUS_LISTEN_EXCLUSIVE_PORT;
    (app as unknown as UntypedApp).listen(address.host, address.port, options, take);
  }
  if (socket === false) throw cannotListen(address);
  return socket;
}

/** uWebSockets.js frees `res` when the client disconnects or the answer is written. Using it then ends the process. */
class UwsWire implements Wire {
  readonly #res: uWS.HttpResponse;
  /** Whether uWebSockets.js closes the connection after the answer, and does not say so: it looks for five letters. */
  readonly #closesSilently: boolean;
  #isGone = false;
  /** Of a piece that the client has not taken yet. */
  #drained: (() => void) | null = null;

  constructor(res: uWS.HttpResponse, req: uWS.HttpRequest) {
    this.#res = res;
    this.#closesSilently = req.getHeader('connection').length === 5;
  }

  remoteAddress(): string {
    const address = Buffer.from(this.#res.getRemoteAddressAsText()).toString('latin1');
    return address === '' ? GONE_PEER : address;
  }

  onAborted(gone: () => void): void {
    this.#res.onAborted(() => {
      this.#isGone = true;
      gone();
      this.#drained?.();
    });
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

  write(answer: WireAnswer): void {
    if (answer.closes || this.#closesSilently) this.#later(() => this.#write({ ...answer, closes: true }));
    else this.#write(answer);
  }

  /**
   * Ends the last answer of a connection in the next turn. uWebSockets.js carries out every request that has come with this
   * one, also after an answer that closes. Where the answer is not there yet, it closes the connection at such a request.
   */
  #later(end: () => void): void {
    setImmediate(() => {
      if (!this.#isGone) end();
    });
  }

  #write({ status, body: text, headers, isHead, closes }: WireAnswer): void {
    const res = this.#res;
    const body = sendable(text);
    res.cork(() => {
      if (status !== 200) res.writeStatus(statusLine(status));
      if (headers?.['Content-Type'] === undefined) res.writeHeader('Content-Type', 'application/json');
      if (headers !== undefined)
        for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value);
      // Where only we close, uWebSockets.js sends that itself. Told of a length at the end, it goes on waiting for the body, and
      // ends the connection when another request comes.
      if (this.#closesSilently) res.writeHeader('Connection', 'close');
      if (isHead && closes && !this.#closesSilently) res.endWithoutBody(body.length, true);
      else if (isHead) res.writeHeader('Content-Length', String(body.length)).endWithoutBody();
      else if (closes || typeof text === 'string') res.end(body, closes);
      else this.#send(text);
    });
  }

  /** Sends a body as the client takes it. `end` would keep a copy of all that it does not take. */
  #send(body: Buffer): void {
    const send = (from: number): boolean => this.#res.tryEnd(body.subarray(from), body.length).includes(true);
    if (!send(0)) this.#res.onWritable(send);
  }

  /** uWebSockets.js cannot close after pieces: it would write the header among them. The client closes, or idle time does. */
  async stream({ status, headers, closes, isHead }: Omit<WireAnswer, 'body'>, pieces: Pieces): Promise<void> {
    const res = this.#res;
    res.cork(() => {
      res.writeStatus(statusLine(status));
      for (const [name, value] of Object.entries(headers ?? {})) res.writeHeader(name, value);
      if (closes || this.#closesSilently) res.writeHeader('Connection', 'close');
    });
    for await (const piece of pieces) {
      if (this.#isGone) return;
      const sent = { isTaken: false };
      res.cork(() => void (sent.isTaken = res.write(sendable(piece))));
      if (sent.isTaken) continue;
      await new Promise<void>((resolve) => {
        this.#drained = resolve;
        res.onWritable(() => {
          resolve();
          return true;
        });
      });
    }
    // As in `#later`; and it is over, and gives back what it holds, only when it has ended.
    await nextTurn();
    if (!this.#isGone) res.cork(() => void (isHead ? res.endWithoutBody() : res.end()));
  }

  cut(): void {
    this.#res.close();
  }
}

/**
 * What uWebSockets.js is given to send. Its binary for Node 24 sends a string that V8 keeps in one byte a character as
 * Latin-1, and all others as UTF-8. Of ASCII, which header values are, too, both are the same.
 */
function sendable(text: string | Buffer): string | Buffer {
  return typeof text !== 'string' || Buffer.byteLength(text) === text.length ? text : Buffer.from(text);
}

function statusLine(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;
}

type Listening = (socket: uWS.us_listen_socket | false) => void;

/** What the published types lack: the filter, and `listen` with both host and options. */
interface UntypedApp {
  /**
   * @param onChange called with 1 for a new connection, and with -1 when one ends. Then the connection has no address any
   *   more, and nothing else tells which one it was
   */
  filter(onChange: (connection: Pick<uWS.HttpResponse, 'close'>, change: number) => void): void;
  listen(host: string, port: number, options: number, listening: Listening): void;
}
const { LIBUS_LISTEN_EXCLUSIVE_PORT } = uWS as unknown as { LIBUS_LISTEN_EXCLUSIVE_PORT: number };
const LIBUS_LISTEN_DEFAULT = 0;
