import express from 'express';
import fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { drsFastify, type FastifyMiddlewareOptions } from '../../src/middleware/fastify/index.js';
import { drsHono } from '../../src/middleware/hono/index.js';
import {
  createMemoryReplayStore,
  drsMiddleware,
  DrsRefusalError,
  type ToolCallEvent,
} from '../../src/middleware/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { eventually } from '../support/eventually.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import { listen, send } from './http.js';
import { SHAPES } from './shapes.js';

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
const options = (more: object): FastifyMiddlewareOptions => ({
  ...{ verifier, ...OPEN, replayStore: createMemoryReplayStore(), tool: 'search', ...more },
});

// What each of them refuses is in attacks.test.ts.
describe.each(SHAPES)('%s', (_, shape) => {
  const serve = async (more: object) => {
    const events: ToolCallEvent[] = [];
    const onToolCall = (event: ToolCallEvent) => events.push(event);
    const served = await shape(options({ onToolCall, ...more }), () => undefined);
    closing.push(() => served.close());
    const post = (header: readonly [string, string], sent: object) =>
      send(served.url, [header, JSON_TYPE], JSON.stringify(sent));
    return { post, events };
  };

  it('tells of a call that ran, and of a handler that fails', async () => {
    const { post, events } = await serve({});
    expect(await post(signed(), args)).toMatchObject({ status: 200 });
    await eventually(() => expect(events).toMatchObject([{ agent, outcome: 'ok' }]));
    const failing = { ...args, fail: true };
    expect(await post(signed(failing), failing)).toMatchObject({ status: 500 });
    await eventually(() => expect(events.slice(1)).toMatchObject([{ outcome: 'error' }]));
  });
});

describe('the Fastify plugin', () => {
  const app = async (more: object, prepare: (app: FastifyInstance) => void = () => undefined) => {
    const made = fastify();
    prepare(made);
    await made.register(drsFastify, options(more));
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

  it('leaves routes outside alone', async () => {
    const made = fastify();
    made.get('/open', (request) => ({ drs: request.drs }));
    await made.register(async (tools) => {
      await tools.register(drsFastify, options({}));
    });
    closing.push(() => made.close());
    expect((await made.inject('/open')).json()).toEqual({});
  });

  it('can be registered in several scopes', async () => {
    const made = await app({ optional: true }, (outer) => {
      void outer.register(async (inner) => {
        await inner.register(drsFastify, options({}));
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
    const drs = drsMiddleware(options(more) as never);
    app.post('/files/:name', drs, (_req, res) => void res.json({}));
    app.post('/files', drs, (_req, res) => void res.json({}));
    const server = await listen(app);
    closing.push(() => server.close());
    return async (path, header, sent) =>
      codeIn((await send(server.url + path, [header, JSON_TYPE], sent)).body);
  },
  async Fastify(more) {
    const app = fastify();
    await app.register(drsFastify, options(more));
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
    app.use('/files/*', drsHono(options(more) as never));
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
