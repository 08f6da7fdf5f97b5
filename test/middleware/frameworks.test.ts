import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { drsFastify, type FastifyMiddlewareOptions } from '../../src/middleware/fastify/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import {
  createMemoryReplayStore,
  drsContext,
  drsMiddleware,
  DrsRefusalError,
  findDrsContext,
  type ToolCallEvent,
} from '../../src/middleware/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { eventually } from '../support/eventually.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import { listen, send } from './http.js';

/** Issue 16 item 17: Fastify and Hono as their users write them. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const chain = liveChain();
const agent = chain.parties.at(-1)?.did;
const args = { tool: 'search', query: 'tea' };
const signed = (signedArgs: object = args) => ['X-DRS-Bundle', encode(liveCall(chain, signedArgs))] as const;
const JSON_TYPE = ['Content-Type', 'application/json'] as const;
const body = JSON.stringify(args);

interface Served {
  readonly url: string;
  readonly events: ToolCallEvent[];
  readonly runs: () => number;
}

type Framework = readonly [string, (options: object) => Promise<Served>];
const FRAMEWORKS: readonly Framework[] = [
  [
    'Fastify',
    async (more) => {
      const app = fastify();
      const events: ToolCallEvent[] = [];
      let runs = 0;
      app.get('/open', (request) => ({ open: true, drs: request.drs }));
      await app.register(async (tools) => {
        await tools.register(drsFastify, options(events, more));
        tools.post('/search', (request) => {
          runs++;
          if ((request.body as { fail?: boolean }).fail === true) throw new Error('handler');
          return {
            got: request.body,
            drs: request.drs,
            same: [drsContext(request), drsContext(request.raw), drsContext()].every(
              (one) => one === request.drs,
            ),
          };
        });
        tools.post('/maybe', (request) => ({ drs: request.drs, inside: findDrsContext() }));
      });
      closing.push(() => app.close());
      return { url: await app.listen(), events, runs: () => runs };
    },
  ],
  [
    'Hono',
    async (more) => {
      const app = new Hono();
      const events: ToolCallEvent[] = [];
      let runs = 0;
      app.get('/open', (c) => c.json({ open: true, drs: (c as { get(name: string): unknown }).get('drs') }));
      const drs = drsHono(options(events, more) as never);
      app.post('/search', drs, async (c) => {
        runs++;
        const got = await c.req.json<{ fail?: boolean }>();
        if (got.fail === true) throw new Error('handler');
        return c.json({
          got,
          drs: c.var.drs,
          same: drsContext() === c.var.drs && drsContext(c.req.raw) === c.var.drs,
        });
      });
      app.post('/maybe', drs, (c) => c.json({ drs: c.get('drs'), inside: findDrsContext() }));
      const listener = getRequestListener(app.fetch);
      const server = await listen((req, res) => void listener(req, res));
      closing.push(() => server.close());
      return { url: server.url, events, runs: () => runs };
    },
  ],
];
const options = (events: ToolCallEvent[], more: object): FastifyMiddlewareOptions => ({
  verifier,
  ...OPEN,
  replayStore: createMemoryReplayStore(),
  tool: 'search',
  maxBodyBytes: 10_000,
  onToolCall: (event) => events.push(event),
  ...more,
});

describe.each(FRAMEWORKS)('%s', (name, serve) => {
  it('hands a verified call to its handler, with its body and context', async () => {
    const { url, events } = await serve({});
    expect(await send(`${url}/search`, [signed(), JSON_TYPE], body)).toMatchObject({
      status: 200,
      body: { got: args, drs: { agent, tool: 'search', binding: 'match' }, same: true },
    });
    await eventually(() => expect(events).toMatchObject([{ agent, outcome: 'ok' }]));
  });

  it('hands on a body in pieces and one of nearly the largest size', async () => {
    const { url } = await serve({});
    const large = { ...args, text: 'é'.repeat(2000) };
    const pieces = JSON.stringify(large).match(/.{1,999}/gs) ?? [];
    expect(await send(`${url}/search`, [signed(large), JSON_TYPE], pieces)).toMatchObject({
      status: 200,
      body: { got: large },
    });
  });

  it.each<[string, () => readonly (readonly [string, string])[], string | string[], number, string]>([
    ['no bundle', () => [JSON_TYPE], body, 401, 'MISSING_BUNDLE'],
    ['two bundles', () => [signed(), signed(), JSON_TYPE], body, 400, 'MULTIPLE_BUNDLES'],
    ['another tool', () => [signed({ tool: 'fetch' }), JSON_TYPE], '{"tool":"fetch"}', 403, 'TOOL_MISMATCH'],
    ['another body', () => [signed(), JSON_TYPE], '{"tool":"search"}', 403, 'BINDING_MISMATCH'],
    [
      'a member twice',
      () => [signed(), JSON_TYPE],
      body.replace('{', '{"query":"x",'),
      403,
      'BINDING_MISMATCH',
    ],
    ['a form', () => [signed(), ['Content-Type', 'text/plain']], body, 403, 'BINDING_MISMATCH'],
    [
      'a compressed body',
      () => [signed(), JSON_TYPE, ['Content-Encoding', 'gzip']],
      body,
      403,
      'BINDING_MISMATCH',
    ],
    ['a large body', () => [signed(), JSON_TYPE], 'x'.repeat(20_000), 413, 'BODY_TOO_LARGE'],
    [
      'a large body in pieces',
      () => [signed(), JSON_TYPE],
      ['x'.repeat(9000), 'x'.repeat(9000)],
      413,
      'BODY_TOO_LARGE',
    ],
  ])('refuses %s', async (_, headers, sent, status, code) => {
    const { url, events, runs } = await serve({});
    const answer = await send(`${url}/search`, headers(), sent);
    expect(answer).toMatchObject({ status, body: { error: { code } } });
    expect(answer.headers['content-type']).toContain('application/json');
    expect(answer.headers['www-authenticate']).toBe(status === 401 ? 'DRS' : undefined);
    expect([runs(), events]).toEqual([0, []]);
  });

  it('refuses a replay', async () => {
    const { url } = await serve({});
    const one = signed();
    await send(`${url}/search`, [one, JSON_TYPE], body);
    expect(await send(`${url}/search`, [one, JSON_TYPE], body)).toMatchObject({
      status: 409,
      body: { error: { code: 'REPLAY_DETECTED' } },
    });
  });

  it('leaves routes outside alone', async () => {
    const { url } = await serve({});
    expect(await (await fetch(`${url}/open`)).json()).toEqual({ open: true });
  });

  it('tells of a handler that fails', async () => {
    const { url, events } = await serve({});
    const failing = { ...args, fail: true };
    expect(await send(`${url}/search`, [signed(failing), JSON_TYPE], JSON.stringify(failing))).toMatchObject({
      status: 500,
    });
    await eventually(() => expect(events).toMatchObject([{ outcome: 'error' }]));
  });

  it('lets a request without a bundle pass where that is optional, without a context', async () => {
    const { url } = await serve({ optional: true });
    expect(await send(`${url}/maybe`, [JSON_TYPE], '{}')).toMatchObject({
      status: 200,
      body: { drs: null, inside: null },
    });
    expect(await send(`${url}/maybe`, [['X-DRS-Bundle', '*'], JSON_TYPE], '{}')).toMatchObject({
      status: 400,
    });
    expect(await send(`${url}/maybe`, [signed(), JSON_TYPE], body)).toMatchObject({
      status: 200,
      body: { drs: { agent }, inside: { agent } },
    });
  });

  it('looks at the chain alone where the binding is off', async () => {
    const { url } = await serve({ bindingMode: 'off' });
    expect(await send(`${url}/maybe`, [signed(), JSON_TYPE], '{"other":1}')).toMatchObject({
      status: 200,
      body: { drs: { agent } },
    });
  });

  it('takes no options that cannot work', async () => {
    await expect(serve({ tool: undefined })).rejects.toThrow(/which calls this route serves/);
    await expect(serve({ replayStore: 'memory' })).rejects.toThrow(/replayStore is "memory"/);
    expect(name).not.toBe('');
  });
});

describe('the Fastify plugin', () => {
  const app = async (more: object, prepare: (app: FastifyInstance) => void = () => undefined) => {
    const made = fastify();
    prepare(made);
    await made.register(drsFastify, options([], more));
    made.post('/:name', (request) => ({ drs: request.drs }));
    closing.push(() => made.close());
    return made;
  };
  const post = (made: FastifyInstance, url: string, header?: string) =>
    made.inject({
      method: 'POST',
      url,
      headers: {
        'content-type': 'application/json',
        ...(header === undefined ? {} : { 'x-drs-bundle': header }),
      },
      payload: body,
    });

  it('works with inject(), and asks about the request of Fastify', async () => {
    const made = await app({
      tool: ({ params }: { params: { name: string } }) => params.name,
      parameters: () => ({}),
    });
    expect((await post(made, '/search', signed()[1])).json()).toMatchObject({ drs: { agent } });
    expect((await post(made, '/fetch', signed()[1])).json()).toMatchObject({
      error: { code: 'TOOL_MISMATCH' },
    });
  });

  it('can be registered in several scopes', async () => {
    const made = await app({ optional: true }, (outer) => {
      void outer.register(async (inner) => {
        await inner.register(drsFastify, options([], {}));
        inner.post('/inner/:name', () => 'ran');
      });
    });
    expect((await post(made, '/search')).statusCode).toBe(200);
    expect((await post(made, '/inner/search')).statusCode).toBe(401);
  });

  it('hands refusals to the error handler on request', async () => {
    const made = await app({ errors: 'next' }, (outer) => {
      outer.setErrorHandler((error, _request, reply) => {
        if (!(error instanceof DrsRefusalError)) throw error;
        return reply.code(error.status).headers(error.headers).send({ mine: error.code });
      });
    });
    const answer = await post(made, '/search');
    expect([answer.statusCode, answer.headers['www-authenticate'], answer.json()]).toEqual([
      401,
      'DRS',
      { mine: 'MISSING_BUNDLE' },
    ]);
  });
});

type Asked = (path: string, header: readonly [string, string], body: string) => Promise<number | string>;
const codeIn = (json: unknown) => (json as { error?: { code: string } }).error?.code ?? 200;
/** A route with a parameter, and one without, in each framework. */
const ROUTED: Readonly<Record<string, (more: object) => Promise<Asked>>> = {
  async Express(more) {
    const app = express();
    const drs = drsMiddleware(options([], more) as never);
    app.post('/files/:name', drs, (_req, res) => void res.json({}));
    app.post('/files', drs, (_req, res) => void res.json({}));
    const server = await listen(app);
    closing.push(() => server.close());
    return async (path, header, sent) =>
      codeIn((await send(server.url + path, [header, JSON_TYPE], sent)).body);
  },
  async Fastify(more) {
    const app = fastify();
    await app.register(drsFastify, options([], more));
    app.post('/files/:name', () => ({}));
    app.post('/files', () => ({}));
    closing.push(() => app.close());
    return async (path, header, payload) => {
      const headers = Object.fromEntries([header, JSON_TYPE]);
      return codeIn((await app.inject({ method: 'POST', url: path, headers, payload })).json());
    };
  },
  Hono(more) {
    const app = new Hono();
    // Before the route that has the parameter: Hono does not show it here.
    app.use('/files/*', drsHono(options([], more) as never));
    app.post('/files/:name{.+}', (c) => c.json({}));
    app.post('/files', (c) => c.json({}));
    return Promise.resolve(async (path, header, sent) => {
      const headers = Object.fromEntries([header, JSON_TYPE]);
      return codeIn(await (await app.request(path, { method: 'POST', headers, body: sent })).json());
    });
  },
};

