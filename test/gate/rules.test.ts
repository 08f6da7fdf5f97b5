import { afterAll, describe, expect, it } from 'vitest';
import { gateFailure, type GateFailure } from '../../src/gate/codes.js';
import {
  bindOptionsOf,
  bodyTimedOut,
  decide as decideCall,
  judgedOf,
  type ChainVerdict,
  verifierUnavailable,
  wholeContextOf,
  type GateRules,
} from '../../src/gate/decide.js';
import { ANY_ROUTE, openHttp } from '../../src/gate/http.js';
import type { HttpRoute } from '../../src/gate/routes.js';
import { readHeaders, type PendingCall } from '../../src/gate/request.js';
import type { GateContext } from '../../src/gate/context.js';
import { responseTo } from '../../src/gate/response.js';
import { gateAnswer } from '../../src/service/routes/gate-api-route.js';
import { Failure } from '../../src/verify/codes.js';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import type { Proof } from '../../src/verify/judge.js';
import { encode, liveCall, now } from '../middleware/call.js';
import { judge, mcpChain, proofOf, RULES, verifier } from './decide.js';

afterAll(() => verifier.close());

const args = { tool: 'search', query: 'tea' };
const principal = mcpChain.parties[0]?.did as string;

function openedHttp(expected: Partial<HttpRoute> = {}, overrides: Record<string, unknown> = {}): PendingCall {
  const opened = openHttp(
    {
      method: 'POST',
      target: null,
      headers: readHeaders({ 'X-DRS-Bundle': encode(liveCall(mcpChain, args, overrides)) }),
      body: { kind: 'text', text: JSON.stringify(args) },
    },
    { ...ANY_ROUTE, ...expected },
  );
  if (opened.kind !== 'check') throw new Error(opened.failure.message);
  return opened;
}

const judged = (call: PendingCall, verdict: ChainVerdict, rules: Partial<GateRules> = {}) =>
  decideCall(call, judgedOf(call, verdict), { now, rules: { ...RULES, ...rules }, use: null });

const decide = async (call: PendingCall, rules: Partial<GateRules> = {}) =>
  decideCall(call, await judge(call), { now, rules: { ...RULES, ...rules }, use: null });

async function messageOf(call: PendingCall, rules: Partial<GateRules> = {}) {
  const decided = await decide(call, rules);
  return decided.kind === 'deny' ? `${decided.failure.code}: ${decided.failure.message}` : 'allow';
}

describe('a route', () => {
  it('takes its own tool only', async () => {
    expect(await messageOf(openedHttp({ tool: 'search' }))).toBe('allow');
    expect(await messageOf(openedHttp({ tool: 'fetch' }))).toBe(
      'TOOL_MISMATCH: Invocation: it was signed for "search", and this is "fetch"',
    );
    expect(await messageOf(openedHttp({ tool: 'x'.repeat(201) }))).toBe(
      `TOOL_MISMATCH: Invocation: it was signed for "search", and this is "${'x'.repeat(200)}…"`,
    );
    expect(await messageOf(openedHttp({ tool: 'x'.repeat(200) }))).toContain(`"${'x'.repeat(200)}"`);
    const without = openedHttp({ tool: 'fetch' }, { args: { query: 'tea' } });
    expect(await judged(without, { valid: true, binding: 'match' })).toMatchObject({
      failure: { message: 'Invocation: it was signed for no tool, and this is "fetch"' },
    });
    const decided = await decide(openedHttp({ tool: 'fetch' }));
    expect(decided).toMatchObject({ kind: 'deny', failure: { status: 403, verdict: { valid: false } } });
  });

  it('takes its own command, and those below', async () => {
    expect(await messageOf(openedHttp({ command: '/mcp/tools/call' }))).toBe('allow');
    expect(await messageOf(openedHttp({ command: '/mcp' }))).toBe('allow');
    expect(await messageOf(openedHttp({ command: '/mcp/tools/call/x' }))).toBe(
      'COMMAND_MISMATCH: Invocation: cmd is "/mcp/tools/call", expected "/mcp/tools/call/x" or a path below it',
    );
  });
});

