import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { decodeUtf8 } from '#platform';
import { cardFor, isCardPath } from './agent-card.js';
import { readAtMost } from '../files.js';
import type { HttpTarget } from './exchange.js';
import type { HttpOutcome, HttpSigner } from './http-signers.js';
import { findForeign, type Callers } from './local-only.js';
import { MAX_MESSAGE_BYTES } from './message.js';

/** What a listener needs. */
export interface ListenerOptions {
  readonly target: HttpTarget;
  readonly protocol: 'mcp' | 'a2a';
  readonly sign: HttpSigner;
  readonly callers: Callers;
  /** More headers of each request, in place of the caller's. */
  readonly headers: Readonly<Record<string, string>>;
  /** Tells the operator something. */
  readonly note: (message: string) => void;
}

const MAX_CONNECTIONS = 256;
const MAX_CARD_BYTES = 1024 * 1024;
/** What belongs to one connection (RFC 9110, section 7.6.1), or is set here. */
const OWN: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['host', 'content-length', 'expect'],
]);
const EXTENSIONS = 'A2A-Extensions';
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Makes an HTTP server that passes requests on to another one, and signs those that need it. */
export function createListener(options: ListenerOptions): Server {
  const server = createServer((request, response) => {
    void relay(request, response, options).catch((error: unknown) => {
      if (!response.headersSent) answer(response, 502, problem((error as Error).message));
      else response.destroy();
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

async function relay(
  request: IncomingMessage,
  response: ServerResponse,
  { target, protocol, sign, callers, headers, note }: ListenerOptions,
): Promise<void> {
  const foreign = findForeign(request, callers);
  if (foreign !== null) {
    note(`refused a request: ${foreign}`);
    answer(response, 403, problem(foreign));
    return;
  }
  const { method = 'GET' } = request;
  const path = pathAt(target.url, request.url ?? '/', protocol);
  if (path === null) {
    answer(
      response,
      404,
      problem(`this port serves only ${target.url.pathname}, and paths below it for A2A`),
    );
    return;
  }
  const body = await readAtMost(request, MAX_MESSAGE_BYTES);
  if (body === null) {
    answer(response, 413, problem(`the body has more than ${MAX_MESSAGE_BYTES} bytes`));
    return;
  }
  const outcome = await decide(request, path, body, sign);
  if (outcome.kind === 'refused') {
    answer(response, outcome.status, outcome.body);
    return;
  }
  const isSigned = outcome.kind === 'signed';
  const isCard = protocol === 'a2a' && method === 'GET' && isCardPath(path);
  const controller = new AbortController();
  response.on('close', () => controller.abort());
  const set: Record<string, string> = {
    ...headers,
    ...(isSigned ? outcome.headers : {}),
    ...(isCard ? { 'accept-encoding': 'identity' } : {}),
  };
  // Servers of A2A 0.3 read no other, where it is.
  const extension = set[EXTENSIONS];
  if (extension !== undefined && request.headers['x-a2a-extensions'] !== undefined)
    set[`X-${EXTENSIONS}`] = extension;
  const sent = isSigned && outcome.body !== '' ? Buffer.from(outcome.body) : body;
  const upstream = await target.exchange(
    {
      method,
      headers: [
        'Host',
        target.url.host,
        ...kept(request, set),
        ...lengthOf(sent, method),
        ...Object.entries(set).flat(),
      ],
      body: sent.length === 0 ? undefined : sent,
      signal: controller.signal,
    },
    path,
  );
  const status = upstream.statusCode ?? 502;
  if (isSigned && REDIRECTS.has(status)) {
    upstream.destroy();
    const location = JSON.stringify((upstream.headers.location ?? 'another address').slice(0, 200));
    throw new Error(`the server redirects this signed request to ${location}, which is not followed`);
  }
  if (isCard && status === 200) {
    await sendCard(upstream, response, target.url.origin, `http://${request.headers.host ?? ''}`);
    return;
  }
  response.writeHead(status, upstream.statusMessage, kept(upstream));
  // The caller of a stream waits for the headers.
  response.flushHeaders();
  await pipeline(upstream, response);
}

async function decide(
  request: IncomingMessage,
  path: string,
  body: Buffer,
  sign: HttpSigner,
): Promise<HttpOutcome> {
  // Whoever sends a bundle has signed the request.
  if (request.headers['x-drs-bundle'] !== undefined) return { kind: 'pass' };
  const text = decodeUtf8(body);
  return text === null ? { kind: 'pass' } : await sign(request.method ?? 'GET', path, text);
}

/**
 * The path of a request as the server gets it, with its query; `null` if this port does not serve it. A bundle must not
 * reach another server that has the same host.
 */
function pathAt(target: URL, path: string, protocol: 'mcp' | 'a2a'): string | null {
  const base = target.pathname;
  if (!path.startsWith('/')) return null;
  const { pathname, search, href, origin } = new URL(path, target.origin);
  // Servers could read another path from one that is not in its normal form.
  if (origin !== target.origin || href !== `${target.origin}${path}`) return null;
  if (protocol === 'mcp') {
    if (pathname === '/') return `${base}${search === '' ? target.search : search}`;
    return pathname === base ? path : null;
  }
  const isBelow = pathname === base || pathname.startsWith(base.endsWith('/') ? base : `${base}/`);
  return isBelow || isCardPath(pathname) ? path : null;
}

/** The headers that are passed on, names and values by turns. */
function kept(
  { rawHeaders, headers }: IncomingMessage,
  replaced: Readonly<Record<string, string>> = {},
): string[] {
  // Lists, to which a value is added.
  const isList = (name: string) => /^(?:x-)?a2a-extensions$/.test(name);
  const set = Object.keys(replaced).map((name) => name.toLowerCase());
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  const dropped = new Set([...OWN, ...named, ...set.filter((name) => !isList(name))]);
  const passed: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!dropped.has(name.toLowerCase())) passed.push(name, value);
  }
  return passed;
}

function lengthOf(body: Buffer, method: string): string[] {
  return body.length > 0 || method === 'POST' ? ['Content-Length', String(body.length)] : [];
}

async function sendCard(
  upstream: IncomingMessage,
  response: ServerResponse,
  origin: string,
  here: string,
): Promise<void> {
  const body = await readAtMost(upstream, MAX_CARD_BYTES);
  const text = body === null ? null : decodeUtf8(body);
  if (text === null) throw new Error('the agent card is no text, or too large');
  answer(response, 200, cardFor(text, origin, here));
}

function problem(message: string): string {
  return JSON.stringify({ error: { code: 'NOT_SENT', message } });
}

function answer(response: ServerResponse, status: number, body: string): void {
  // A body that was not read would be taken for the next request.
  if (status === 413 || status === 403) response.setHeader('Connection', 'close');
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(body);
}