describe.each(Object.entries(ROUTED))('path and query in %s', (_, make) => {
  it('have no parameters that nobody has signed', async () => {
    const ask = await make({});
    expect(await ask('/files', signed(), body)).toBe(200);
    expect(await ask('/files?', signed(), body)).toBe(200);
    expect(await ask('/files/passwd', signed(), body)).toBe('INVALID_PARAMS');
    expect(await ask('/files?revision=1', signed(), body)).toBe('INVALID_PARAMS');
    expect(await ask('/files?=', signed(), body)).toBe('INVALID_PARAMS');
    // First comes who calls.
    expect(await ask('/files/passwd', ['X-A', 'b'], body)).toBe('MISSING_BUNDLE');
  });

  it('have those that the options name, and no others', async () => {
    const ask = await make({ parameters: () => ({ name: 'a', revision: '1' }) });
    const named = signed({ ...args, name: 'a', revision: '1' });
    const again = () => signed({ ...args, name: 'a', revision: '1' });
    expect(await ask('/files/a?revision=1', named, body)).toBe(200);
    for (const query of [
      'revision=1&recursive=true',
      'revision=1&revision=1',
      'Revision=1',
      'revisio%6E=1',
      'revision=1;a=b',
      'revision',
      '&',
    ])
      expect([query, await ask(`/files/a?${query}`, again(), body)]).toEqual([query, 'INVALID_PARAMS']);
    expect(await ask('/files/a?revision=1', again(), '{"query":"coffee"}')).toBe('BINDING_MISMATCH');
  });

  it('are not looked at where the body is not either', async () => {
    const ask = await make({ bindingMode: 'off' });
    expect(await ask('/files/passwd?a=b', signed(), body)).toBe(200);
  });
});
