import type { Buffer } from 'node:buffer';
import type { Certificate } from './listen/certificate.js';
import type { RequestHead } from '../../gate/request.js';
import type { Connections } from '../load/connections.js';

/** The names of the front ends: uWebSockets.js and `node:http`. */
export type FrontEndName = 'uws' | 'node';

/** The head of a request. */
export interface SentHead extends RequestHead {
  readonly target: string;
}

/** An answer to send. */
export interface WireAnswer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Whether the request was HEAD: then the length is sent, but not the body. */
  readonly isHead: boolean;
  /** Sends `Connection: close`, carries out no further request of the connection, and closes it. RFC 9112 §9.6 */
  readonly closes: boolean;
}

/** The pieces of an answer. */
export type Pieces = Iterable<string> | AsyncIterable<string>;

/** Receives a piece of a body, which is only valid during the call. The first piece may be empty. */
export type TakePiece = (piece: Buffer, isLast: boolean) => void;

/**
 * The connection to the client for one answer. Only `Exchange` uses it, and never after {@link write}, {@link cut} or `onAborted`.
 */
export interface Wire {
  /** The address of the peer in text. Ask while the handler runs. */
  remoteAddress(): string;
  /**
   * Sets a callback for a disconnect before {@link write}, with the address of the peer where that is still known. Call it before the
   * handler returns.
   */
  onAborted(gone: (peer?: string) => void): void;
  /** Starts to receive the body. The first piece comes soon, and is empty if nothing has arrived yet. */
  receive(take: TakePiece): void;
  /** Keeps a slow connection open. Called every few seconds. */
  keepOpen(): void;
  /** Sends the answer to a request whose body has arrived completely, or an answer that closes. */
  write(answer: WireAnswer): void;
  /**
   * Sends an answer of unknown length, each piece when the client has taken the one before.
   *
   * @returns settled when the client has taken all, or has disconnected
   */
  stream(answer: Omit<WireAnswer, 'body'>, pieces: Pieces): Promise<void>;
  /** Closes the connection at once, during {@link stream}. */
  cut(): void;
}

/** Where a front end listens: on a port, or on the Unix socket with this path. */
export type ListenAddress = TcpAddress | string;

/** A port to listen on. */
interface TcpAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Other processes of the same user can listen on the port too. The kernel then distributes new connections among them. */
  readonly isShared: boolean;
}

/** An address as it is printed: `127.0.0.1:8080`, `[::1]:8080`, `unix:/run/drs/verify.sock`. */
export function showAddress(address: Pick<TcpAddress, 'host' | 'port'> | string): string {
  if (typeof address === 'string') return `unix:${address}`;
  const { host, port } = address;
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** What a front end needs. */
export interface FrontEndOptions {
  /** Called for each request. Must not throw. */
  readonly handle: (wire: Wire, head: SentHead) => void;
  /** Whether requests may have to be refused as they come. */
  readonly isRefusing: () => boolean;
  /** Counts connections and limits them. */
  readonly connections: Connections;
  /** Seconds within which the body of a request must arrive. */
  readonly requestTimeoutSecs: number;
  /** The certificate for TCP, with TLS 1.2 or newer; `null` for HTTP without TLS. */
  readonly certificate: Certificate | null;
}

/** An HTTP server. */
export interface FrontEnd {
  /**
   * Listens on an address. Call it once.
   *
   * @returns the port, unless it is a Unix socket
   * @throws Error if it cannot listen on the address
   */
  listen(address: ListenAddress): Promise<number>;
  /** Accepts no new connections. Open ones are still served. */
  stopListening(): void;
  /**
   * Serves another certificate to new connections; open ones keep theirs. Has no effect without TLS.
   *
   * @throws Error if it cannot be served; the old one stays
   */
  useCertificate(certificate: Certificate): void;
  /** Closes the port and all connections. */
  close(): void;
}

/** Makes a front end. Each front end's file exports such a function. */
export type OpenFrontEnd = (options: FrontEndOptions) => FrontEnd;

/** Maximum size of a request's headers in bytes; larger ones get a 431. */
export const MAX_HEADER_BYTES = 64 * 1024;

// uWebSockets.js reads this from the environment once, when its binary is loaded. Else it accepts headers of any length in one
// packet, but only 4 KiB in several.
process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= String(MAX_HEADER_BYTES);

/** Maximum number of a request's headers; uWebSockets.js accepts about as many. */
export const MAX_HEADERS = 100;

/** Connections that the kernel keeps until they are accepted. It keeps at most `net.core.somaxconn`, whatever this says. */
export const MAX_BACKLOG = 65_535;

/** The {@link Wire.remoteAddress} of a connection that is already closed. */
export const GONE_PEER = 'unknown';

const LOW_PORTS = 1024;

/** The error of a front end that cannot listen. @param variables that give the address */
export function cannotListen(address: ListenAddress, variables = 'HOST and PORT, METRICS_ADDR'): Error {
  if (typeof address === 'string')
    return new Error(
      `cannot listen on ${showAddress(address)}: its folder does not exist, or this process may not write to it; ` +
        'create it for the user of the service, or choose another path (LISTEN)',
    );
  const isLow = address.port > 0 && address.port < LOW_PORTS;
  const who = isLow
    ? `, or this user may not listen there (ports below ${LOW_PORTS} are for root, or for whoever has CAP_NET_BIND_SERVICE)`
    : '';
  return new Error(
    `cannot listen on ${showAddress(address)}: another process has the port, or the address is not this machine's${who}; ` +
      `stop that process, or choose another address (${variables})`,
  );
}
