import {
  type IncomingMessage,
  STATUS_CODES,
  type Server,
  type ServerResponse,
  createServer,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { secureContextOf } from '../listen/certificate.js';
import {
  type FrontEndOptions,
  type ListenAddress,
  MAX_BACKLOG,
  MAX_HEADERS,
  MAX_HEADER_BYTES,
  type OpenFrontEnd,
  cannotListen,
} from '../front-end.js';
import { headOf, NodeWire } from './node-wire.js';
import { Buffer } from 'node:buffer';

// Like uWebSockets.js, which closes idle connections after 8 to 12 s.
const IDLE_MS = 10_000;
const CHECK_MS = 2000;
/**
 * Maximum number of unanswered requests of one connection; uWebSockets.js allows one. Bounds memory, since an answer
 * can be far larger than its request.
 */
const MAX_PIPELINED = 16;

const [MAJOR = 0, MINOR = 0] = process.versions.node.split('.').map(Number);
/** `node:http` supports `reusePort` from these versions on. Older ones ignore it silently. */
const CAN_SHARE = MAJOR > 23 || (MAJOR === 23 && MINOR >= 1) || (MAJOR === 22 && MINOR >= 12);
const CANNOT_SHARE =
  `SHARE_PORT is set, and node:http cannot share a port with Node ${process.versions.node}: ` +
  'use uWebSockets.js (FRONT_END=uws), or Node 22.12 or newer (not 23.0), or unset SHARE_PORT';

/** The front end on `node:http`. It runs wherever Node runs, and also speaks HTTP/1.0. */
export const openNode: OpenFrontEnd = (options) => {
  const { certificate } = options;
  const settings = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: IDLE_MS,
    keepAliveTimeout: IDLE_MS,
    connectionsCheckingInterval: CHECK_MS,
    // Off: `Exchange` limits the time for bodies.
    requestTimeout: 0,
    // Off: `refusalOf` checks it, so that the answer is JSON.
    requireHostHeader: false,
    // Overrides NODE_OPTIONS.
    insecureHTTPParser: false,
  };
  const tlsServer =
    certificate === null
      ? null
      : createTlsServer({ ...settings, ...secureContextOf(certificate), handshakeTimeout: IDLE_MS });
  const server = tlsServer ?? createServer(settings);
  // One more than allowed, so that too many headers are detected instead of silently dropped.
  server.maxHeadersCount = MAX_HEADERS + 1;
  // Closes connections without any traffic, for example if the client does not read its answers.
  server.timeout = options.requestTimeoutSecs * 1000 + IDLE_MS;
  serve(server, options);
  return {
    listen: (address) => listen(server, address),
    // The method of `http.Server` would also close connections that wait for their next request.
    stopListening: () => void NetServer.prototype.close.call(server),
    useCertificate: (next) => tlsServer?.setSecureContext(secureContextOf(next)),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
};

async function listen(server: Server, address: ListenAddress): Promise<number> {
  const isTcp = typeof address !== 'string';
  if (isTcp && address.isShared && !CAN_SHARE) throw new Error(CANNOT_SHARE);
  await new Promise<void>((resolve, reject) => {
    server.once('error', () => reject(cannotListen(address)));
    // @types/node 20 does not know `reusePort`.
    const at = isTcp ? { ...address, reusePort: address.isShared } : { path: address };
    server.listen({ ...at, exclusive: true, backlog: MAX_BACKLOG }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

const HEADER_NAME = /^[\dA-Za-z-]+$/;

/** Refuses requests that Node's parser accepts, but uWebSockets.js or RFC 9112 does not. */
function refusalOf({ rawHeaders, headers, httpVersion }: IncomingMessage): Refusal | null {
  if (rawHeaders.length > 2 * MAX_HEADERS) return [431, `there are more than ${MAX_HEADERS} headers`];
  if (httpVersion === '1.1' && headers.host === undefined) return [400, 'Host is missing, expected one'];
  // Servers in the manner of CGI take `_` for `-`, and SCRIPT_NAME for a part of the path. What a gate has read under one
  // name could be another header behind the proxy.
  const odd = rawHeaders.find((name, at) => at % 2 === 0 && !HEADER_NAME.test(name));
  if (odd !== undefined)
    return [
      400,
      `the header name ${JSON.stringify(odd.slice(0, 40))} has other characters than letters, digits and hyphens`,
    ];
  // A proxy that only knows HTTP/1.0 has not seen where such a body ends.
  if (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined)
    return [400, 'Transfer-Encoding in HTTP/1.0, expected Content-Length'];
  return null;
}

function serve(server: Server, { handle, isRefusing, connections, certificate }: FrontEndOptions): void {
  // The open requests of each connection: several if the client pipelines.
  const open = new WeakMap<Socket, Set<NodeWire>>();
  /** Connections with a request that was begun. */
  const begun = new WeakSet<Socket>();
  // Connections are counted before their TLS handshake.
  server.on('connection', (socket: Socket) => {
    // Node remembers it. Afterwards, nothing tells who has gone.
    void socket.remoteAddress;
    socket.once('close', () => connections.closed());
    if (!connections.opened()) socket.destroy();
  });
  server.on(certificate === null ? 'connection' : 'secureConnection', (socket: Socket) => {
    const wires = new Set<NodeWire>();
    open.set(socket, wires);
    const gone = () => {
      for (const wire of wires) wire.abort();
      wires.clear();
    };
    // A client that ends its side waits for no answer. uWebSockets.js does the same. Node itself would keep the connection
    // if an early answer was sent while the body was coming.
    socket.once('end', () => {
      gone();
      socket.destroySoon();
    });
    socket.once('close', gone);
  });
  const serveRequest = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    const wires = open.get(socket);
    // The client has disconnected, or had the last answer of the connection: ignore its remaining requests. RFC 9112 §9.6
    const isOver = () => !socket.writable || [...(wires ?? [])].some(({ closes }) => closes);
    if (wires === undefined || isOver()) return;
    const refusal = refusalOf(request);
    if (wires.size >= MAX_PIPELINED || (refusal !== null && wires.size > 0)) {
      socket.destroy();
      return;
    }
    if (refusal !== null) {
      request.resume();
      refuseConnection(socket, ...refusal);
      return;
    }
    const wire = new NodeWire(request, response);
    wires.add(wire);
    response.once('close', () => wires.delete(wire));
    const begin = () => {
      begun.add(socket);
      if (!wire.isGone && isOver()) return;
      handle(wire, headOf(request));
    };
    // Node accepts one connection a turn. If more come, they wait in the kernel, and what is read first may be of a client
    // that has given up: whether it has is read in the next turn. A refusal must come before that.
    if (begun.has(socket) || isRefusing()) begin();
    else setImmediate(() => setImmediate(begin));
  };
  server.on('request', serveRequest);
  // Other expectations than `100-continue` are ignored, as uWebSockets.js ignores them.
  server.on('checkExpectation', serveRequest);
  server.on('clientError', (fault: ParserFault, socket: Socket) => {
    // Behind a request with `Connection: close`. Its answer comes, and ends the connection.
    if (fault.code === 'HPE_CLOSED_CONNECTION') return;
    // It was refused before: what it still sends is discarded.
    if (socket.writableEnded) return;
    const wires = open.get(socket);
    const [wire] = wires ?? [];
    // An answer now could be mistaken for that to an earlier request, or to a later one where the connection was opened in advance.
    if (wires === undefined || wires.size > 1 || wire?.isReceiving === false || socket.bytesRead === 0) {
      socket.destroy();
      return;
    }
    // Either no request is open, or the fault is in the framing or the body of the one that is.
    wire?.abort();
    wires.clear();
    const status = STATUS_OF[fault.code ?? ''] ?? 400;
    refuseConnection(socket, status, `the request is not HTTP/1.1: ${fault.reason ?? fault.message}`);
  });
}

/** The error of Node's parser for bytes that are not an HTTP request. `reason`: the parser's own message. */
type ParserFault = Error & { readonly code?: string; readonly reason?: string };

const STATUS_OF: Partial<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

type Refusal = readonly [status: number, error: string];

/** For so long is what the client still sends read and discarded, so that it can read the answer. */
const MAX_DISCARDING_MS = 2000;

/** Writes `{ "error": … }` directly to the socket, without `node:http`, and closes the connection. */
function refuseConnection(socket: Socket, status: number, error: string): void {
  const body = JSON.stringify({ error });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  const timer = setTimeout(() => socket.destroy(), MAX_DISCARDING_MS);
  socket.once('close', () => clearTimeout(timer));
}
