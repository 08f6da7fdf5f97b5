import { describe, expect, it } from 'vitest';
import type { RequestBody } from '../../src/gate/request.js';
import type { IntakeFault, IntakeSink, QuestionFault } from '../../src/service/http/body-intake.js';
import type { QuestionSink } from '../../src/service/http/batch-intake.js';
import { GateHead, readHead } from '../../src/service/http/request-head.js';
import type { GateCall, GateDecision } from '../../src/service/routes/gate-decider.js';
import { GateApiRoute } from '../../src/service/routes/gate-api-route.js';
import { answer, GateRoute } from '../../src/service/routes/gate-route.js';

/** What a route reads of a proxy's question, and how it answers: here all around it is noted, and nothing decides. */

interface Question {
  readonly method?: string;
  readonly url?: string;
  readonly query?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string;
  /** What comes instead of the body. */
  readonly fault?: IntakeFault;
}
const PASS: GateDecision = { kind: 'pass' };
const DENIED: GateDecision = {
  ...{ kind: 'deny', code: 'TOOL_MISMATCH' },
  response: {
    status: 403,
    headers: { 'content-type': 'application/json', allow: 'POST' },
    body: {} as never,
  },
};

async function ask(
  { method = 'POST', url = '/gate/mcp', query, headers = [], body = '', fault }: Question,
  decision: GateDecision | Error = PASS,
) {
  const noted: unknown[] = [];
  const calls: GateCall[] = [];
  const exchange = {
    isOver: false,
    releaseBody: () => noted.push('released'),
    answer: (status: number, text: string, options: object) => noted.push([status, text, options]),
    refuse: (status: number, error: string) => noted.push([status, error]),
  };
  const decider = {
    decide: (call: GateCall) => {
      calls.push(call);
      return decision instanceof Error ? Promise.reject(decision) : Promise.resolve(decision);
    },
    unavailable: (asked: object, reason: string) => (noted.push({ ...asked, reason }), DENIED),
    timedOut: (asked: object) => (noted.push({ ...asked, reason: 'timed out' }), DENIED),
  };
  const hasLength = headers.some(([name]) => name === 'content-length');
  const intake = {
    read: (_: unknown, __: unknown, sink: IntakeSink) => {
      expect(hasLength).toBe(true);
      sink({} as never, fault ?? Buffer.from(body));
    },
    admit: (_: unknown, bytes: Buffer, sink: IntakeSink) => {
      expect(hasLength).toBe(false);
      sink({} as never, bytes);
    },
  };
  const verdicts = {
    ofGate: () => ({
      onVerdict: () => undefined,
      decided: ({ kind }: GateDecision) => noted.push(`logged ${kind}`),
    }),
  };
  const route = new GateRoute(
    {
      gate: decider as never,
      configuration: { maxBodyBytes: 1000 } as never,
      verdicts: verdicts as never,
    },
    intake as never,
  );
  const req = {
    getCaseSensitiveMethod: () => method,
    getUrl: () => url,
    getQuery: () => query as string,
    getHeader: () => '',
    forEach: (visit: (name: string, value: string) => void) =>
      headers.forEach(([name, value]) => visit(name, value)),
  };
  route.serve('mcp')(exchange as never, readHead(req, new GateHead()), req);
  await new Promise(setImmediate);
  const [call] = calls;
  return { noted, call, request: call?.request, exchange };
}
const length = (bytes: number) => ['content-length', String(bytes)] as const;

