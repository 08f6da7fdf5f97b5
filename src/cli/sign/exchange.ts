import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';

/** How long to wait for a connection. */
const CONNECT_MS = 10_000;
// Servers close idle connections after some seconds, 5 with Node: one that is older is not used again.
const AGENT_OPTIONS = { keepAlive: true, timeout: 4000, maxFreeSockets: 16 };

/** One HTTP request. */
export interface Outgoing {
  readonly method: string;
  /** Names and values by turns, or by name. */
  readonly headers: OutgoingHttpHeaders | readonly string[];
  readonly body?: string | Buffer | undefined;
  /** Ends the request and its answer. */
  readonly signal?: AbortSignal | undefined;
}

/** Sends HTTP requests to one server. Follows no redirect, and waits for an answer as long as it takes. */
export class HttpTarget {
  readonly url: URL;
  readonly #send: typeof http.request;
  readonly #agent: http.Agent;

  constructor(url: URL) {
    this.url = url;
    const isSecure = url.protocol === 'https:';
    this.#send = isSecure ? https.request : http.request;
    this.#agent = isSecure ? new https.Agent(AGENT_OPTIONS) : new http.Agent(AGENT_OPTIONS);
  }

  /**
   * @param path with its query; default: that of the URL
   * @returns the answer, when its headers have come
   * @throws Error that says why there is none
   */
  exchange({ method, headers, body, signal }: Outgoing, path?: string): Promise<IncomingMessage> {
    const url = path === undefined ? this.url : new URL(path, this.url.origin);
    return new Promise((resolve, reject) => {
      const request = this.#send(url, {
        method,
        headers,
        agent: this.#agent,
        ...(signal === undefined ? {} : { signal }),
      });
      const late = setTimeout(
        () => request.destroy(new Error(`no connection within ${CONNECT_MS / 1000} seconds`)),
        CONNECT_MS,
      );
      const connected = () => clearTimeout(late);
      request
        .on('socket', (socket) => {
          if (socket.connecting)
            socket.once(this.url.protocol === 'https:' ? 'secureConnect' : 'connect', connected);
          else connected();
        })
        .on('response', (response) => {
          // Who reads it learns of a broken connection; an answer that nobody reads any more must not end the process.
          response.on('error', () => undefined);
          resolve(response);
        })
        .on('error', (error) => {
          connected();
          reject(new Error(`cannot reach ${this.url.origin}: ${reasonOf(error)}; start it, or correct --to`));
        })
        // After a 101 that nobody has asked for, there is neither an answer nor an error.
        .on('close', () => reject(new Error(`cannot reach ${this.url.origin}: it speaks another protocol`)))
        .end(body);
    });
  }

  /** Closes the connections that are idle. */
  close(): void {
    this.#agent.destroy();
  }
}

// If a name has several addresses, the message of the error is empty.
function reasonOf(error: NodeJS.ErrnoException): string {
  return error.message === '' ? (error.code ?? 'unknown error') : error.message;
}
