import { getRequestListener } from '@hono/node-server';
import { configure } from '@codegenie/serverless-express';
import connect from 'connect';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import inject from 'light-my-request';
import { EventEmitter, once } from 'node:events';
import {
  createServer,
  request,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import * as http2 from 'node:http2';
import { createRequire } from 'node:module';
import type { AddressInfo, Server } from 'node:net';
import { Readable } from 'node:stream';
import mocks from 'node-mocks-http';
import serverless from 'serverless-http';
import { drsFastify } from '../../src/middleware/fastify/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import { drsFetch, drsMiddleware, type NodeMiddleware } from '../../src/middleware/index.js';

// What serves requests in production and in tests: each shows a body, and that there is none, in a way of its own.

/** A request of the table. */
export interface Sent {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Whether its length is in a header. */
  readonly isStated: boolean;
}
/** `body`: what the handler read of its request; `undefined` if it did not run. */
export interface Got {
  readonly status: number;
  readonly read: string | undefined;
}
export interface Adapter {
  readonly ask: (sent: Sent) => Promise<Got>;
  readonly close?: () => unknown;
}
/** Makes a handler behind the gate that these options make. */
export type MakeAdapter = (options: object) => Promise<Adapter> | Adapter;

/** The header with which a handler says what it read, in base64: some adapters have no bodies of answers. */
const READ = 'x-read';
const tell = (text: string) => `=${Buffer.from(text).toString('base64')}`;
const told = (status: number, value: unknown): Got => ({
  status,
  read: typeof value === 'string' ? Buffer.from(value.slice(1), 'base64').toString() : undefined,
});

/** A handler that reads as handlers of node:http do, and so waits for the end. */
export const readByEvents = (req: IncomingMessage, res: ServerResponse) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    res.setHeader(READ, tell(Buffer.concat(chunks).toString()));
    res.end('{}');
  });
};
const behind = (drs: NodeMiddleware) => (req: IncomingMessage, res: ServerResponse) =>
  drs(req, res, () => readByEvents(req, res));

/** What a parser made of a body: nothing, if there was none. */
const parsedIn = (req: IncomingMessage & { body?: object }) =>
  Object.keys(req.body ?? {}).length === 0 ? '' : JSON.stringify(req.body);

/** An app whose parser skips a body of which no header tells. */
const parsing = (make: typeof express) => (options: object) => {
  const app = make();
  app.disable('x-powered-by');
  app.all('/', drsMiddleware(options as never), make.json(), (req, res) => {
    res.set(READ, tell(parsedIn(req))).json({});
  });
  return app;
};
const express5 = parsing(express);
const require = createRequire(import.meta.url);
// It has no types of its own.
const express4 = parsing(require('express4') as typeof express);

const listen = async (server: Server) => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
};
const lengthOf = ({ body, isStated }: Sent) =>
  isStated ? { 'content-length': String(Buffer.byteLength(body ?? '')) } : {};

/** HTTP/1.1. Without a length, a body comes in chunks, and also none. */
export const overHttp = async (listener: (req: IncomingMessage, res: ServerResponse) => unknown) => {
  const server = createServer((req, res) => void listener(req, res));
  const port = await listen(server);
  const ask = async (sent: Sent) => {
    const { method, path, headers, body, isStated } = sent;
    const coding = isStated || (method === 'GET' && body === null) ? {} : { 'transfer-encoding': 'chunked' };
    const all = { ...headers, ...lengthOf(sent), ...coding };
    const req = request({ port, method, path, headers: all, agent: false });
    req.flushHeaders();
    // The head alone first: a body that comes later is one, too.
    setImmediate(() => req.end(body ?? undefined));
    const [res] = (await once(req, 'response')) as [IncomingMessage];
    res.resume();
    return told(res.statusCode ?? 0, res.headers[READ]);
  };
  return { ask, close: () => void (server.closeAllConnections(), server.close()) };
};

/** HTTP/2, which tells of no length by need. */
export const overHttp2 = async (
  listener: (req: IncomingMessage, res: ServerResponse) => unknown,
  tls?: { readonly cert: Buffer; readonly key: Buffer },
) => {
  // The types know that both are called alike, and not that they behave alike.
  const serve = (req: unknown, res: unknown) => void listener(req as IncomingMessage, res as ServerResponse);
  const server = tls === undefined ? http2.createServer(serve) : http2.createSecureServer(tls, serve);
  const port = await listen(server);
  const authority = `${tls === undefined ? 'http' : 'https'}://localhost:${port}`;
  const session = http2.connect(authority, { ...(tls && { ca: tls.cert }), host: '127.0.0.1' } as object);
  const ask = async (sent: Sent) => {
    const { method, path, headers, body } = sent;
    const head = { ':method': method, ':path': path, ...headers, ...lengthOf(sent) };
    const stream = session.request(head, { endStream: body === null && method === 'GET' });
    setImmediate(() => stream.end(body ?? undefined));
    const [answer] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders];
    stream.resume();
    return told(Number(answer[':status']), answer[READ]);
  };
  return { ask, close: () => void (session.destroy(), server.close()) };
};

/** An event of API Gateway, whose headers tell of no length by need. */
const eventOf = (sent: Sent) => ({
  version: '2.0',
  rawPath: sent.path,
  rawQueryString: '',
  headers: { host: 'tools.example', ...sent.headers, ...lengthOf(sent) },
  requestContext: {
    http: { method: sent.method, path: sent.path, sourceIp: '127.0.0.1' },
    stage: '$default',
  },
  isBase64Encoded: false,
  body: sent.body ?? '',
});
type Lambda = (event: object, context: object) => Promise<unknown>;
// Its types are of a package that is not needed here.
const onServerlessExpress = (app: RequestListener) =>
  onLambda((configure as (options: object) => unknown)({ app }) as Lambda);