describe('the request that a proxy asks about', () => {
  it('is what came, and is recorded once it is decided', async () => {
    const { call, request, noted, exchange } = await ask({ headers: [length(2)], body: '{}' });
    expect(call).toMatchObject({ protocol: 'mcp', endpoint: 'gate', bytes: 2 });
    expect(request).toMatchObject({ method: 'POST', path: null, body: { kind: 'text', text: '{}' } });
    expect(call?.isWanted?.()).toBe(true);
    exchange.isOver = true;
    expect(call?.isWanted?.()).toBe(false);
    expect(noted.slice(0, 2)).toEqual(['released', 'logged pass']);
  });

  it.each<[string, string | undefined, string | null]>([
    ['/gate/mcp', undefined, null],
    ['/gate/mcp', 'a=1', null],
    ['/gate/mcp/a/b', undefined, '/a/b'],
    ['/gate/mcp/a/b', 'a=1', '/a/b?a=1'],
    ['/gate/mcp/', '', '/?'],
  ])('has the path behind %s with the query %s', async (url, query, path) => {
    expect((await ask({ url, ...(query === undefined ? {} : { query }) })).request?.path).toBe(path);
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
    expect((await ask({ method, headers })).request?.method).toBe(named);
  });

  it('that has a body passes by no name for its method', async () => {
    const named = (method: string, name: string) =>
      ask({ method, headers: [length(2), ['x-forwarded-method', name]], body: '{}' });
    expect((await named('POST', 'GET')).request?.method).toBe('GET or POST');
    expect((await named('GET', 'DELETE')).request?.method).toBe('DELETE');
    expect((await named('POST', 'PUT')).request?.method).toBe('PUT');
  });

  it.each<[Question, RequestBody]>([
    [
      { headers: [length(2), ['x-envoy-auth-partial-body', 'true']], body: '{}' },
      { kind: 'too large', reason: 'the proxy sent only a part of the body; raise its limit' },
    ],
    [
      { headers: [length(2), ['content-type', 'text/plain']], body: '{}' },
      { kind: 'unusable', reason: expect.stringContaining('text/plain') as string },
    ],
    [
      { headers: [length(2000)], fault: 'too_large' },
      { kind: 'too large', reason: expect.stringContaining('1000') as string },
    ],
  ])('has no body that can be compared: %j', async (question, body) => {
    const { request, call } = await ask(question);
    expect(request?.body).toEqual(body);
    expect(call?.bytes).toBe(question.fault === undefined ? 2 : 0);
  });
});

describe('the answer to a proxy', () => {
  const answered = (decision: GateDecision, closes: boolean) => {
    const said: unknown[] = [];
    answer({ answer: (...args: unknown[]) => said.push(...args) } as never, decision, closes);
    return said;
  };
  const removed = (names: readonly string[]) => names.map((name) => `x-drs-${name}`).join(',');
  const ALL = [
    ...['root-principal', 'root-name', 'agent', 'chain-depth', 'command', 'tool', 'invocation'],
    ...['binding', 'context'],
  ];

  it('of a request that passes has no context', () => {
    expect(answered(PASS, false)).toEqual([
      ...[200, '', { headers: { 'x-envoy-auth-headers-to-remove': removed(ALL) } }],
    ]);
  });

  it('of an allowed call has its context, and names what it does not set', () => {
    const context = {
      ...{ agent: 'did:key:a', root_principal: 'did:key:r', chain_depth: 2, command: '/mcp/tools/call' },
      ...{ tool: 'search', invocation: 'inv:1', receipts: [], root_type: null, expires_at: null },
      binding: 'match',
    } as const;
    const allowed = (token: string | null, more: object = {}) =>
      answered({ kind: 'allow', context: { ...context, ...more }, chain: {} as never, token }, false);
    const headers = { 'X-DRS-Agent': 'did:key:a', 'X-DRS-Tool': 'search', 'X-DRS-Binding': 'match' };
    expect(allowed(null)).toMatchObject([
      ...[
        200,
        '',
        { headers: { ...headers, 'x-envoy-auth-headers-to-remove': removed(['root-name', 'context']) } },
      ],
    ]);
    const [, , all] = allowed('t', { root_name: 'alice' }) as [number, string, { headers: object }];
    expect(all.headers).toMatchObject({ 'X-DRS-Context': 't', 'X-DRS-Root-Name': 'alice' });
    expect(all.headers).not.toHaveProperty('x-envoy-auth-headers-to-remove');
  });

  it('of a denied call has its code, and closes the connection where it must', () => {
    const headers = { 'Content-Type': 'application/json', allow: 'POST', 'X-DRS-Code': 'TOOL_MISMATCH' };
    expect(answered(DENIED, false)).toEqual([403, '{}', { headers }]);
    expect(answered(DENIED, true)).toEqual([403, '{}', { headers, closes: true }]);
  });

  it.each<[IntakeFault, string, boolean]>([
    ['timeout', 'timed out', true],
    ['overloaded', 'overloaded', false],
    ['shutting_down', 'shutting_down', true],
  ])('is a denial where the body does not come: %s', async (fault, reason, closes) => {
    const { noted, call } = await ask({ headers: [length(2)], fault });
    expect(call).toBeUndefined();
    const headers = expect.anything() as object;
    expect(noted).toEqual([
      { protocol: 'mcp', endpoint: 'gate', reason },
      [403, '{}', closes ? { headers, closes } : { headers }],
    ]);
  });

  it('closes the connection over which too much came', async () => {
    const { noted } = await ask({ headers: [length(2000)], fault: 'too_large' }, DENIED);
    expect(noted.at(-1)).toEqual([403, '{}', expect.objectContaining({ closes: true })]);
  });

  it('is an error where it cannot be written', async () => {
    expect((await ask({}, new Error('broken'))).noted).toEqual(['released', [500, 'internal']]);
  });
});

