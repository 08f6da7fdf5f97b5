import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import express from 'express';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import {
  createMemoryReplayStore,
  drsContext,
  DrsRefusalError,
  drsMiddleware,
  type DrsContext,
  type NodeMiddlewareOptions,
} from '../../src/middleware/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { encode, liveCall, liveChain, OPEN, OPEN_ROUTE } from './call.js';
import { listen, send, type TestServer } from './http.js';

/** Issue 16 items 1, 4, 5 and 7, over Express as the issue tried it. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());
const servers: TestServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const SERVER = 'https://weather.example';
const chain = liveChain(2, { cmd: '/tools' });
const principal = chain.parties[0]?.did as string;
const agent = chain.parties[2]?.did as string;
const weather = { tool: 'search', city: 'Zürich' };
const signed = (args: object = weather, overrides: object = {}) =>
  [
    'X-DRS-Bundle',
    encode(liveCall(chain, args, { cmd: '/tools/search', tool_server: SERVER, ...overrides })),
  ] as const;

type Options = Partial<NodeMiddlewareOptions<express.Request>>;
const serve = async (
  options: Options,
  handler: (req: express.Request) => unknown = (req) => drsContext(req),
) => {
  const app = express();
  const drs = drsMiddleware({
    verifier,
    ...OPEN,
    parameters: () => ({}),
    ...options,
  } as NodeMiddlewareOptions<express.Request>);
  app.post('/:name', drs, express.json(), (req, res) => {
    res.json(handler(req));
  });
  app.use((error: Error, _req: express.Request, res: express.Response, next: express.NextFunction) => {
    if (error instanceof DrsRefusalError) {
      res.status(error.status).set(error.headers).json({ mine: error.code, body: error.body });
    } else next(error);
  });
  const server = await listen(app);
  servers.push(server);
  return (header: readonly [string, string], args: object = weather, path = '/search') =>
    send(`${server.url}${path}`, [header, ['Content-Type', 'application/json']], JSON.stringify(args));
};
/** The same as a handler of `node:http`, which looks at no error. */
const serveBare = async (options: Options, handler: () => void) => {
  const drs = drsMiddleware({ verifier, ...OPEN, ...options } as NodeMiddlewareOptions);
  const server = await listen((req, res) =>
    drs(req, res, () => {
      handler();
      res.end('{}');
    }),
  );
  servers.push(server);
  return (header: readonly [string, string], args: object = weather) =>
    send(server.url, [header, ['Content-Type', 'application/json']], JSON.stringify(args));
};
const refused = (status: number, code: string) => ({ status, body: { valid: false, error: { code } } });

describe('a route', () => {
  it('can tell its tool and command by the request', async () => {
    const post = await serve({
      tool: ({ params }) => params['name'] as string,
      command: ({ params }) => `/tools/${params['name'] as string}`,
    });
    expect(await post(signed())).toMatchObject({ status: 200 });
    expect(await post(signed(), weather, '/fetch')).toMatchObject(refused(403, 'COMMAND_MISMATCH'));
    const fetch = { ...weather, tool: 'fetch' };
    expect(await post(signed(fetch), fetch)).toMatchObject(refused(403, 'TOOL_MISMATCH'));
  });

  it.each([
    ['gives no tool', { tool: () => undefined as never }],
    [
      'throws',
      {
        command: () => {
          throw new Error('no route');
        },
      },
    ],
  ])('is served to nobody where a function in its options %s', async (_, options) => {
    const onError = vi.fn();
    const handler = vi.fn();
    const post = await serveBare({ ...options, onError }, handler);
    expect(await post(signed())).toMatchObject({
      status: 503,
      body: { error: { code: 'VERIFIER_UNAVAILABLE' } },
    });
    expect(onError).toHaveBeenCalledOnce();
    expect(handler).not.toHaveBeenCalled();
  });

  it('runs its handler once where that throws', async () => {
    const onError = vi.fn();
    const handler = vi.fn(() => {
      throw new Error('handler');
    });
    const post = await serveBare({ tool: 'search', onError }, handler);
    expect(await post(signed())).toMatchObject({ status: 500 });
    expect(handler).toHaveBeenCalledOnce();
    expect(onError).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ message: 'handler' }));
  });
});

