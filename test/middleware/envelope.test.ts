import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import type { IncomingMessage, RequestListener } from 'node:http';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { createConsent, generateKey, issueRootDelegation } from '../../src/issue/index.js';
import { drsFastify } from '../../src/middleware/fastify/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import {
  createMemoryReplayStore,
  drsContext,
  drsFetch,
  drsMiddleware,
  signFetch,
  type SignFetchOptions,
} from '../../src/middleware/index.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import { listen, send, type RawAnswer } from './http.js';

/** Issue 29 item 13: the second carrier of plain HTTP, in tool servers with the header limits that they have by default. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const TYPE = 'application/drs-call+json';
const chain = liveChain(2);
const args = { tool: 'search', query: 'tea' };
const bundleFor = (signed: object = args) => encode(liveCall(chain, signed));
const envelope = (body: unknown = args, signed: object = args) =>
  JSON.stringify({ bundle: bundleFor(signed), body });
const typed = (type = TYPE) => ['Content-Type', type] as const;

/** What a handler sees of its request. */
interface Seen {
  readonly got: unknown;
  readonly agent: string;
  readonly binding: string | null;
  readonly headers: Readonly<Record<string, unknown>>;
}
type Options = Record<string, unknown>;
/** Serves a tool that answers with what it has seen. */
type Shape = readonly [string, (options: Options, ran: () => void) => Promise<string>];

const namesOf = ({ rawHeaders }: IncomingMessage) =>
  rawHeaders.flatMap((text, at) => (at % 2 === 0 ? [`${text.toLowerCase()}: ${rawHeaders[at + 1]}`] : []));

const seenBy = (req: IncomingMessage, got: unknown) => {
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = req.headers;
  const distinct = req.headersDistinct;
  return {
    got,
    agent: drsContext(req).agent,
    binding: drsContext(req).binding ?? null,
    headers: { type, length, coding },
    raw: namesOf(req).filter((line) => /^(?:content-|transfer-)/.test(line)),
    distinct: [distinct['content-type'], distinct['content-length'], distinct['transfer-encoding']],
  };
};

const start = async (listener: RequestListener) => {
  const server = await listen(listener);
  closing.push(() => server.close());
  return server.url;
};

const SHAPES: readonly Shape[] = [
  [
    'node:http',
    (options, ran) => {
      const drs = drsMiddleware(options as never);
      return start((req, res) =>
        drs(req, res, () => {
          ran();
          const chunks: Buffer[] = [];
          req.on('data', (chunk: Buffer) => chunks.push(chunk));
          req.on('end', () => {
            const text = Buffer.concat(chunks).toString();
            res.end(JSON.stringify(seenBy(req, text === '' ? null : JSON.parse(text))));
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
        res.json(seenBy(req, req.body));
      });
      return start(app);
    },
  ],
  [
    'fetch',
    (options, ran) => {
      const handler = drsFetch(options as never, async (request) => {
        ran();
        expect(drsContext(request)).toBe(drsContext());
        return Response.json(await seenIn(request));
      });
      const listener = getRequestListener((request) => handler(request));
      return start((req, res) => void listener(req, res));
    },
  ],
  [
    'Hono',
    (options, ran) => {
      const app = new Hono();
      app.post('/', drsHono(options as never), async (c) => {
        ran();
        const { headers, binding } = await seenIn(c.req.raw.clone());
        return c.json({
          ...{ got: await c.req.json<unknown>(), agent: drsContext(c.req.raw).agent, headers, binding },
          same: c.req.header('content-type') === 'application/json',
        });
      });
      const listener = getRequestListener(app.fetch);
      return start((req, res) => void listener(req, res));
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
          return seenBy(request.raw, request.body);
        });
      });
      closing.push(() => app.close());
      return app.listen();
    },
  ],
];

async function seenIn(request: Request): Promise<Seen> {
  const type = request.headers.get('content-type');
  const length = request.headers.get('content-length');
  const coding = request.headers.get('transfer-encoding') ?? undefined;
  return {
    ...{ agent: drsContext().agent, headers: { type, length, coding } },
    binding: drsContext().binding ?? null,
    got: await request.json(),
  };
}

