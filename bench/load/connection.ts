import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const HEADER_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);

// All connections of a thread read into the same memory. Otherwise each read allocates 64 KiB, and the garbage
// collections that follow show in the latencies.
const READ = Buffer.alloc(64 * 1024);

/** The bytes of a `POST`. @param bundle the header `X-DRS-Bundle` */
export function toRequest(body: string, path = '/verify', bundle?: string): Buffer {
  const bytes = Buffer.from(body);
  const head =
    `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n` +
    (bundle === undefined ? '' : `X-DRS-Bundle: ${bundle}\r\n`) +
    `Content-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
}

/** Receives the outcome of each request. `about` is the value that was passed to {@link Connection.send}. */
export interface Answers<About> {
  answered(about: About, status: number, body: string, connection: Connection<About>, head: string): void;
  /** The connection can no longer be used. */
  broken(about: About | null, reason: string): void;
}

/** An HTTP/1.1 connection for one request at a time. It does as little as possible between socket and clock. */
export class Connection<About> {
  readonly #socket: Socket;
  readonly #answers: Answers<About>;
  #about: About | null = null;
  #gathered: Buffer = NOTHING;
  #isClosed = false;

  private constructor(port: number, answers: Answers<About>) {
    this.#answers = answers;
    this.#socket = connect({
      ...{ port, host: '127.0.0.1', noDelay: true },
      onread: {
        buffer: READ,
        callback: (length) => {
          this.#read(READ.subarray(0, length));
          return true;
        },
      },
    });
  }

  /** @throws Error if the port does not answer */
  static async open<About>(port: number, answers: Answers<About>): Promise<Connection<About>> {
    const connection = new Connection(port, answers);
    await once(connection.#socket, 'connect');
    connection.#watch();
    return connection;
  }

  #watch(): void {
    const onBroken = (reason: string) => {
      if (this.#isClosed) return;
      this.close();
      this.#answers.broken(this.#about, reason);
    };
    this.#socket.on('error', (error) => onBroken(error.message));
    this.#socket.on('end', () => onBroken('the service closed the connection'));
  }

  send(request: Buffer, about: About): void {
    this.#about = about;
    this.#socket.write(request);
  }

  /** Closes the connection. No callback is called any more. */
  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    if (this.#isClosed) return;
    this.#gathered = this.#gathered.length === 0 ? chunk : Buffer.concat([this.#gathered, chunk]);
    const headerEnd = this.#gathered.indexOf(HEADER_END);
    if (headerEnd < 0) {
      this.#keep();
      return;
    }
    const head = this.#gathered.toString('latin1', 0, headerEnd);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? Number.NaN);
    const bodyAt = headerEnd + HEADER_END.length;
    if (this.#gathered.length < bodyAt + length) {
      this.#keep();
      return;
    }
    const body = this.#gathered.toString('utf8', bodyAt, bodyAt + length);
    const about = this.#about;
    this.#gathered = NOTHING;
    this.#about = null;
    if (about !== null) this.#answers.answered(about, Number(head.slice(9, 12)), body, this, head);
  }

  /** Keeps the part of an answer that was read, until the rest comes. */
  #keep(): void {
    this.#gathered = Buffer.from(this.#gathered);
  }
}