describe("the gate's own rules", () => {
  it('name the roots and the tool server that calls must have', async () => {
    const server = { tool_server: 'https://tools.example' };
    expect(await messageOf(openedHttp(), { trustedRoots: new Set([principal]) })).toBe('allow');
    expect(await messageOf(openedHttp(), { trustedRoots: new Set() })).toBe(
      `UNTRUSTED_ROOT: Receipt 0: the root principal is "${principal}", expected one that this verifier trusts`,
    );
    expect(await messageOf(openedHttp({}, server), { serverIdentity: 'https://tools.example' })).toBe(
      'allow',
    );
    expect(await messageOf(openedHttp({}, server), { serverIdentity: 'https://other.example' })).toBe(
      'TOOL_SERVER_MISMATCH: Invocation: tool_server is "https://tools.example", expected "https://other.example"',
    );
  });

  it('allow no call if nobody has said which tool server this is', async () => {
    const server = { tool_server: 'https://tools.example' };
    expect(await messageOf(openedHttp({}, server), { serverIdentity: undefined })).toBe(
      'TOOL_SERVER_MISMATCH: Invocation: tool_server is "https://tools.example", expected the name of this tool server, which its operator has to set (SERVER_IDENTITY)',
    );
  });

  it.each([
    { trustedRoots: ['did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp'] },
    { serverIdentity: 'https://other.example' },
  ])('explain a refusal in the words of a verifier that has them: %j', async (options) => {
    const strict = createVerifier({ workerThreads: 0, ...options });
    const call = openedHttp();
    const { error } = await strict.verify(call.bundle, bindOptionsOf(call.body));
    await strict.close();
    const { trustedRoots, ...others } = options;
    const rules = { ...others, ...(trustedRoots && { trustedRoots: new Set(trustedRoots) }) };
    expect(await decide(call, rules)).toMatchObject({ kind: 'deny', failure: { ...error, status: 403 } });
  });

  it('refuse another body, unless none is compared', async () => {
    const other: PendingCall = { ...openedHttp(), body: { kind: 'value', value: {} } };
    expect(await decide(other)).toMatchObject({ kind: 'deny', failure: { code: 'BINDING_MISMATCH' } });
    expect(await decide({ ...other, body: { kind: 'uncompared' } })).toMatchObject({ kind: 'allow' });
  });
});

describe('the binding', () => {
  const valid = (call: PendingCall, rules: Partial<GateRules> = {}, binding?: 'match' | 'mismatch') =>
    judged(call, { valid: true, ...(binding === undefined ? {} : { binding }) }, rules);

  it('that a verdict does not tell is none', async () => {
    expect(await valid(openedHttp())).toMatchObject({
      failure: { code: 'BINDING_MISMATCH', verdict: { valid: true, binding: 'invalid_body' } },
    });
  });

  it('that a verdict tells does not count if this call has no body to compare', async () => {
    const [unread, unusable] = [
      { ...openedHttp(), body: { kind: 'unread' } },
      { ...openedHttp(), body: { kind: 'unusable', reason: 'it is gzip' } },
    ] as const;
    for (const call of [unread, unusable]) {
      expect(await valid(call, {}, 'match')).toMatchObject({
        kind: 'deny',
        failure: { code: 'BINDING_MISMATCH' },
      });
    }
    expect(await valid(unusable, {}, 'match')).toMatchObject({ failure: { message: 'it is gzip' } });
    const uncompared = await valid({ ...unread, body: { kind: 'uncompared' } }, {}, 'match');
    expect(uncompared).not.toHaveProperty('context.binding');
  });

  it.each([
    ['BINDING_MISMATCH', 'mismatch', 'is not what invocation.args were signed for'],
    ['BINDING_REQUIRED', 'invalid_body', 'is not JSON with one meaning'],
  ])(
    'that the verifier refuses itself (%s) is refused in the words of the gate',
    async (code, binding, says) => {
      const error = { code, message: 'm', suggestion: 's' };
      expect(await judged(openedHttp(), { valid: false, error })).toMatchObject({
        kind: 'deny',
        failure: {
          code: 'BINDING_MISMATCH',
          message: expect.stringContaining(says) as string,
          verdict: { valid: true, binding },
        },
      });
    },
  );

  it.each<[string, PendingCall['body']]>([
    ['text', { kind: 'text', text: '{"tool":"search","query":["tea"]}' }],
    ['value', { kind: 'value', value: { tool: 'search', query: ['tea'] } }],
  ])('that is a mismatch names the first difference, whoever found it (%s)', async (_, body) => {
    const call: PendingCall = { ...openedHttp(), body };
    const says =
      'BINDING_MISMATCH: the body of the call is not what invocation.args were signed for: args.query is a string, the body has an array';
    expect(await messageOf(call)).toBe(says);
    const error = { code: 'BINDING_MISMATCH', message: 'm', suggestion: 's' };
    for (const verdict of [
      { valid: true, binding: 'mismatch' },
      { valid: false, error },
    ] as const) {
      const decided = await judged(call, verdict);
      expect(decided.kind === 'deny' && `${decided.failure.code}: ${decided.failure.message}`).toBe(says);
    }
  });

  it('that is a mismatch is refused where the bundle cannot be read here', async () => {
    const error = { code: 'BINDING_MISMATCH', message: 'm', suggestion: 's' };
    const decided = await judged({ ...openedHttp(), bundle: {} }, { valid: false, error });
    expect(decided).toMatchObject({
      failure: { message: 'the body of the call is not what invocation.args were signed for' },
    });
  });

  it('that is a mismatch names no difference where this call has no body', async () => {
    const error = { code: 'BINDING_MISMATCH', message: 'm', suggestion: 's' };
    expect(
      await judged({ ...openedHttp(), body: { kind: 'unread' } }, { valid: false, error }),
    ).toMatchObject({
      failure: { message: 'the body of the call is not what invocation.args were signed for' },
    });
  });

  it('is compared with the body in the form that the transport has', () => {
    expect(bindOptionsOf({ kind: 'text', text: '{}' })).toEqual({ bodyText: '{}' });
    expect(bindOptionsOf({ kind: 'value', value: null })).toEqual({ body: null });
    expect(bindOptionsOf({ kind: 'unread' })).toStrictEqual({});
    expect(bindOptionsOf({ kind: 'unusable', reason: '' })).toStrictEqual({});
  });
});