describe('trust that the verifier was not told of', () => {
  it('is enforced: roots', async () => {
    expect(await (await serve({ tool: 'any', trustedRoots: [principal] }))(signed())).toMatchObject({
      status: 200,
    });
    expect(await (await serve({ tool: 'any', trustedRoots: [agent] }))(signed())).toMatchObject(
      refused(403, 'UNTRUSTED_ROOT'),
    );
  });

  it('is enforced: tool server', async () => {
    expect(await (await serve({ tool: 'any', serverIdentity: SERVER }))(signed())).toMatchObject({
      status: 200,
    });
    expect(
      await (
        await serve({ tool: 'any', serverIdentity: 'https://other.example' })
      )(signed()),
    ).toMatchObject(refused(403, 'TOOL_SERVER_MISMATCH'));
  });
});

describe('replay scopes', () => {
  it('let a call pass two places with one store, and each of them once', async () => {
    const replayStore = createMemoryReplayStore();
    const inner = await serve({ ...OPEN_ROUTE, replayStore, replayScope: 'inner' });
    const outer = await serve({ ...OPEN_ROUTE, replayStore });
    const same = await serve({ ...OPEN_ROUTE, replayStore, replayScope: 'http' });
    const one = signed();
    expect(await outer(one)).toMatchObject({ status: 200 });
    expect(await inner(one)).toMatchObject({ status: 200 });
    for (const post of [outer, inner, same]) {
      expect(await post(one)).toMatchObject(refused(409, 'REPLAY_DETECTED'));
    }
  });
});

describe('the context', () => {
  it('cannot be used to change what later calls are checked by', async () => {
    const seen: DrsContext[] = [];
    const post = await serve({ tool: 'search' }, (req) => {
      const context = drsContext(req);
      seen.push(context);
      expect(() => {
        (context.leaf_policy as { max_calls: number }).max_calls = 10;
      }).toThrow(TypeError);
      expect(() => (context.leaf_policy.allowed_tools as string[]).push('delete')).toThrow(TypeError);
      return null;
    });
    const other = { ...weather, tool: 'delete' };
    expect(await post(signed())).toMatchObject({ status: 200 });
    expect(await post(signed(other), other)).toMatchObject(refused(403, 'POLICY_VIOLATION'));
    expect(await post(signed())).toMatchObject({ status: 200 });
    expect(seen[0]).not.toBe(seen[1]);
    expect(seen[1]?.leaf_policy).toEqual({ allowed_tools: ['search', 'fetch'] });
  });
});

describe('a refusal', () => {
  it('leaves a trace: in onRefused and in the channel, with who it was where that is known', async () => {
    const onRefused = vi.fn();
    const published: unknown[] = [];
    const listener = (message: unknown) => published.push(message);
    subscribe('drs:refusal', listener);
    const post = await serve({ tool: 'search', replayStore: createMemoryReplayStore(), onRefused });
    const one = signed(weather, { jti: 'inv:again' });
    await post(one);
    await post(one);
    await post(['X-Other', '1']);
    unsubscribe('drs:refusal', listener);
    expect(onRefused.mock.calls).toEqual([
      [
        {
          code: 'REPLAY_DETECTED',
          status: 409,
          message: expect.stringContaining('inv:again') as string,
          suggestion: expect.any(String) as string,
        },
        {
          protocol: 'http',
          tool: 'search',
          context: expect.objectContaining({
            agent,
            root_principal: principal,
            invocation: 'inv:again',
          }) as object,
          at: expect.stringMatching(/^20.*Z$/) as string,
          observed: false,
        },
      ],
      [
        expect.objectContaining({ code: 'MISSING_BUNDLE', status: 401 }),
        expect.objectContaining({ protocol: 'http', context: null }),
      ],
    ]);
    expect(published).toMatchObject([
      { event: 'drs:refusal', code: 'REPLAY_DETECTED', protocol: 'http', context: { agent } },
      { event: 'drs:refusal', code: 'MISSING_BUNDLE' },
    ]);
  });

  it('is answered even where its subscriber throws', async () => {
    const onError = vi.fn();
    const onRefused = () => {
      throw new Error('subscriber');
    };
    const post = await serve({ tool: 'search', onRefused, onError });
    expect(await post(['X-Other', '1'])).toMatchObject({ status: 401 });
    expect(onError).toHaveBeenCalledWith(expect.objectContaining({ message: 'subscriber' }));
  });

  it('goes to next() where that is asked for', async () => {
    const post = await serve({ tool: 'search', errors: 'next' });
    expect(await post(['X-Other', '1'])).toMatchObject({
      status: 401,
      headers: { 'www-authenticate': 'DRS' },
      body: { mine: 'MISSING_BUNDLE', body: { error: { code: 'MISSING_BUNDLE' } } },
    });
  });
});
