import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import type { IncomingMessage, RequestListener } from 'node:http';
import { drsFastify } from '../../src/middleware/fastify/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import { drsFetch, drsMiddleware, findDrsContext } from '../../src/middleware/index.js';
import { listen } from './http.js';

/** What a handler sees of its request: it answers with that, and throws where the body says `fail`. */
interface Seen {
  readonly got: unknown;
  readonly drs: unknown;
  /** Whether the context is the same by each way to it. */
  readonly same: boolean;
  readonly headers: Readonly<Record<string, unknown>>;
}
export interface Served {
  readonly url: string;
  close(): unknown;
}
/** Serves a tool at `/`. `ran` is called each time it runs. */
export type Shape = readonly [string, (options: object, ran: () => void) => Promise<Served>];

const seen = (found: Omit<Seen, 'got'>, got: { fail?: unknown } | null): Seen => {
  if (got?.fail === true) throw new Error('handler');
  return { got, ...found };
};
const isSame = (drs: unknown, ...others: unknown[]) => others.every((one) => one === drs);

/** What a handler sees of a request of node:http besides its body. */
const foundIn = (req: IncomingMessage, ...others: unknown[]) => {
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = req.headers;
  const drs = findDrsContext(req);
  const raw = req.rawHeaders.flatMap((text, at) =>
    at % 2 === 0 ? [`${text.toLowerCase()}: ${req.rawHeaders[at + 1]}`] : [],
  );
  const { headersDistinct: distinct } = req;
  return {
    ...{ drs, same: isSame(drs, ...others), headers: { type, length, coding } },
    raw: raw.filter((line) => /^(?:content-|transfer-)/.test(line)),
    distinct: [distinct['content-type'], distinct['content-length'], distinct['transfer-encoding']],
  };
};
const foundBy = (request: Request, ...others: unknown[]) => {
  const [type, length] = ['content-type', 'content-length'].map((name) => request.headers.get(name));
  const coding = request.headers.get('transfer-encoding') ?? undefined;
  const drs = findDrsContext(request);
  return { drs, same: isSame(drs, findDrsContext(), ...others), headers: { type, length, coding } };
};
const answerOf = async (request: Request, ...others: unknown[]) => {
  const found = foundBy(request, ...others);
  return Response.json(seen(found, (await request.json()) as object));
};
const fetching = (handler: Parameters<typeof getRequestListener>[0]): RequestListener => {
  const listener = getRequestListener(handler);
  return (req, res) => void listener(req, res);
};

/** Every shape of server that the middleware protects. */
export const SHAPES: readonly Shape[] = [
  [
    'node:http',
    (options, ran) => {
      const drs = drsMiddleware(options as never);
      return listen((req, res) =>
        drs(req, res, () => {
          ran();
          // Events of the request do not run in the context of the handler.
          const found = foundIn(req, findDrsContext());
          const chunks: Buffer[] = [];
          req.on('data', (chunk: Buffer) => chunks.push(chunk));
          req.on('end', () => {
            const text = Buffer.concat(chunks).toString();
            const { fail } = JSON.parse(text) as { fail?: true };
            if (fail === true) res.writeHead(500).end();
            else res.end(JSON.stringify(seen(found, JSON.parse(text) as object)));
          });
        }),
      );
    },
  ],
  [
    'Express',
    (options, ran) => {
      const app = express();
      app.post('/', drsMiddleware(options as never), express.json({ limit: '1mb' }), (req, res) => {
        ran();
        res.json(seen(foundIn(req), req.body as object));
      });
      return listen(app);
    },
  ],
  [
    'fetch',
    (options, ran) => {
      const handler = drsFetch(options as never, (request) => (ran(), answerOf(request)));
      return listen(fetching((request) => handler(request)));
    },
  ],
  [
    'Hono',
    (options, ran) => {
      const app = new Hono();
      app.post('/', drsHono(options as never), (c) => {
        ran();
        const type = c.req.header('content-type');
        return answerOf(c.req.raw, c.get('drs'), ...(type === 'application/json' ? [] : ['another type']));
      });
      return listen(fetching(app.fetch));
    },
  ],
  [
    'Fastify',
    async (options, ran) => {
      const app = fastify();
      await app.register(async (tools) => {
        await tools.register(drsFastify, options as never);
        tools.post('/', (request) => {
          ran();
          const found = foundIn(request.raw, request.drs, findDrsContext(request), findDrsContext());
          return seen(found, request.body as object);
        });
      });
      return { url: await app.listen(), close: () => app.close() };
    },
  ],
];
