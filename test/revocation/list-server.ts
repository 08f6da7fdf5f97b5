import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A real HTTP server that answers as a test says. */
export class ListServer {
  /** Answers the requests that come from now on. */
  respond: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => {
    response.writeHead(500).end();
  };
  readonly requests: IncomingMessage[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.requests.push(request);
      this.#server.emit('asked');
      this.respond(request, response);
    });
  }

  static async start(): Promise<ListServer> {
    const server = new ListServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/list`;
  }

  /** Resolves when the next request arrives. */
  async asked(): Promise<void> {
    await once(this.#server, 'asked');
  }

  /** Answers 200 with a body; with an `etag`, 304 to whoever has it. */
  serve(contentType: string, body: string | Buffer, etag?: string): void {
    this.respond = (request, response) => {
      if (etag !== undefined && request.headers['if-none-match'] === etag) {
        response.writeHead(304, { etag }).end();
        return;
      }
      response.writeHead(200, { 'content-type': contentType, ...(etag ? { etag } : {}) }).end(body);
    };
  }

  /** Breaks every connection without an answer. */
  reset(): void {
    this.respond = (request) => {
      request.socket.resetAndDestroy();
    };
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
