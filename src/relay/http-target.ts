import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import { targetOf } from '../gate/a2a-rest.js';
import type { Protocol } from '../gate/codes.js';
import { RESOURCE_METADATA } from '../gate/json-rpc.js';
import { IssueError } from '../issue/issue-error.js';
import { hasDotSegment } from '../protocol/resources.js';
import { printableUrl } from '../revocation/printable-url.js';

/** Where a server is, and which requests are for it. */
export interface Destination {
  readonly url: URL;
  /** The path with its query as the server gets it, for the method and the path of a request; `null` if it is not for it. */
  readonly pathFor: (method: string, target: string) => string | null;
}

/** The agent cards of A2A 0.3 and 1.0 at the root. */
const ROOT_CARDS = ['/.well-known/agent-card.json', '/.well-known/agent.json'];

/**
 * Reads the address of a server. Only its own path is served: the exact one over MCP, over `http` without a table of
 * routes, and for the JSON-RPC endpoint of an agent; else those below it. The agent card may be at the root, too.
 *
 * @param isRouted over `http`: whether a table says which paths there are
 * @param rpc the path of an agent's JSON-RPC, if it is not that of the address: no other is served, since it is not signed
 * @param isLocal whether it is a port for one agent, which also calls the root, and paths that a gate would refuse
 * @throws IssueError if the address cannot be used; it shows no secret
 */
export function destinationOf(
  text: string,
  protocol: Protocol,
  { isRouted = false, isLocal = false, rpc = undefined as string | undefined } = {},
): Destination {
  const url = URL.canParse(text) ? new URL(text) : null;
  const unusable = (expected: string) =>
    new IssueError(
      'INVALID_OPTION',
      `--to is ${JSON.stringify(printableUrl(text))}, expected ${expected}`,
      'give the address of the server; sign sends a password or a token as a header (--header-env)',
    );
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.password + url.hash !== '')
    throw unusable('an http or https URL without user, password and fragment');
  const isExact = protocol === 'mcp' || (protocol === 'http' && !isRouted);
  if (!isExact && url.search !== '') throw unusable('a URL without a query');
  const own = url.pathname + url.search;
  const root = url.pathname.replace(/\/$/, '');
  const metadata = isLocal ? [] : [RESOURCE_METADATA, RESOURCE_METADATA + root];
  const readBesides = { mcp: metadata, a2a: ROOT_CARDS, http: [] as string[] }[protocol];
  const pathFor = (method: string, target: string) => {
    if (['GET', 'HEAD'].includes(method) && readBesides.includes(target)) return target;
    if (isExact) return target === own || (isLocal && ['/', url.pathname].includes(target)) ? own : null;
    const [path = ''] = target.split('?', 1);
    if (!path.startsWith('/') || target.includes('\\') || hasDotSegment(path)) return null;
    const isRpc = protocol === 'a2a' && !isLocal && targetOf(method, target).kind === 'json-rpc';
    const isBelow = isRpc ? target === (rpc ?? own) : `${path}/`.startsWith(`${root}/`);
    return isBelow ? target : null;
  };
  return { url, pathFor };
}

const CONNECT_MS = 10_000;
// Servers close idle connections after some seconds, 5 with Node: one that is older is not used again.
const AGENT_OPTIONS = { keepAlive: true, timeout: 4000 };

/**
 * The one HTTP client of relays: sends requests to one server, and bytes of headers as they are, in both directions, which
 * `fetch` and undici decode. Follows no redirect, and waits for an answer as long as whoever asked does.
 */
export function httpTarget(url: URL) {
  const isSecure = url.protocol === 'https:';
  const connect = isSecure ? 'secureConnect' : 'connect';
  const { Agent, request: send } = isSecure ? https : http;
  const agent = new Agent(AGENT_OPTIONS);
  /**
   * @param options the path is that of the URL, unless it is here
   * @returns the answer, when its headers have come
   * @throws Error whose `cause` says whether the request may have been sent
   */
  const exchange = (options: RequestOptions, body?: Buffer) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(url, { agent, ...options });
      let cause: 'sent' | 'not sent' = 'not sent';
      const late = () => request.destroy(new Error(`no connection within ${CONNECT_MS / 1000} seconds`));
      const timer = setTimeout(late, CONNECT_MS);
      const connected = () => {
        cause = 'sent';
        clearTimeout(timer);
      };
      const fail = ({ code = '', message }: NodeJS.ErrnoException) => {
        clearTimeout(timer);
        // If a name has several addresses, the message of the error is empty.
        const found = message === '' ? code : message;
        reject(new Error(`cannot reach ${url.origin}: ${found}; start it, or correct --to`, { cause }));
      };
      request
        .on('socket', (socket) => (socket.connecting ? socket.once(connect, connected) : connected()))
        // One that nobody reads any more must not end the process.
        .on('response', (response) => resolve(response.on('error', () => undefined)))
        .on('error', fail)
        // After a 101 that nobody has asked for, there is neither an answer nor an error.
        .on('close', () => fail(new Error('it speaks another protocol')))
        .end(body);
    });
  /** `close` cuts off what is under way. */
  return { exchange, close: () => agent.destroy() };
}
export type HttpTarget = ReturnType<typeof httpTarget>;

/** What belongs to one connection (RFC 9110, section 7.6.1), and is not sent on in either direction. */
// prettier-ignore
const OF_CONNECTION = [
  'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection',
  'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings',
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
