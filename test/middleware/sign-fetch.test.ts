import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { AgentCard } from '@a2a-js/sdk';
import express from 'express';
import { Request as OtherRequest } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createConsent, generateKey, IssueError, issueRootDelegation } from '../../src/issue/index.js';
import { drsContext, drsFetch, drsMiddleware, signFetch } from '../../src/middleware/index.js';
import { drsA2a, drsExtension, drsUserBuilder, signA2aRequests } from '../../src/middleware/a2a/index.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import { listen, send, type TestServer } from './http.js';

/** Issue 16 item 17: plain HTTP for agents, and the A2A SDK's user. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());

const [person, agent] = [generateKey(), generateKey()];
const root = await issueRootDelegation({
  key: person,
  audience: agent.did,
  command: '/tools',
  policy: { allowed_tools: ['search'] },
  consent: createConsent({ text: 'Search.', locale: 'en', method: 'explicit-ui-click' }),
});
const delegation = { key: agent, chain: [root], toolServer: 'https://tools.example' };
const args = { tool: 'search', query: 'tea' };

/** A tool server behind the middleware, called without a network. */
const served = drsFetch({ verifier, ...OPEN, serverIdentity: 'https://tools.example', tool: 'search' }, () =>
  Response.json({ agent: drsContext().agent, command: drsContext().command }),
);
const direct = ((input: string | URL | Request, init?: RequestInit) =>
  served(new Request(input, init))) as typeof fetch;

const a2aRoot = await issueRootDelegation({
  key: person,
  audience: agent.did,
  command: '/a2a',
  policy: {},
  consent: createConsent({ text: 'Talk for me.', locale: 'en', method: 'explicit-ui-click' }),
});
const a2aDelegation = { key: agent, chain: [a2aRoot], toolServer: 'https://agent.example' };

describe('a redirect', () => {
  const arrived: { url: string; bundle: unknown }[] = [];
  let status = 0;
  let from: TestServer;
  let to: TestServer;
  beforeAll(async () => {
    to = await listen(({ url = '', headers }, res) => {
      arrived.push({ url, bundle: headers['x-drs-bundle'] });
      res.end('{}');
    });
    from = await listen(({ url = '' }, res) => {
      res.writeHead(status, { location: `${to.url}${url}` }).end('moved');
    });
  });
  beforeEach(() => (arrived.length = 0));
  afterAll(() => Promise.all([from.close(), to.close()]));

  const post = (body: object) => ({ method: 'POST', body: JSON.stringify(body) });
  const rpc = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { n: 1 } };
  const CALLS = [
    ['signA2aRequests over JSON-RPC', () => signA2aRequests(a2aDelegation), '/a2a', post(rpc)],
    ['signA2aRequests over REST', () => signA2aRequests(a2aDelegation), '/message:send', post({ n: 1 })],
    ['signA2aRequests with GET', () => signA2aRequests(a2aDelegation), '/tasks/7', {}],
    [
      'signA2aRequests that is told to follow',
      () => signA2aRequests(a2aDelegation),
      '/tasks/7',
      { redirect: 'follow' },
    ],
    ['signFetch', () => signFetch(delegation), '/search', post(args)],
  ] as const;

  it.each(CALLS.flatMap((row) => [301, 302, 303, 307, 308].map((code) => [...row, code] as const)))(
    '%s takes the bundle to no other server',
    async (_, signing, path, init, code) => {
      status = code;
      await expect(signing()(`${from.url}${path}`, init)).rejects.toThrow(
        `redirects this signed request to "${to.url}${path}"`,
      );
      expect(arrived).toEqual([]);
    },
  );

  it('is followed with the agent card, which needs no bundle', async () => {
    status = 302;
    const path = '/.well-known/agent-card.json';
    expect((await signA2aRequests(a2aDelegation)(`${from.url}${path}`)).status).toBe(200);
    expect(arrived).toEqual([{ url: path, bundle: undefined }]);
  });

  it('that a browser hides is refused too', async () => {
    const opaque: typeof fetch = () =>
      Promise.resolve(Object.defineProperty(Response.error(), 'type', { value: 'opaqueredirect' }));
    await expect(signA2aRequests(a2aDelegation, opaque)('https://a.example/tasks')).rejects.toThrow(
      'to another address',
    );
  });
});

