import { constants } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import type { Certificate } from './certificate.js';
import { cannotListen, MAX_HEADER_BYTES, type FrontEndOptions, type OpenFrontEnd } from './front-end.js';
import type { ListenAddress } from './listen-address.js';
import { NodeRequest } from './node-request.js';
import { answerFault, refuseConnection, type ParserFault } from './node-refusal.js';
import { NodeWire } from './node-wire.js';
import { removeStaleSocket, withSocketMode } from './unix-socket.js';

// What uWebSockets.js does, too: it has 8 to 12 s.
const IDLE_MS = 10_000;
const CHECK_MS = 2000;
/** uWebSockets.js reads about as many. */
const MAX_HEADERS = 100;
/** Requests of one connection whose answers are not read yet; uWebSockets.js takes one. An answer may be far larger than what asks for it. */
const MAX_PIPELINED = 16;

/** The front end of `node:http`. It runs wherever Node does, and speaks HTTP/1.0, too. */
export const openNode: OpenFrontEnd = (options) => {
  const { certificate } = options;
  const settings = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: IDLE_MS,
    keepAliveTimeout: IDLE_MS,
    connectionsCheckingInterval: CHECK_MS,
    // Bodies have a time of their own, which `Exchange` keeps.
    requestTimeout: 0,
    // The refusal is to be JSON.
    requireHostHeader: false,
    // Whatever NODE_OPTIONS say.
    insecureHTTPParser: false,
  };
  const tlsServer =
    certificate === null
      ? null
      : createTlsServer({ ...settings, ...secureContextOf(certificate), handshakeTimeout: IDLE_MS });
  const server = tlsServer ?? createServer(settings);
  // One more than is allowed is read, so that what is left out does not go unseen.
  server.maxHeadersCount = MAX_HEADERS + 1;
  // A connection on which nothing moves, for example since its client reads no answers.
  server.timeout = options.requestTimeoutSecs * 1000 + IDLE_MS;
  let isUnix = false;
  serve(server, options, () => isUnix);
  return {
    listen: (address) => {
      isUnix = address.kind === 'unix';
      return listen(server, address);
    },
    useCertificate: (next) => tlsServer?.setSecureContext(secureContextOf(next)),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
};

/** As uWebSockets.js does it, whatever NODE_OPTIONS say. */
function secureContextOf({ cert, key }: Certificate): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_RENEGOTIATION };
}

async function listen(server: Server, address: ListenAddress): Promise<number> {
  if (address.kind === 'unix') await removeStaleSocket(address.path);
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', () => reject(cannotListen(address)));
    server.once('listening', resolve);
  });
  if (address.kind === 'unix') {
    const { path } = address;
    withSocketMode(path, address.mode, () => server.listen({ path, exclusive: true }));
    await listening;
    return 0;
  }
  const { host, port } = address;
  server.listen({ host, port, exclusive: true });
  await listening;
  return (server.address() as AddressInfo).port;
}

/** What the parser lets pass. */
function refusalOf({ rawHeaders, headers, httpVersion }: IncomingMessage): [number, string] | null {
  if (rawHeaders.length > 2 * MAX_HEADERS) return [431, `there are more than ${MAX_HEADERS} headers`];
  if (httpVersion === '1.1' && headers.host === undefined) return [400, 'Host is missing, expected one'];
  return null;
}

function serve(
  server: Server,
  { handle, connections, certificate }: FrontEndOptions,
  isUnix: () => boolean,
): void {
  // What is open on each connection: more than one where requests are pipelined.
  const open = new WeakMap<Socket, Set<NodeWire>>();
  // Counted from the start, before anybody has spoken TLS.
  server.on('connection', (socket: Socket) => {
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
    // Whoever ends his side waits for no answer; uWebSockets.js sees it so, too.
    socket.once('end', gone);
    socket.once('close', gone);
  });
  const serveRequest = (request: IncomingMessage, response: ServerResponse, expectsContinue: boolean) => {
    const { socket } = request;
    const wires = open.get(socket);
    // Nothing is taken any more from a connection whose client is gone.
    if (wires === undefined || socket.destroyed) return;
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
    const wire = new NodeWire(request, response, { expectsContinue, isUnix: isUnix() });
    wires.add(wire);
    response.once('close', () => wires.delete(wire));
    handle(wire, new NodeRequest(request));
  };
  server.on('request', (request, response) => serveRequest(request, response, false));
  server.on('checkContinue', (request, response) => serveRequest(request, response, true));
  // Other expectations are left alone, as uWebSockets.js leaves them.
  server.on('checkExpectation', (request, response) => serveRequest(request, response, false));
  server.on('clientError', (fault: ParserFault, socket: Socket) => {
    const wires = open.get(socket);
    const [wire] = wires ?? [];
    if (wires === undefined || wires.size > 1 || wire?.isReceiving === false) {
      // An answer now would be taken for that to a request before.
      socket.destroy();
      return;
    }
    if (wire?.hasAnswered === true) return;
    // Either no request is open, or the fault is in the body of the one that is.
    wire?.abort();
    wires.clear();
    answerFault(fault, socket);
  });
}