const ROWS: readonly (readonly [
  name: string,
  body: () => string | Buffer,
  status: number,
  code: string,
  type?: string,
])[] = [
  ['another body', () => envelope({ ...args, query: 'gold' }), 403, 'BINDING_MISMATCH'],
  ['another tool', () => envelope({ tool: 'fetch' }, { tool: 'fetch' }), 403, 'TOOL_MISMATCH'],
  ['a further member', () => envelope().replace('{', '{"role":"admin",'), 400, 'MALFORMED_BUNDLE'],
  ['two bundles', () => envelope().replace('{', `{"bundle":"${bundleFor()}",`), 400, 'MALFORMED_BUNDLE'],
  ['two bodies', () => envelope().replace('{', '{"body":{"tool":"x"},'), 400, 'MALFORMED_BUNDLE'],
  ['an argument twice', () => envelope().replace('"query"', '"query":"x","query"'), 400, 'MALFORMED_BUNDLE'],
  ['no bundle', () => JSON.stringify({ body: args }), 400, 'MALFORMED_BUNDLE'],
  [
    'bytes that are not UTF-8',
    () => Buffer.from(envelope().replace('tea', 'té'), 'latin1'),
    400,
    'MALFORMED_BUNDLE',
  ],
  ['nothing', () => '', 400, 'MALFORMED_BUNDLE'],
  ['an envelope in it', () => envelope(JSON.parse(envelope())), 403, 'BINDING_MISMATCH'],
  ['too much', () => envelope({ ...args, text: 'x'.repeat(3 * 1024 * 1024) }), 413, 'BODY_TOO_LARGE'],
  ['the type of JSON', envelope, 401, 'MISSING_BUNDLE', 'application/json'],
  ['another charset', envelope, 401, 'MISSING_BUNDLE', `${TYPE}; charset=utf-16`],
  ['another parameter', envelope, 401, 'MISSING_BUNDLE', `${TYPE}; version=2`],
];

describe.each(SHAPES)('%s', (name, serve) => {
  const open = async (more: Options = {}) => {
    let runs = 0;
    const url = await serve(
      {
        verifier,
        ...OPEN,
        replayStore: createMemoryReplayStore(),
        tool: 'search',
        maxBodyBytes: 3_000_000,
        ...more,
      },
      () => runs++,
    );
    return {
      url,
      runs: () => runs,
      send: (body: string | Buffer, ...headers: Header[]) => send(url, headers, body),
    };
  };
  type Header = readonly [string, string];
  const isNode = ['node:http', 'Express', 'Fastify'].includes(name);

  const expectUnwrapped = ({ status, body }: RawAnswer, got: unknown) => {
    const length = String(Buffer.byteLength(JSON.stringify(got)));
    const isJson = { type: 'application/json', length };
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ got, agent: chain.parties.at(-1)?.did, headers: isJson }),
    ]);
    if (!isNode) return;
    expect(body).toMatchObject({
      raw: ['content-type: application/json', `content-length: ${length}`],
      distinct: [['application/json'], [length], null],
    });
  };

  it('hands on what is in an envelope, as if it had been sent as JSON', async () => {
    const { send: post, runs } = await open();
    expectUnwrapped(await post(envelope(), typed()), args);
    expectUnwrapped(await post(envelope(), typed('Application/DRS-Call+JSON; charset=UTF-8')), args);
    expect(runs()).toBe(2);
  });

  it('does so with one that comes in pieces, without a length', async () => {
    const { url } = await open();
    const large = { ...args, text: 'é'.repeat(2000) };
    const pieces = envelope(large, large).match(/.{1,999}/gs) ?? [];
    expectUnwrapped(await send(url, [typed()], pieces), large);
  });

  it('takes the same bundle in the header too, and no other', async () => {
    const { send: post } = await open();
    const bundle = bundleFor();
    const body = JSON.stringify({ bundle, body: args });
    expect(await post(body, typed(), ['X-DRS-Bundle', bundleFor()])).toMatchObject({
      ...{ status: 400, body: { error: { code: 'MULTIPLE_BUNDLES' } } },
    });
    expectUnwrapped(await post(body, typed(), ['X-DRS-Bundle', bundle]), args);
    expect(await post(body, typed())).toMatchObject({ body: { error: { code: 'REPLAY_DETECTED' } } });
  });

  it.each(ROWS.map(([what, ...row]) => [what, row] as const))('refuses %s', async (_, row) => {
    const [body, status, code, type] = row;
    const { send: post, runs } = await open();
    expect(await post(body(), typed(type))).toMatchObject({ status, body: { error: { code } } });
    expect(runs()).toBe(0);
  });

  it('refuses a malformed one where requests without a bundle pass', async () => {
    const { send: post, runs } = await open({ optional: true });
    expect(await post('{"body":{}}', typed())).toMatchObject({
      body: { error: { code: 'MALFORMED_BUNDLE' } },
    });
    expect(runs()).toBe(0);
  });

  it('hands it on where the binding is off or reported', async () => {
    for (const [bindingMode, binding] of [
      ['off', null],
      ['report', 'mismatch'],
    ]) {
      const { send: post } = await open({ bindingMode });
      const other = { ...args, query: 'gold' };
      const answer = await post(envelope(other), typed());
      expectUnwrapped(answer, other);
      expect(answer.body).toMatchObject({ binding });
    }
  });

  it('takes an envelope as arguments where it was signed as such', async () => {
    const { send: post } = await open({ tool: 'any' });
    const nested = { tool: 'search', ...(JSON.parse(envelope()) as object) };
    expectUnwrapped(await post(envelope(nested, nested), typed()), nested);
  });

  it('compares it together with the parameters of the route', async () => {
    const { url } = await open({ parameters: () => ({ lines: '10' }) });
    expectUnwrapped(
      await send(`${url}/?lines=10`, [typed()], envelope(args, { ...args, lines: '10' })),
      args,
    );
    expect(await send(`${url}/?lines=10`, [typed()], envelope())).toMatchObject({
      body: { error: { code: 'BINDING_MISMATCH' } },
    });
  });

  it('takes 200 kB of arguments with the usual limits on headers, from signFetch', async () => {
    const { url } = await open({ serverIdentity: 'https://tools.example' });
    const large = { ...args, text: 'x'.repeat(200_000) };
    const call = (options: SignFetchOptions) =>
      signFetch(delegation, options)(url, { method: 'POST', body: JSON.stringify(large) });
    expect((await call({})).status).toBe(431);
    expect((await call({ carrier: 'header' })).status).toBe(431);
    for (const carrier of ['envelope', 'auto'] as const) {
      const answer = await call({ carrier });
      expect([answer.status, ((await answer.json()) as Seen).got]).toEqual([200, large]);
    }
  });
});