describe('signA2aRequests', () => {
  const recorded = () => {
    const sent: { url: string; headers: Headers }[] = [];
    const record = ((input: string | URL | Request, init?: RequestInit) => {
      sent.push({
        url: String(input instanceof Request ? input.url : input),
        headers: new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined)),
      });
      return Promise.resolve(new Response('{}'));
    }) as typeof fetch;
    return { sent, call: signA2aRequests(a2aDelegation, record) };
  };

  it('signs a Request with its own headers and body', async () => {
    const { sent, call } = recorded();
    const body = JSON.stringify({ n: 1 });
    await call(
      new Request('https://a.example/message:send', { method: 'POST', body, headers: { 'X-Own': '1' } }),
    );
    const { headers } = sent[0] ?? { headers: new Headers() };
    expect(headers.get('x-own')).toBe('1');
    const bundle = JSON.parse(Buffer.from(headers.get('x-drs-bundle') ?? '', 'base64url').toString()) as {
      invocation: string;
    };
    const claims = JSON.parse(
      Buffer.from(bundle.invocation.split('.')[1] ?? '', 'base64url').toString(),
    ) as object;
    expect(claims).toMatchObject({ cmd: '/a2a/SendMessage', args: { tool: 'SendMessage', n: 1 } });
  });

  it('names the extension beside others', async () => {
    const { sent, call } = recorded();
    const headers = { 'A2A-Extensions': 'https://a.example/x', 'X-A2A-Extensions': 'https://a.example/y' };
    await call('https://a.example/tasks', { headers });
    await call('https://a.example/tasks');
    const { uri } = drsExtension({ serverIdentity: 'https://a.example' });
    expect(sent.map(({ headers: own }) => [own.get('a2a-extensions'), own.get('x-a2a-extensions')])).toEqual([
      [`https://a.example/x, ${uri}`, `https://a.example/y, ${uri}`],
      [uri, null],
    ]);
  });

  it.each([
    ['https://a.example/.well-known/agent-card.json', {}],
    ['https://a.example/a2a', { method: 'POST', body: 'no JSON' }],
    ['https://a.example/a2a', { method: 'POST', body: '{"result":1}' }],
    ['https://a.example/a2a', { method: 'GET' }],
    ['https://a.example/tasks', { method: 'OPTIONS' }],
  ])('sends what is no call as it is: %s', async (url, init) => {
    const { sent, call } = recorded();
    await call(url, init);
    expect(sent.map(({ headers }) => headers.has('x-drs-bundle'))).toEqual([false]);
  });

  it.each([
    ['/message:send', { body: '[]' }, 'the body is not a JSON object'],
    ['/message:send', { body: 'x' }, 'not strict JSON'],
    ['/message:send', { body: new URLSearchParams() }, 'its body is not a string'],
    ['/message:send', { body: '{"tool":1}' }, 'there is a member or parameter "tool"'],
    ['/tasks/7:cancel?id=8', {}, '"id" comes with two values'],
    ['/a2a', { body: '{"method":"x","params":[]}' }, 'params is not an object'],
    ['/a2a', { body: '{"method":"x","params":{"tool":1}}' }, 'params has a member named "tool"'],
  ])('sends nothing that cannot be signed: %s %j', async (path, init, says) => {
    const { sent, call } = recorded();
    await expect(call(`https://a.example${path}`, { method: 'POST', ...init })).rejects.toThrow(says);
    expect(sent).toEqual([]);
  });
});

it.each([[''], ['any'], [undefined], [7]])('an agent card does not say the server identity %j', (name) => {
  expect(() => drsExtension({ serverIdentity: name as string })).toThrow(TypeError);
  for (const askAt of ['', 'mailto:ada@example.com', 7])
    expect(() => drsExtension({ serverIdentity: 'https://a.example', askAt: askAt as string })).toThrow(
      /^askAt is (""|a string|7): expected an http or https URL$/,
    );
});

it('an agent card has the extension in the form of the SDK', () => {
  const entry: NonNullable<AgentCard['capabilities']>['extensions'][number] = drsExtension({
    serverIdentity: 'https://a.example',
  });
  expect(entry.params).toEqual({
    commandPrefix: '/a2a/',
    toolServer: 'https://a.example',
    header: 'X-DRS-Bundle',
  });
});

