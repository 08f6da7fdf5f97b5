import type { Connections } from './connections.js';

/** The names of the front ends: uWebSockets.js and `node:http`. */
export type FrontEndName = 'uws' | 'node';

/**
 * What the head of a request says. Use it only until the handler returns: uWebSockets.js frees it then.
 * The shape is the part of uWebSockets.js' own request that routes need, so that it is handed on as it is.
 */
export interface HttpRequest {
  /** In lower case. */
  getMethod(): string;
  /** The path as it was sent, without the query. */
  getUrl(): string;
  /** What follows the `?`; empty where nothing does. */
  getQuery(): string;
  /** The first header of this name, which must be in lower case; empty where there is none. */
  getHeader(name: string): string;
  /** Every header in the order sent, repeated ones each time; names in lower case. */
  forEach(visit: (name: string, value: string) => void): void;
}

/** An answer as it goes out. */
export interface WireAnswer {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The request was HEAD: the length is told, the body is not sent. */
  readonly isHead: boolean;
  /** Says `Connection: close`, and closes. */
  readonly closes: boolean;
}

/** Takes a piece of a body, which is gone after the call. The first piece may be empty. */
export type TakePiece = (piece: Buffer, isLast: boolean) => void;

/**
 * The way of one answer to its client. Only `Exchange` uses it, and not after {@link write}, {@link close} or `onAborted`.
 */
export interface Wire {
  /** The address of the client in text; empty over a Unix socket. Ask while the handler runs. */
  remoteAddress(): string;
  /** `gone` is called where the client goes away before {@link write} or {@link close}. Set it before the handler returns. */
  onAborted(gone: () => void): void;
  /**
   * Hands over the body. The first piece comes soon, and is empty where nothing has arrived yet.
   *
   * @param isWanted whether a client that asks first (`Expect: 100-continue`) is told to send
   */
  receive(take: TakePiece, isWanted: boolean): void;
  /** Keeps a connection open that sends slowly; called every few seconds. */
  keepOpen(): void;
  /** Sends the answer to a request that has come whole. */
  write(answer: WireAnswer): void;
  /** Sends the whole answer while the client still sends; pieces come on until {@link close}. Says `Connection: close`. */
  writeEarly(answer: WireAnswer): void;
  /** Closes the connection. */
  close(): void;
}

/** What a front end works with. */
export interface FrontEndOptions {
  /** Called for each request. Must not throw. */
  readonly handle: (wire: Wire, request: HttpRequest) => void;
  /** Counts connections, and says which to turn away. */
  readonly connections: Connections;
  /** Seconds that the body of a request may take. */
  readonly requestTimeoutSecs: number;
}

/** What speaks HTTP. */
export interface FrontEnd {
  /**
   * Listens.
   *
   * @param isShared whether other processes of the same user can listen on the port, too; the kernel then deals new
   *   connections out among all of them
   * @returns the port
   * @throws Error where the address cannot be listened on
   */
  listen(host: string, port: number, isShared: boolean): Promise<number>;
  /** Takes no new connections; those that are open are served on. */
  stopListening(): void;
  /** Closes the port and all connections. */
  close(): void;
}

/** Makes a front end; each of its files exports one. */
export type OpenFrontEnd = (options: FrontEndOptions) => FrontEnd;

/** Most bytes of the headers of a request; more is 431. */
export const MAX_HEADER_BYTES = 64 * 1024;

/** What a front end throws where it cannot listen. */
export function cannotListen(host: string, port: number): Error {
  return new Error(
    `cannot listen on ${host}:${port}: another process has the port, or the address is not this machine's; ` +
      'stop that process, or choose another address (HOST and PORT, METRICS_ADDR)',
  );
}