describe('a call that was signed for something else', () => {
  const decided = (call: PendingCall, cmd: string) => {
    const proof = proofOf(call.bundle);
    const invocation = { ...proof.invocation, claims: { ...proof.invocation.claims, cmd } };
    return decideCall(call, { ...proof, invocation, binding: 'match' }, { now, rules: RULES, use: null });
  };

  it('is refused by its command, which must be exact where no path below it counts', async () => {
    const call = (orBelow: boolean): PendingCall => ({
      ...openedHttp(),
      expected: { command: '/a', orBelow, tool: null },
    });
    expect(await decided(call(true), '/a/b')).toMatchObject({ kind: 'allow' });
    expect(await decided(call(false), '/a')).toMatchObject({ kind: 'allow' });
    expect(await decided(call(false), '/a/b')).toMatchObject({
      failure: {
        message: 'Invocation: cmd is "/a/b", expected "/a"',
        suggestion: expect.stringContaining('the command of this very request') as string,
      },
    });
  });
});

describe('a decision', () => {
  const fault = gateFailure('TASK_MISMATCH', 'mcp', 'it is the task of another');

  it('asks a transport for its own fault before the invocation counts as used', async () => {
    const used: unknown[] = [];
    const use = (invocation: unknown) => {
      used.push(invocation);
      return Promise.resolve(null);
    };
    const asked: unknown[] = [];
    const checkTransport = (found: GateFailure | null) => (context: object) => {
      asked.push(context);
      return found;
    };
    const call = openedHttp();
    const parts = { now, rules: RULES, use };
    const proof = await judge(call);
    const refused = await decideCall(call, proof, parts, checkTransport(fault));
    expect(refused).toMatchObject({ kind: 'deny', protocol: 'http', id: null, failure: fault });
    expect(used).toEqual([]);
    const allowed = await decideCall(call, proof, parts, checkTransport(null));
    expect(allowed).toMatchObject({ kind: 'allow', context: { root_principal: principal, chain_depth: 2 } });
    const context = allowed.kind === 'allow' && allowed.context;
    expect(asked).toEqual([context, context]);
    expect(used).toHaveLength(1);
  });

  it('is a refusal where the invocation cannot be used', async () => {
    const failure = new Failure('INVOCATION_STALE', {
      subject: 'invocation',
      time: 1,
      expected: 'a younger one',
    });
    const use = () => Promise.resolve(failure);
    const call = openedHttp();
    expect(await decideCall(call, await judge(call), { now, rules: RULES, use })).toMatchObject({
      kind: 'deny',
      failure: { code: 'INVOCATION_STALE', status: 409, message: failure.message, verdict: { valid: false } },
    });
  });

  it('tells what is left of the limits, or which of them nobody counts', async () => {
    const limits = [{ level: 0, receipt: 'r', maxCalls: 9, maxTotalMicroUsd: null, nbf: 0, exp: null }];
    const left = [{ level: 0, receipt: 'r', calls_left: 8, expires_at: null }];
    const call = openedHttp();
    const proof = proofOf(call.bundle);
    const chain: Proof['chain'] = Object.assign(Object.create(proof.chain) as Proof['chain'], { limits });
    const limited = { ...proof, chain, binding: 'match' } as const;
    const parts = { now, rules: RULES };
    const charged: unknown[] = [];
    const use = (_: unknown, all: unknown) => {
      charged.push(all);
      return Promise.resolve(left);
    };
    expect(await decideCall(call, limited, { ...parts, use })).toHaveProperty('context.limits', left);
    expect(charged).toEqual([limits]);
    const uncounted = await decideCall(call, limited, { ...parts, use: null });
    expect(uncounted).toHaveProperty('context.unenforced', ['max_calls']);
    for (const member of ['limits', 'unenforced'])
      expect(await decide(openedHttp())).not.toHaveProperty(`context.${member}`);
  });

  it('names the root as the operator does', async () => {
    const details = { root_name: 'alice', labels: { team: 'sales' } };
    expect(await judged(openedHttp(), { valid: true, binding: 'match', details })).toMatchObject({
      context: details,
    });
  });

  it('is that of the verifier where the chain is not valid', async () => {
    const error = { code: 'EXPIRED', message: 'Receipt 0: it has expired', suggestion: 'Ask for another.' };
    expect(await judged(openedHttp(), { valid: false, error })).toMatchObject({
      ...{ kind: 'deny', failure: { ...error, status: 403, verdict: { valid: false } } },
    });
  });

  it('asks for no fault where the call is refused anyway', async () => {
    const checkTransport = () => {
      throw new Error('asked');
    };
    const call = openedHttp({ tool: 'fetch' });
    const parts = { now, rules: RULES, use: null };
    const decided = await decideCall(call, await judge(call), parts, checkTransport);
    expect(decided).toMatchObject({ failure: { code: 'TOOL_MISMATCH' } });
  });

  it('on an allowed call signs its context, with the time at which the invocation was used', async () => {
    const call = openedHttp();
    const times: number[] = [];
    const decided = await decideCall(call, await judge(call), {
      rules: RULES,
      now: () => 17,
      use: (_, __, at) => {
        times.push(at);
        return Promise.resolve(null);
      },
      sign: (asked, { invocation }, context, at) => {
        expect(asked).toBe(call);
        return `${context.agent} ${invocation.claims.jti} ${at}`;
      },
    });
    if (decided.kind !== 'allow') throw new Error('it is refused');
    expect(decided.token).toBe(`${decided.context.agent} ${decided.context.invocation} 17`);
    expect(times).toEqual([17]);
    expect(await decide(call)).toMatchObject({ kind: 'allow', token: null });
  });
});

