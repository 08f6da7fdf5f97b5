import { afterAll, describe, expect, it } from 'vitest';
import { createConsent, generateKey, IssueError, issueRootDelegation } from '../../src/issue/index.js';
import { drsContext, drsFetch, signFetch } from '../../src/middleware/index.js';
import { drsA2a, drsUserBuilder } from '../../src/middleware/a2a/index.js';
import { createVerifier } from '../../src/engine/create-verifier.js';
import { encode, liveCall, liveChain, OPEN } from './call.js';
import { listen, send } from './http.js';

/** Issue 16 item 17: plain HTTP for agents, and the A2A SDK's user. */
const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());

const [person, agent] = [generateKey(), generateKey()];
const root = issueRootDelegation({
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

describe('signFetch', () => {
  it('signs the body of each request', async () => {
    const call = signFetch(delegation, { fetch: direct });
    const init = { method: 'POST', body: JSON.stringify(args) };
    for (const url of ['https://tools.example/search', new URL('https://tools.example/search')]) {
      const answer = await call(url, init);
      expect(await answer.json()).toEqual({ agent: agent.did, command: '/tools' });
    }
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
    expect(inits.map((given) => given?.redirect)).toEqual(['error', 'follow']);
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