describe('a question to /v1/gate', () => {
  async function askApi(
    body: Buffer | QuestionFault,
    decision: GateDecision | Error = PASS,
    ticket: object | null = { release: () => undefined },
  ) {
    const noted: unknown[] = [];
    const calls: GateCall[] = [];
    const question = {
      isOver: false,
      releaseBody: () => noted.push('released'),
      answer: (status: number, text: string) => noted.push([status, text]),
      refuse: (status: number, error: string) => noted.push([status, error]),
    };
    const decider = {
      decide: (call: GateCall) => {
        calls.push(call);
        return decision instanceof Error ? Promise.reject(decision) : Promise.resolve(decision);
      },
      rejected: (endpoint: string, reason: string) => noted.push(`${endpoint} ${reason}`),
    };
    const onVerdict = () => undefined;
    const decided = ({ kind }: GateDecision) => noted.push(`logged ${kind}`);
    const given = ticket === null ? null : { ...ticket, release: () => noted.push('ticket back') };
    const route = new GateApiRoute(
      {
        gate: decider,
        admission: { enter: (bytes: number) => (noted.push(bytes), given) },
        configuration: { maxBodyBytes: 1000, requestTimeoutSecs: 5 },
        verdicts: { ofGate: () => ({ onVerdict, decided }) },
      } as never,
      {
        read: (_: unknown, __: unknown, ___: unknown, take: QuestionSink) => take(question as never, body),
      } as never,
      null,
    );
    route.serve({} as never, {} as never);
    await new Promise(setImmediate);
    return { noted, call: calls[0], question, onVerdict, given };
  }
  const asked = Buffer.from('{"protocol":"a2a"}');
  const ALLOWED = {
    ...{ kind: 'allow', token: null, context: { agent: 'did:key:a' } },
    chain: { leaf: { policy: { allowed_tools: ['search'] } } },
  } as never as GateDecision;

  it('is decided on with its ticket, as long as somebody waits', async () => {
    const { noted, call, question, onVerdict, given } = await askApi(asked);
    expect(call).toMatchObject({ protocol: 'a2a', endpoint: 'gate', bytes: 18, request: { path: '/' } });
    expect([call?.ticket, call?.onVerdict]).toEqual([given, onVerdict]);
    expect(call?.isWanted?.()).toBe(true);
    question.isOver = true;
    expect(call?.isWanted?.()).toBe(false);
    // The decider gives the ticket back.
    expect(noted).toEqual([18, 'released', 'logged pass', [200, expect.any(String)]]);
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
    const [status, text] = (await askApi(asked, decision)).noted.at(-1) as [number, string];
    expect([status, JSON.parse(text)]).toEqual([200, body]);
  });

  it('that is malformed is answered with why, and gives its ticket back', async () => {
    const { noted, call } = await askApi(Buffer.from('[]'));
    expect(call).toBeUndefined();
    const why = '{"error":"INVALID_GATE_REQUEST","detail":"the body is not a JSON object"}';
    expect(noted).toEqual([2, 'released', 'ticket back', 'gate malformed', [400, why]]);
  });

  it('has no answer but why where there is no room for it, or no body', async () => {
    expect((await askApi(asked, PASS, null)).noted).toEqual([
      18,
      'gate overloaded',
      [503, expect.any(String)],
    ]);
    expect((await askApi('timeout')).noted).toEqual(['gate timeout', [408, expect.any(String)]]);
    expect((await askApi({ reason: 'malformed', status: 400, body: '{}' } as never)).noted[0]).toBe(
      'gate malformed',
    );
  });

  it('is an error where no answer can be written', async () => {
    expect((await askApi(asked, new Error('broken'))).noted.at(-1)).toEqual([500, 'internal']);
  });
});