describe('signFetch', () => {
  it('signs the body of each request', async () => {
    const call = signFetch(delegation, { fetch: direct });
    const init = { method: 'POST', body: JSON.stringify(args) };
    for (const url of ['https://tools.example/search', new URL('https://tools.example/search')]) {
      const answer = await call(url, init);
      expect(await answer.json()).toEqual({ agent: agent.did, command: '/tools' });
    }
  });

  it('says what to do about a bundle that is too long for a header', async () => {
    const sent: unknown[] = [];
    const record = ((...call: unknown[]) => (
      sent.push(call),
      Promise.resolve(new Response())
    )) as typeof fetch;
    const init = { method: 'POST', body: JSON.stringify({ ...args, text: 'x'.repeat(40_000) }) };
    await expect(signFetch(delegation, { fetch: record })('https://tools.example/', init)).rejects.toThrow(
      /^cannot sign this request: its bundle has \d+ characters, and headers have at most 60000; send less, or a body with the option carrier: 'auto'$/,
    );
    expect(sent).toEqual([]);
    await signFetch(delegation, { fetch: record, carrier: 'auto' })('https://tools.example/', init);
    expect(sent).toHaveLength(1);
  });

  it('signs a request of another realm, such as that of undici', async () => {
    const sent: [unknown, Headers][] = [];
    const record = ((input: unknown, init?: RequestInit) => {
      sent.push([input, init?.headers as Headers]);
      return Promise.resolve(new Response());
    }) as typeof fetch;
    const other = new OtherRequest('https://tools.example/search', { method: 'POST', headers: { a: 'b' } });
    const call = signFetch(delegation, { fetch: record, sign: ({ pathname }) => pathname === '/search' });
    await call(other, { body: JSON.stringify(args) });
    const [[input, headers] = []] = sent;
    expect(input).toBe(other);
    expect([headers?.get('a'), headers?.get('x-drs-bundle')]).toEqual([
      'b',
      expect.stringMatching(/^[\w-]+$/),
    ]);
  });

  it('signs for the command that it is told', async () => {
    const call = signFetch(delegation, { fetch: direct, command: ({ pathname }) => `/tools${pathname}` });
    const answer = await call('https://tools.example/search', { method: 'POST', body: JSON.stringify(args) });
    expect(await answer.json()).toMatchObject({ command: '/tools/search' });
  });

  it('sends what has no body, or is not to be signed, as it is', async () => {
    const sent: [unknown, unknown][] = [];
    const record = ((input: unknown, init: unknown) => {
      sent.push([input, init]);
      return Promise.resolve(new Response());
    }) as typeof fetch;
    const call = signFetch(delegation, { fetch: record, sign: ({ host }) => host === 'tools.example' });
    await call('https://tools.example/list');
    const elsewhere = { method: 'POST', body: 'not JSON' };
    await call('https://other.example/', elsewhere);
    expect(sent).toEqual([
      ['https://tools.example/list', undefined],
      ['https://other.example/', elsewhere],
    ]);
  });

  it('follows no redirect with a bundle, unless it is told to', async () => {
    const inits: (RequestInit | undefined)[] = [];
    const record = ((_input: unknown, init?: RequestInit) => {
      inits.push(init);
      return Promise.resolve(new Response());
    }) as typeof fetch;
    const call = signFetch(delegation, { fetch: record });
    const init = { method: 'POST', body: JSON.stringify(args) };
    await call('https://tools.example/', init);
    await call('https://tools.example/', { ...init, redirect: 'follow' });
    expect(inits.map((given) => given?.redirect)).toEqual(['manual', 'follow']);
  });

  it.each([
    ['a form', new URLSearchParams({ a: 'b' })],
    ['what is no JSON', 'a=b'],
    ['an array', '[]'],
    ['a member twice', '{"tool":"search","tool":"search"}'],
  ])('sends nothing where the body is %s', async (_, body) => {
    const call = signFetch(delegation, { fetch: () => Promise.reject(new Error('sent')) });
    await expect(call('https://tools.example/', { method: 'POST', body })).rejects.toThrow(
      /cannot sign the body/,
    );
  });

  describe('with arguments in path and query', () => {
    const parameters = ({ pathname, searchParams }: URL, method: string) => {
      const [, place, query = ''] = pathname.split('/').slice(-3);
      if (place !== 'search') return null;
      const all = { query: decodeURIComponent(query), ...Object.fromEntries(searchParams) };
      return method === 'POST' ? all : { tool: 'search', ...all };
    };
    const post = (body: object) => ({ method: 'POST', body: JSON.stringify(body) });
    const CALLS = [
      ['/search/t%C3%A9?page=2', {}],
      ['/search/tea', { method: 'HEAD' }],
      ['/search/tea?page=a+b', post({ tool: 'search', n: 1 })],
    ] as const;
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-sign-'));
    let service: RunningService;
    let app: TestServer;
    beforeAll(async () => {
      const file = path.join(folder, 'routes.json');
      const route = { path: '/search/{query}', query: ['page'], tool: 'search' };
      writeFileSync(
        file,
        JSON.stringify({ routes: ['GET', 'HEAD', 'POST'].map((method) => ({ ...route, method })) }),
      );
      service = await startService({ GATE_ROUTES: file, SERVER_IDENTITY: 'https://tools.example' });
      const drs = drsMiddleware<express.Request>({
        ...{ verifier, ...OPEN, serverIdentity: 'https://tools.example', tool: 'search' },
        parameters: ({ params, query }) => ({
          query: params['query'] as string,
          page: query['page'] as string | undefined,
        }),
      });
      app = await listen(
        express().all('/search/:query', drs, (req, res) => {
          res.json(drsContext(req).tool);
        }),
      );
    });
    afterAll(async () => {
      await service.stop();
      await app.close();
      rmSync(folder, { recursive: true });
    });

    it.each(CALLS)('signs what a gate with routes, and middleware, expect: %s %j', async (where, init) => {
      for (const base of [`${service.url}/gate/http`, app.url]) {
        expect((await signFetch(delegation, { parameters })(`${base}${where}`, init)).status).toBe(200);
        const without = signFetch(delegation, { parameters: () => null });
        expect((await without(`${base}${where}`, init)).status).not.toBe(200);
      }
    });

    it('sets a content type only where there is a body', async () => {
      const types: (string | null)[] = [];
      const record = ((_input: unknown, init?: RequestInit) => {
        types.push(new Headers(init?.headers).get('content-type'));
        return Promise.resolve(new Response());
      }) as typeof fetch;
      const call = signFetch(delegation, { parameters, fetch: record });
      for (const [where, init] of CALLS) await call(`https://tools.example${where}`, init);
      expect(types).toEqual([null, null, 'application/json']);
    });

    it('leaves a request as it would be without the option, where it gives null', async () => {
      const sent: unknown[] = [];
      const record = ((input: unknown, init: unknown) => {
        sent.push(input, init);
        return Promise.resolve(new Response());
      }) as typeof fetch;
      await signFetch(delegation, { parameters, fetch: record })('https://tools.example/list');
      expect(sent).toEqual(['https://tools.example/list', undefined]);
      const call = signFetch(delegation, { parameters: () => null, fetch: direct });
      expect((await call('https://tools.example/search', post(args))).status).toBe(200);
    });

    it.each([
      [
        'an argument in both places',
        { query: 'tea' },
        post(args),
        '"query" is in parameters and in the body',
      ],
      ['the tool in both places', { tool: 'search' }, post(args), '"tool" is in parameters and in the body'],
      ['a number', { page: 2 }, {}, 'an object of strings, or null'],
      ['what is undefined', { page: undefined }, {}, 'an object of strings, or null'],
      ['a text', 'page=2', {}, 'an object of strings, or null'],
    ])('sends nothing where there is %s', async (_, answer, init, says) => {
      const call = signFetch(delegation, {
        parameters: () => answer as never,
        fetch: () => Promise.reject(new Error('sent')),
      });
      const sent = call('https://tools.example/search', init);
      await expect(sent).rejects.toThrow(says);
      await expect(sent).rejects.toBeInstanceOf(TypeError);
    });
  });

  it('sends nothing that the delegation does not allow', async () => {
    const call = signFetch(delegation, { fetch: () => Promise.reject(new Error('sent')) });
    const body = JSON.stringify({ tool: 'delete' });
    await expect(call('https://tools.example/', { method: 'POST', body })).rejects.toThrow(IssueError);
  });
});

it('the user of an A2A request is the agent that signed it', async () => {
  const chain = liveChain(1, { cmd: '/a2a', policy: { allowed_tools: ['SendMessage'] } });
  const drs = drsA2a({ verifier, ...OPEN, optional: true });
  const server = await listen((req, res) => {
    drs(req, res, () => {
      void drsUserBuilder(req).then((user) => res.end(JSON.stringify(user)));
    });
  });
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage' });
  const bundle = encode(liveCall(chain, { tool: 'SendMessage' }, { cmd: '/a2a/SendMessage' }));
  expect(await send(server.url, [['X-DRS-Bundle', bundle]], body)).toMatchObject({
    body: { isAuthenticated: true, userName: chain.parties[1]?.did },
  });
  expect(await send(server.url, [], body)).toMatchObject({ body: { isAuthenticated: false, userName: '' } });
  await server.close();
});
