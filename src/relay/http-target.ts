import { once } from 'node:events';
import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import { decodeUtf8 } from '#platform';

/** How long to wait for a connection. */
const CONNECT_MS = 10_000;
// Servers close idle connections after some seconds, 5 with Node: one that is older is not used again.
const AGENT_OPTIONS = { keepAlive: true, timeout: 4000, maxFreeSockets: 16 };
/** With these, nothing was sent. */
const NOT_CONNECTED: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT']);

/**
 * The one HTTP client of relays: sends requests to one server, and bytes of headers as they are, in both directions, which
 * `fetch` and undici decode. Follows no redirect, and waits for an answer as long as whoever asked does.
 */
export function httpTarget(url: URL) {
  const isSecure = url.protocol === 'https:';
  const connect = isSecure ? 'secureConnect' : 'connect';
  const agent = isSecure ? new https.Agent(AGENT_OPTIONS) : new http.Agent(AGENT_OPTIONS);
  const send = isSecure ? https.request : http.request;
  return {
    url,
    /**
     * @param options the path is that of the URL, unless it is here
     * @returns the answer, when its headers have come
     * @throws Error whose `cause` says what happened
     */
    async exchange(options: RequestOptions, body: Buffer | null = null) {
      const request = send(url, { agent, ...options });
      const late = new Error(`no connection within ${CONNECT_MS / 1000} seconds`);
      const timer = setTimeout(() => request.destroy(Object.assign(late, { code: 'ETIMEDOUT' })), CONNECT_MS);
      const connected = () => clearTimeout(timer);
      request
        .on('socket', (socket) => (socket.connecting ? socket.once(connect, connected) : connected()))
        .on('close', connected)
        // One that nobody reads any more must not end the process.
        .on('response', (response) => response.on('error', () => undefined))
        // Also after the answer has begun: who reads it learns of it there.
        .on('error', connected);
      // After a 101 that nobody has asked for, there is neither an answer nor an error.
      const closed = once(request, 'close').then(() =>
        Promise.reject(new Error('it speaks another protocol')),
      );
      try {
        const answered = once(request, 'response');
        request.end(body);
        const [response] = (await Promise.race([answered, closed])) as [IncomingMessage];
        return response;
      } catch (error) {
        const { code = '', message } = error as NodeJS.ErrnoException;
        // If a name has several addresses, the message of the error is empty.
        const found = message === '' ? code : message;
        const said = `cannot reach ${url.origin}: ${found}; start it, or correct --to`;
        throw new Error(said, { cause: NOT_CONNECTED.has(code) ? 'not sent' : 'sent' });
      }
    },
    /** Cuts off what is under way. */
    close: () => agent.destroy(),
  };
}
export type HttpTarget = ReturnType<typeof httpTarget>;

/** What belongs to one connection (RFC 9110, section 7.6.1), and is not sent on in either direction. */
const OF_CONNECTION = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'],
];
/** What is made anew, or was answered here. */
const OF_REQUEST = ['host', 'content-length', 'expect'];
/** What says where a request came from: the last proxy alone knows. */
const OF_CLIENT = /^(?:forwarded|x-real-ip|x-forwarded-.*)$/;

/** The names of headers, in lower case, that are set by a relay, or belong to one connection. */
export const OWN_HEADERS: ReadonlySet<string> = new Set([...OF_CONNECTION, ...OF_REQUEST]);

/** Whether a header of a request is not sent on, whatever the connection is. */
export const isOfRequest = (name: string) => OF_REQUEST.includes(name) || OF_CLIENT.test(name);

/** The headers that are sent on, names and values by turns, without those that are left out, by their names in lower case. */
export function passedHeaders(raw: readonly string[], isLeftOut: (name: string) => boolean): string[] {
  const pairs = raw.flatMap((name, at) => (at % 2 === 0 ? [[name, raw[at + 1] ?? ''] as const] : []));
  const named = pairs.flatMap(([name, value]) =>
    name.toLowerCase() === 'connection' ? value.toLowerCase().split(/[ \t]*,[ \t]*/) : [],
  );
  const dropped = new Set([...OF_CONNECTION, ...named]);
  return pairs.filter(([name]) => !dropped.has(name.toLowerCase()) && !isLeftOut(name.toLowerCase())).flat();
}

/** The text of a body; `null` if it has more than so many bytes, or is not UTF-8. */
export async function readAtMost(answer: IncomingMessage, maxBytes: number): Promise<string | null> {
  const chunks: Buffer[] = [];
  let left = maxBytes;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    left -= chunk.length;
    // This closes it.
    if (left < 0) return null;
    chunks.push(chunk);
  }
  return decodeUtf8(Buffer.concat(chunks));
}
