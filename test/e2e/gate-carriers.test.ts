import { afterAll, beforeAll, expect, it } from 'vitest';
import { generateKey, issueRootDelegation } from '../../src/issue/index.js';
import { signA2aRequests } from '../../src/middleware/a2a/index.js';
import { signFetch } from '../../src/middleware/index.js';
import { signRequest, signToolCall } from '../../src/middleware/mcp/index.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

const [principal, agent] = [generateKey(), generateKey()];
const delegationOf = async (command: string) => ({
  key: agent,
  toolServer: 'https://tools.example',
  chain: [
    await issueRootDelegation({
      key: principal,
      audience: agent.did,
      command,
      policy: {},
      rootType: 'organization',
      expiresAt: Math.floor(Date.now() / 1000) + 3600,
    }),
  ],
});

let service: RunningService;
beforeAll(async () => {
  service = await startService({ WORKER_THREADS: '0' });
});
afterAll(() => service.stop());

const ask = async (protocol: string, headers: Record<string, string>, body: string) =>
  (await service.post('/v1/gate', { protocol, headers, body_text: body })).json();
const allowed = { allow: true, gated: true, context: { agent: agent.did, binding: 'match' } };

it('a gateway that sees only the header, or only _meta, of a signed tool call allows it', async () => {
  const call = async () =>
    signToolCall({ name: 'search', arguments: { query: 'tea' } }, await delegationOf('/mcp/tools/call'));
  const text = (params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  expect(await ask('mcp', {}, text(await call()))).toMatchObject(allowed);
  const { _meta: meta, ...params } = await call();
  const bundle = (meta as Record<string, string>)['X-DRS-Bundle'] as string;
  expect(await ask('mcp', { 'x-drs-bundle': bundle }, text(params))).toMatchObject(allowed);
});

/** What a signing client sends. */
async function sentBy(send: (fetch: typeof globalThis.fetch) => Promise<unknown>) {
  const sent: { bundle: string; body: string }[] = [];
  await send((_, init) => {
    const bundle = new Headers(init?.headers).get('x-drs-bundle') ?? '';
    sent.push({ bundle, body: init?.body as string });
    return Promise.resolve(new Response('{}'));
  });
  return sent[0] ?? { bundle: '', body: '' };
}

it('a gateway allows what signA2aRequests and signFetch send in the header', async () => {
  const a2a = await sentBy(async (fetch) =>
    signA2aRequests(await delegationOf('/a2a'), fetch)('https://agent.example', {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { n: 1 } }),
    }),
  );
  expect(await ask('a2a', { 'X-DRS-Bundle': a2a.bundle }, a2a.body)).toMatchObject(allowed);
  const http = await sentBy(async (fetch) =>
    signFetch(await delegationOf('/tools'), { fetch })('https://tools.example/x', {
      method: 'POST',
      body: JSON.stringify({ tool: 'search', query: 'tea' }),
    }),
  );
  expect(await ask('http', { 'X-DRS-Bundle': http.bundle }, http.body)).toMatchObject(allowed);
});

it('a gateway checks what signRequest signs; with GATE_PASS_METHODS one method passes', async () => {
  const params = { uri: 'file:///notes.md' };
  const read = (signed: object) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: signed });
  const sign = async () => signRequest('resources/read', params, await delegationOf('/mcp'));
  expect(await ask('mcp', {}, read(await sign()))).toMatchObject({
    ...allowed,
    context: { ...allowed.context, command: '/mcp/resources/read', tool: 'resources/read' },
  });
  const denied = { allow: false, gated: true, status: 403 };
  const codeOf = (code: string) => ({ response: { error: { data: { code } } } });
  expect(await ask('mcp', {}, read(params))).toMatchObject({ ...denied, ...codeOf('MISSING_BUNDLE') });
  const other = { ...(await sign()), uri: 'file:///etc/passwd' };
  expect(await ask('mcp', {}, read(other))).toMatchObject({ ...denied, ...codeOf('BINDING_MISMATCH') });

  const open = await startService({ GATE_PASS_METHODS: 'resources/read', WORKER_THREADS: '0' });
  try {
    const asked = async (method: string) => {
      const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      return (await open.post('/v1/gate', { protocol: 'mcp', headers: {}, body_text: text })).json();
    };
    expect(await asked('resources/read')).toMatchObject({ allow: true, gated: false });
    expect(await asked('tools/call')).toMatchObject(denied);
    expect(await asked('acme/delete')).toMatchObject({ ...denied, ...codeOf('UNKNOWN_METHOD') });
  } finally {
    await open.stop();
  }
});
