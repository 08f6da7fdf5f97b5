import { describe, expect, it } from 'vitest';
import type { RequestBody } from '../../src/gate/request.js';
import type { GateCall, GateDecision } from '../../src/service/gate-decider.js';
import type { RouteContext } from '../../src/service/core.js';
import { answerOf } from '../../src/service/routes/gate-route.js';
import { routeTables } from '../../src/service/routes/table.js';
import { openServer, type Sent } from '../support/noted-wire.js';

/** What a route reads of a question, and how it answers: nothing decides here. */

const PASS: GateDecision = { kind: 'pass' };
const DENIED: GateDecision = {
  ...{ kind: 'deny', code: 'TOOL_MISMATCH' },
  response: {
    status: 403,
    headers: { 'content-type': 'application/json', allow: 'POST' },
    body: {} as never,
  },
};

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

function open(decision: GateDecision | Error = PASS) {
  const service = openServer({ maxBodyBytes: 1000 });
  const noted: unknown[] = [];
  const calls: GateCall[] = [];
  const decider = {
    decide: (call: GateCall) => {
      calls.push(call);
      return decision instanceof Error ? Promise.reject(decision) : Promise.resolve(decision);
    },
    unread: (asked: object, reason: string) => (noted.push({ ...asked, reason }), DENIED),
  };
  const { routes } = routeTables({
    ...{ ...service, gate: { decider, signer: null } },
  } as unknown as RouteContext).service;
  const send = (path: string, sent: Sent) => {
    const route = routes.get(path);
    if (route === undefined) throw new Error(`there is no ${path}`);
    return service.ask(route, { path, ...sent });
  };
  const ask = async (sent: Sent) => {
    const wire = send('/gate/mcp', sent);
    await nextTurn();
    return { wire, noted, call: calls[0], request: calls[0]?.request };
  };
  const askApi = async (body: string) => {
    const wire = send('/v1/gate', { body });
    await nextTurn();
    return { noted, call: calls[0], answer: wire.answers[0] };
  };
  return { ...service, ask, askApi, send, noted, calls };
}

describe('the request that a proxy asks about', () => {
  it('is what came', async () => {
    const { send, calls, gatekeeper } = open();
    const wire = send('/gate/mcp', { body: '{}' });
    await nextTurn();
    expect(calls).toMatchObject([
      { protocol: 'mcp', endpoint: 'gate', request: { method: 'POST', path: null, body: { text: '{}' } } },
    ]);
    expect([calls[0]?.isWanted?.(), wire.answers[0]?.status]).toEqual([false, 200]);
    expect(gatekeeper.pending).toBe(0);
  });

  it.each<[string, string | undefined, string | null]>([
    ['/gate/mcp', undefined, null],
    ['/gate/mcp', 'a=1', null],
    ['/gate/mcp/a/b', undefined, '/a/b'],
    ['/gate/mcp/a/b', 'a=1', '/a/b?a=1'],
    ['/gate/mcp/', '', '/?'],
  ])('has the path behind %s with the query %s', async (path, query, expected) => {
    expect((await open().ask({ path, query })).request?.path).toBe(expected);
  });

  it.each<[string, [string, string][], string]>([
    ['GET', [], 'GET'],
    ['GET', [['x-forwarded-method', 'POST']], 'POST'],
    ['GET', [['x-original-method', 'POST']], 'POST'],
    [
      'GET',
      [
        ['x-original-method', 'PUT'],
        ['x-forwarded-method', 'POST'],
      ],
      'POST',
    ],
    ['POST', [['x-forwarded-method', 'DELETE']], 'DELETE'],
  ])('has the method that its proxy names: %s %j', async (method, headers, named) => {
    expect((await open().ask({ method, headers })).request?.method).toBe(named);
  });

  it('that has a body passes by no name for its method', async () => {
    const named = async (method: string, name: string) =>
      (await open().ask({ method, headers: [['x-forwarded-method', name]], body: '{}' })).request?.method;
    expect(await named('POST', 'GET')).toBe('GET or POST');
    expect(await named('GET', 'DELETE')).toBe('DELETE');
    expect(await named('POST', 'PUT')).toBe('PUT');
  });

  it.each<[Sent, RequestBody]>([
    [
      { headers: [['x-envoy-auth-partial-body', 'true']], body: '{}' },
      { kind: 'too large', reason: 'the proxy sent only a part of the body; raise its limit' },
    ],
    [
      { headers: [['content-type', 'text/plain']], body: '{}' },
      { kind: 'unusable', reason: expect.stringContaining('text/plain') as string },
    ],
    [{ body: 'x'.repeat(1001) }, { kind: 'too large', reason: expect.stringContaining('1000') as string }],
  ])('has no body that can be compared', async (sent, body) => {
    expect((await open().ask(sent)).request?.body).toEqual(body);
  });
});