it('an answer of /v1/gate tells the decision', () => {
  const context = { agent: 'did:key:z6Mk' } as GateContext;
  const passed = { allow: true, gated: false, status: 200 };
  expect(gateAnswer({ kind: 'pass' })).toStrictEqual(passed);
  expect(gateAnswer({ kind: 'pass', observed: 'EXPIRED' })).toEqual({ ...passed, observed: 'EXPIRED' });
  const call = { kind: 'allow', context, proof: proofOf(liveCall(mcpChain, args)) } as const;
  const allowed = { allow: true, gated: true, status: 200, context: wholeContextOf(call) };
  expect(gateAnswer({ ...call, token: null })).toStrictEqual(allowed);
  expect(gateAnswer({ ...call, token: 't' })).toEqual({ ...allowed, context_jwt: 't' });
  const failure = gateFailure('TOOL_MISMATCH', 'http', 'it is another', { verdict: { valid: false } });
  const response = responseTo({ kind: 'deny', protocol: 'http', id: null, requested: null, failure });
  expect(gateAnswer({ kind: 'deny', code: failure.code, response })).toEqual({
    ...{ allow: false, gated: true, status: 403 },
    response: {
      valid: false,
      error: { code: 'TOOL_MISMATCH', message: 'it is another', suggestion: failure.suggestion },
    },
  });
});

it('a body or a verdict that does not come is a failure of its protocol', () => {
  expect(bodyTimedOut({ protocol: 'http' })).toMatchObject({
    code: 'BODY_TIMEOUT',
    message: 'the body did not arrive in time',
    verdict: null,
  });
  const failure = verifierUnavailable({ protocol: 'mcp' });
  expect(failure).toMatchObject({ code: 'VERIFIER_UNAVAILABLE', message: 'the call could not be verified' });
  const denial = { kind: 'deny', protocol: 'mcp', id: 1, requested: null, failure } as const;
  const { code, message: detail, suggestion, status } = failure;
  expect(responseTo(denial)).toEqual({
    status: 503,
    headers: { 'content-type': 'application/json' },
    body: {
      ...{ jsonrpc: '2.0', id: 1 },
      error: { code: -32010, message: `DRS: ${code}: ${detail}`, data: { code, detail, suggestion, status } },
    },
  });
});

it.each([
  ['MISSING_BUNDLE', 'http', 401, { 'www-authenticate': 'DRS' }],
  ['METHOD_NOT_ALLOWED', 'mcp', 405, { allow: 'POST, GET, DELETE, HEAD, OPTIONS' }],
] as const)('an answer of %s over %s has the headers that HTTP asks for with %i', (...given) => {
  const [code, protocol, status, more] = given;
  const failure = gateFailure(code, protocol, 'it is so');
  expect(responseTo({ kind: 'deny', protocol, id: null, requested: null, failure })).toMatchObject({
    ...{ status, headers: { 'content-type': 'application/json', ...more } },
  });
});