const [person, agent] = [generateKey(), generateKey()];
const delegation = {
  key: agent,
  chain: [
    await issueRootDelegation({
      ...{ key: person, audience: agent.did, command: '/tools', policy: { allowed_tools: ['search'] } },
      consent: createConsent({ text: 'Search.', locale: 'en', method: 'explicit-ui-click' }),
    }),
  ],
  toolServer: 'https://tools.example',
};

describe('signFetch', () => {
  const sent = async (options: SignFetchOptions, size: number) => {
    let request: Request | undefined;
    const record: typeof fetch = (input, init) => {
      request = new Request(input, init);
      return Promise.resolve(new Response());
    };
    const body = `{ "tool": "search", "text": "${'x'.repeat(size)}" }`;
    const headers = {
      'Content-Type': 'application/json; charset=utf-8',
      'X-Own': '1',
      'X-DRS-Bundle': 'old',
    };
    const call = signFetch(delegation, { ...options, fetch: record });
    await call('https://tools.example/', { method: 'POST', headers, body });
    const { headers: own } = request as Request;
    const text = await (request as Request).text();
    expect(own.get('x-own')).toBe('1');
    const isEnvelope = own.get('content-type') === TYPE;
    if (isEnvelope) {
      expect(own.has('x-drs-bundle')).toBe(false);
      expect(text).toMatch(/^\{"bundle":"[\w-]+","body":\{ "tool": "search"/);
    } else expect([own.get('content-type'), text]).toEqual(['application/json; charset=utf-8', body]);
    return { isEnvelope, bundle: own.get('x-drs-bundle') ?? (JSON.parse(text) as { bundle: string }).bundle };
  };

  it('uses the envelope where it is told, and with auto for a bundle of more than 4,096 characters', async () => {
    expect((await sent({}, 5000)).isEnvelope).toBe(false);
    expect((await sent({ carrier: 'header' }, 5000)).isEnvelope).toBe(false);
    expect((await sent({ carrier: 'envelope' }, 0)).isEnvelope).toBe(true);
    const { isEnvelope, bundle } = await sent({ carrier: 'auto' }, 0);
    expect(isEnvelope).toBe(false);
    for (let size = 0, length = bundle.length; length <= 4100; size += 1) {
      // Nearly 1.78 characters for each byte.
      size += Math.max(0, Math.floor((4080 - length) / 1.78));
      const next = await sent({ carrier: 'auto' }, size);
      length = next.bundle.length;
      expect(next.isEnvelope).toBe(length > 4096);
    }
  });

  it('knows no other carrier', () => {
    expect(() => signFetch(delegation, { carrier: '_meta' as never })).toThrow('carrier is "_meta"');
  });
});
