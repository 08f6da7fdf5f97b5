import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Line, Underway } from './open-loop-core.js';

const HEADER_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);

// All connections of a thread read into the same memory. Otherwise each read allocates 64 KiB, and the garbage
// collections that follow show in the latencies.
const READ = Buffer.alloc(64 * 1024);

/** The bytes of a `POST`. @param bundle the header `X-DRS-Bundle` @param authority the header `Host` */
export function toRequest(body: string, path = '/verify', bundle = '', authority = '127.0.0.1'): Buffer {
  const bytes = Buffer.from(body);
  const head =
    `POST ${path} HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/json\r\n` +
    (bundle === '' ? '' : `X-DRS-Bundle: ${bundle}\r\n`) +
    `Content-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
}

export interface Answers {
  answered(underway: Underway, status: number, body: string, head: string): void;
  broken(underway: Underway | null, reason: string): void;
}

/** An HTTP/1.1 connection for one request at a time. It does as little as possible between socket and clock. */
export class Connection implements Line {
  readonly #socket: Socket;
  /** Gets what comes of the requests; each job of the generator sets its own. */
  answers: Answers;
  #underway: Underway | null = null;
  #gathered: Buffer = NOTHING;
  #isClosed = false;

  private constructor(port: number, answers: Answers, host: string) {
    this.answers = answers;
    this.#socket = connect({
      ...{ port, host, noDelay: true },
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
  static async open(port: number, answers: Answers, host = '127.0.0.1'): Promise<Connection> {
    const connection = new Connection(port, answers, host);
    await once(connection.#socket, 'connect');
    connection.#socket.on('error', (error) => connection.#broke(error.message));
    connection.#socket.on('end', () => connection.#broke('the service closed the connection'));
    return connection;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  send(request: Buffer, underway: Underway): void {
    this.#underway = underway;
    this.#socket.write(request);
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  #broke(reason: string): void {
    if (this.#isClosed) return;
    this.close();
    this.answers.broken(this.#underway, reason);
  }

  #read(chunk: Buffer): void {
    if (this.#isClosed) return;
    this.#gathered = this.#gathered.length === 0 ? chunk : Buffer.concat([this.#gathered, chunk]);
    const bodyAt = this.#gathered.indexOf(HEADER_END) + HEADER_END.length;
    const head = this.#gathered.toString('latin1', 0, bodyAt - HEADER_END.length);
    const body = bodyAt < HEADER_END.length ? null : bodyOf(head, this.#gathered.subarray(bodyAt));
    if (body === null) {
      // Kept until the rest comes; READ is overwritten meanwhile.
      this.#gathered = Buffer.from(this.#gathered);
      return;
    }
    const underway = this.#underway;
    this.#gathered = NOTHING;
    this.#underway = null;
    if (underway !== null) this.answers.answered(underway, Number(head.slice(9, 12)), body, head);
  }
}

/** The body of an answer; `null` if not all of it has come. */
function bodyOf(head: string, bytes: Buffer): string | null {
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined)
    return bytes.length < Number(length) ? null : bytes.toString('utf8', 0, Number(length));
  return /\r\ntransfer-encoding: *chunked/i.test(head) ? joinChunks(bytes) : '';
}

/** A body in chunks (RFC 9112 §7.1), as services of others send it. */
function joinChunks(bytes: Buffer): string | null {
  const chunks: Buffer[] = [];
  for (let at = 0; ;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return null;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    // Behind the last chunk, trailers may follow, and an empty line.
    if (size === 0)
      return bytes.includes(HEADER_END, lineEnd) ? Buffer.concat(chunks).toString('utf8') : null;
    at = lineEnd + 2 + size + 2;
    if (!(at <= bytes.length)) return null;
    chunks.push(bytes.subarray(lineEnd + 2, at - 2));
  }
}
