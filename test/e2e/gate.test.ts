import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { startService } from '../support/service-in-process.js';
import { metricOf, type RunningService } from '../support/service.js';
import { mcpChain } from '../gate/decide.js';
import { encode, liveCall } from '../middleware/call.js';
import { send } from '../middleware/http.js';

const args = { tool: 'search', query: 'tea' };
const bundle = () => encode(liveCall(mcpChain, args));
const call = (more: object = {}) => ({
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: 'search', arguments: { query: 'tea' } },
  ...more,
});

let service: RunningService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const gate = async (asked: object) => {
  const response = await service.post('/v1/gate', asked);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

describe('POST /v1/gate', () => {
  it('allows a signed call once', async () => {
    const asked = {
      protocol: 'mcp',
      method: 'POST',
      headers: { 'x-DRS-bundle': bundle(), Authorization: 'x' },
      body: call(),
    };
    const { status, body } = await gate(asked);
    expect(status).toBe(200);
    expect(body).toEqual({
      allow: true,
      gated: true,
      status: 200,
      context: {
        root_principal: mcpChain.parties[0]?.did,
        chain_depth: 2,
        leaf_policy: expect.anything() as unknown,
        tool_server: expect.any(String) as unknown,
        agent: mcpChain.parties.at(-1)?.did,
        command: '/mcp/tools/call',
        tool: 'search',
        invocation: expect.stringMatching(/^inv:/) as unknown,
        receipts: expect.any(Array) as unknown,
        root_type: 'human',
        consent_record: expect.objectContaining({ session_id: 'session-1' }) as unknown,
        expires_at: expect.any(Number) as unknown,
        binding: 'match',
      },
    });
    expect(await gate(asked)).toMatchObject({
      status: 200,
      body: {
        allow: false,
        gated: true,
        status: 409,
        response: {
          jsonrpc: '2.0',
          id: 7,
          error: { code: -32010, message: expect.stringMatching(/^DRS: REPLAY_DETECTED: ./) as string },
        },
      },
    });
  });
});

describe('/gate/*', () => {
  it('allows a signed call once', async () => {
    const sent = bundle();
    const allowedCalls = async () => {
      const text = await (await fetch(`${service.url}/metrics`)).text();
      return metricOf(text, 'drs_gate_decisions_total{protocol="mcp",decision="allow",code=""}');
    };
    const before = await allowedCalls();
    const ask = () =>
      send(
        `${service.url}/gate/mcp/a/b`,
        [
          ['X-DRS-Bundle', sent],
          ['Content-Type', 'application/json'],
        ],
        JSON.stringify(call()),
      );
    const allowed = await ask();
    expect(allowed).toMatchObject({ status: 200, body: '' });
    expect(allowed.headers).toMatchObject({
      'x-drs-root-principal': mcpChain.parties[0]?.did,
      'x-drs-agent': mcpChain.parties.at(-1)?.did,
      'x-drs-chain-depth': '2',
      'x-drs-command': '/mcp/tools/call',
      'x-drs-tool': 'search',
      'x-drs-binding': 'match',
      'x-envoy-auth-headers-to-remove':
        'x-drs-root-name,x-drs-session-id,x-drs-correlation-id,x-drs-approved-by,x-drs-context,x-drs-observed',
    });
    const replayed = await ask();
    expect(replayed).toMatchObject({
      status: 409,
      headers: { 'content-type': 'application/json', 'x-drs-code': 'REPLAY_DETECTED' },
      body: { jsonrpc: '2.0', id: 7, error: { code: -32010 } },
    });
    // `fetch` joins a header that comes twice, which a proxy may refuse.
    const denied = await fetch(`${service.url}/gate/mcp`, { method: 'POST', body: JSON.stringify(call()) });
    expect(denied.headers.get('content-type')).toBe('application/json');
    expect((await allowedCalls()) - before).toBe(1);
  });
});

describe('without SERVER_IDENTITY', () => {
  let nameless: RunningService;
  beforeAll(async () => {
    nameless = await startService({
      SERVER_IDENTITY: undefined,
      GRPC_PORT: '0',
    });
  });
  afterAll(() => nameless.stop());

  it('the gate refuses calls at every door, and says what to set; what needs no bundle passes', async () => {
    const refusal = {
      code: 'TOOL_SERVER_MISMATCH',
      detail: expect.stringContaining('which its operator has to set (SERVER_IDENTITY)') as string,
    };
    const asked = { protocol: 'mcp', headers: { 'X-DRS-Bundle': bundle() }, body: call() };
    const described = await nameless.post('/v1/gate', asked);
    expect(await described.json()).toMatchObject({
      allow: false,
      status: 403,
      response: { error: { data: refusal } },
    });
    const proxied = await nameless.post('/gate/mcp', call(), { 'X-DRS-Bundle': bundle() });
    expect(proxied.status).toBe(403);
    expect(await proxied.json()).toMatchObject({ error: { data: refusal } });
    const client = clientOf(AUTHORIZATION, grpcPortOf(nameless));
    const http = {
      method: 'POST',
      path: '/',
      headers: { 'x-drs-bundle': bundle() },
      body: JSON.stringify(call()),
    };
    expect(await callOnce(client, 'Check', { attributes: { request: { http } } })).toMatchObject({
      denied_response: {
        status: { code: 'Forbidden' },
        body: expect.stringContaining(refusal.code) as string,
      },
    });
    client.close();
    const ping = { protocol: 'mcp', body: { jsonrpc: '2.0', id: 1, method: 'ping' } };
    expect(await (await nameless.post('/v1/gate', ping)).json()).toMatchObject({ allow: true, gated: false });
  });

  it('/verify accepts calls for any tool server, with a warning at the start', async () => {
    const verdict = await nameless.post('/verify', liveCall(mcpChain, args));
    expect(await verdict.json()).toMatchObject({ valid: true });
    expect(
      nameless.log.filter(({ msg }) => String(msg).startsWith('SERVER_IDENTITY is not set')),
    ).toHaveLength(1);
  });
});