const onLambda = (handler: Lambda): Adapter => ({
  ask: async (sent) => {
    const answer = (await handler(eventOf(sent), {})) as { statusCode: number; headers: object };
    return told(answer.statusCode, new Map(Object.entries(answer.headers)).get(READ));
  },
});

const bodyFor = (sent: Sent) =>
  sent.isStated || sent.body === null ? (sent.body ?? undefined) : Readable.from([Buffer.from(sent.body)]);
const injecting = (dispatch: (req: IncomingMessage, res: ServerResponse) => unknown): Adapter => ({
  ask: async (sent) => {
    const { method, path: url, headers } = sent;
    const all = { ...headers, ...lengthOf(sent) };
    const options = { method, url, headers: all, payload: bodyFor(sent) } as inject.InjectOptions;
    const answer = await inject((req, res) => void dispatch(req, res), options);
    return told(answer.statusCode, answer.headers[READ]);
  },
});

const fetching = (handler: (request: Request) => Response | Promise<Response>): Adapter => ({
  ask: async (sent) => {
    const body = sent.body === null ? null : new Blob([sent.body]).stream();
    const headers = { ...sent.headers, ...lengthOf(sent) };
    const init = { method: sent.method, headers, body, duplex: 'half' };
    const answer = await handler(new Request('http://tools.example/', init as RequestInit));
    return told(answer.status, answer.headers.get(READ) ?? undefined);
  },
});
const answering = async (request: Request) =>
  Response.json({}, { headers: { [READ]: tell(await request.text()) } });
const honoOf = (options: object) => {
  const app = new Hono();
  app.all('/', drsHono(options as never), (c) => answering(c.req.raw));
  return app;
};
const fastifyOf = async (options: object) => {
  const app = fastify();
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
    done(null, body),
  );
  await app.register(drsFastify, options as never);
  app.route({
    method: ['GET', 'POST'],
    url: '/',
    handler: (request, reply) => reply.header(READ, tell((request.body ?? '') as string)).send({}),
  });
  await app.ready();
  return app;
};

/** Every adapter that a body can reach a handler through. */
export const ADAPTERS: Readonly<Record<string, MakeAdapter>> = {
  'node:http': (options) => overHttp(behind(drsMiddleware(options as never))),
  'node:http2': (options) => overHttp2(behind(drsMiddleware(options as never))),
  Connect: (options) => {
    const app = connect();
    app.use(drsMiddleware(options as never));
    app.use(readByEvents);
    return overHttp(app);
  },
  'Connect over HTTP/2': (options) => {
    const app = connect();
    app.use(drsMiddleware(options as never));
    app.use(express.json());
    app.use((req, res) => {
      res.setHeader(READ, tell(parsedIn(req)));
      res.end('{}');
    });
    return overHttp2(app);
  },
  'Express 5': (options) => overHttp(express5(options)),
  'Express 4': (options) => overHttp(express4(options)),
  'Express 5 in light-my-request': (options) => injecting(express5(options)),
  'Express 4 in light-my-request': (options) => injecting(express4(options)),
  'Express 5 in serverless-express': (options) => onServerlessExpress(express5(options)),
  'Express 4 in serverless-express': (options) => onServerlessExpress(express4(options)),
  'Express 5 in serverless-http': (options) => onLambda(serverless(express5(options))),
  'Express 4 in serverless-http': (options) => onLambda(serverless(express4(options))),
  'node-mocks-http, with the bytes of its body': (options) => {
    const drs = drsMiddleware(options as never);
    const ask = async (sent: Sent) => {
      const { method, path: url } = sent;
      const rawBody = Buffer.from(sent.body ?? '');
      const headers = { ...sent.headers, ...lengthOf(sent) };
      const req = mocks.createRequest({ method, url, headers, rawBody, body: rawBody });
      const res = mocks.createResponse({ eventEmitter: EventEmitter });
      const ended = once(res, 'end');
      drs(req as never, res as never, () => {
        res.setHeader(READ, tell(String(req.body)));
        res.end();
      });
      await ended;
      return told(res.statusCode, res.getHeader(READ));
    };
    return { ask };
  },
  fetch: (options) => fetching(drsFetch(options as never, answering)),
  Hono: (options) => fetching((request) => honoOf(options).fetch(request)),
  'Hono over HTTP/1.1': (options) => overHttp(getRequestListener(honoOf(options).fetch)),
  'Hono over HTTP/2': (options) => overHttp2(getRequestListener(honoOf(options).fetch)),
  'fastify.inject': async (options) => {
    const app = await fastifyOf(options);
    const ask = async (sent: Sent) => {
      const { method, path: url, headers } = sent;
      const payload = bodyFor(sent);
      const all = { ...headers, ...lengthOf(sent) };
      const answer = await app.inject({ method, url, headers: all, ...(payload && { payload }) });
      return told(answer.statusCode, answer.headers[READ]);
    };
    return { ask, close: () => app.close() };
  },
  'Fastify over HTTP/1.1': async (options) => {
    const app = await fastifyOf(options);
    const { ask, close } = await overHttp((req, res) => app.routing(req, res));
    return { ask, close: () => (close(), app.close()) };
  },
};