describe('the answer to a proxy', () => {
  const removed = (names: readonly string[]) => names.map((name) => `x-drs-${name}`).join(',');
  const ALL = [
    ...['root-principal', 'root-name', 'root-type', 'agent', 'chain-depth', 'command', 'tool', 'invocation'],
    ...['session-id', 'correlation-id', 'binding', 'context', 'observed'],
  ];

  it('of a request that passes has no context', () => {
    const headers = { 'x-envoy-auth-headers-to-remove': removed(ALL) };
    expect(answerOf(PASS, false)).toEqual({ status: 200, body: '', headers });
  });

  it('of an allowed call has its context, and names what it does not set', () => {
    const context = {
      ...{ agent: 'did:key:a', root_principal: 'did:key:r', chain_depth: 2, command: '/mcp/tools/call' },
      ...{ tool: 'search', invocation: 'inv:1', receipts: [], root_type: null, expires_at: null },
      binding: 'match',
    } as const;
    const allowed = (token: string | null, more: object = {}) =>
      answerOf({ kind: 'allow', context: { ...context, ...more }, chain: {} as never, token }, false);
    expect(allowed(null)).toMatchObject({
      ...{ status: 200, body: '' },
      headers: {
        ...{ 'X-DRS-Agent': 'did:key:a', 'X-DRS-Tool': 'search', 'X-DRS-Binding': 'match' },
        'x-envoy-auth-headers-to-remove': removed([
          'root-name',
          'root-type',
          'session-id',
          'correlation-id',
          'context',
          'observed',
        ]),
      },
    });
    const agreed = { root_type: 'human', session_id: 's-1', correlation_id: 'ü' };
    const { headers } = allowed('t', { root_name: 'alice', ...agreed });
    expect(headers).toMatchObject({
      ...{ 'X-DRS-Context': 't', 'X-DRS-Root-Name': 'alice', 'X-DRS-Root-Type': 'human' },
      ...{ 'X-DRS-Session-Id': 's-1', 'X-DRS-Correlation-Id': '=?base64?w7w=?=' },
    });
    expect(headers?.['x-envoy-auth-headers-to-remove']).toBe('x-drs-observed');
  });

  it('of a denied call has its code, and closes the connection over which too much came', async () => {
    const headers = { 'Content-Type': 'application/json', allow: 'POST', 'X-DRS-Code': 'TOOL_MISMATCH' };
    const answered = async (body: string) => (await open(DENIED).ask({ body })).wire.answers;
    expect(await answered('{}')).toEqual([
      { status: 403, body: '{}', headers, isHead: false, closes: false },
    ]);
    expect(await answered('x'.repeat(1001))).toMatchObject([{ status: 403, closes: true }]);
  });

  it('is a denial where there is no room, or the service leaves', async () => {
    const { ask, gatekeeper, noted } = open();
    const tickets = Array.from({ length: 4096 }, () => gatekeeper.letIn({ client: 'a' }));
    for (const ticket of tickets) void ticket.run(0, () => Promise.resolve());
    expect((await ask({ body: '{}' })).wire.answers).toMatchObject([{ status: 403, closes: false }]);
    gatekeeper.isDraining = true;
    expect((await ask({ body: '{}' })).wire.answers).toMatchObject([{ status: 403, closes: true }]);
    const asked = { protocol: 'mcp', endpoint: 'gate' };
    expect(noted).toEqual([
      { ...asked, reason: 'overloaded' },
      { ...asked, reason: 'shutting_down' },
    ]);
  });

  it('is an error where it cannot be written', async () => {
    const { wire } = await open(new Error('broken')).ask({ body: '{}' });
    expect(wire.answers).toMatchObject([{ status: 500, body: '{"error":"internal"}' }]);
  });
});

describe('a question to /v1/gate', () => {
  const asked = '{"protocol":"a2a"}';
  const ALLOWED = {
    ...{ kind: 'allow', token: null, context: { agent: 'did:key:a' } },
    chain: { leafPolicy: () => ({ allowed_tools: ['search'] }) },
  } as never as GateDecision;

  it('is decided on', async () => {
    const { noted, call } = await open().askApi(asked);
    expect(call).toMatchObject({ protocol: 'a2a', endpoint: 'gate', request: { path: '/' } });
    expect(noted).toEqual([]);
  });

  it.each<[GateDecision, object]>([
    [PASS, { allow: true, gated: false, status: 200 }],
    [DENIED, { allow: false, gated: true, status: 403, response: {} }],
    [
      ALLOWED,
      {
        ...{ allow: true, gated: true, status: 200 },
        context: { agent: 'did:key:a', leaf_policy: { allowed_tools: ['search'] } },
      },
    ],
  ])('is answered with the decision: $kind', async (decision, body) => {
    const { answer } = await open(decision).askApi(asked);
    expect([answer?.status, JSON.parse(String(answer?.body))]).toEqual([200, body]);
  });

  it('that is malformed is answered with why', async () => {
    const { askApi, metrics } = open();
    const { call, answer } = await askApi('[]');
    expect([call, metrics.gateRejections.gate.malformed]).toEqual([undefined, 1]);
    expect(answer).toMatchObject({
      status: 400,
      body: '{"error":"INVALID_GATE_REQUEST","detail":"the body is not a JSON object"}',
    });
  });

  it('has no answer but why where its body is too large, or the service leaves', async () => {
    const { askApi, gatekeeper, metrics } = open();
    expect((await askApi('x'.repeat(1001))).answer).toMatchObject({ status: 413, closes: true });
    gatekeeper.isDraining = true;
    expect((await askApi(asked)).answer).toMatchObject({ status: 503, closes: true });
    expect(metrics.gateRejections.gate).toMatchObject({ too_large: 1, shutting_down: 1 });
  });

  it('is an error where no answer can be written', async () => {
    expect((await open(new Error('broken')).askApi(asked)).answer).toMatchObject({ status: 500 });
  });
});
