import { describe, expect, it, vi } from 'vitest';
import { decide, type AskedGate, type GateParts, type TransportCheck } from '../../src/gate/decide.js';
import { openRequest } from '../../src/gate/open.js';
import { readHeaders, type PendingCall } from '../../src/gate/request.js';
import { responseTo } from '../../src/gate/response.js';
import { RouteTable } from '../../src/gate/routes.js';
import { Failure } from '../../src/verify/codes.js';
import { encode, liveCall, liveChain, now } from '../middleware/call.js';
import { toolCall } from './attacks.js';
import { proofOf, RULES } from './decide.js';

/** Where a gate asks for a person's yes, and what becomes of it. */

const END = 1_700_000_000;
const WHEN = '1700000000 (2023-11-14T22:13:20Z)';
const URL = 'https://approve.example/approve/abc';
const asked = (kind: 'asked' | 'denied'): AskedGate => ({
  kind,
  names: ['Alice', 'Bob'],
  url: URL,
  end: END,
});
const yesTo = () => {
  const decided = vi.fn();
  const approval = { statement: 'digest', by: [{ name: 'Alice', at: END }] };
  return { decided, approval, yes: { kind: 'yes', approval, decided } as AskedGate };
};

const chain = liveChain(2, { cmd: '/mcp', policy: { approve_tools: ['search'] } });
const CAPABLE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } },
};

interface Case {
  readonly params?: object;
  readonly signed?: object;
  readonly parts?: Partial<GateParts>;
  readonly checkTransport?: TransportCheck;
  readonly under?: ReturnType<typeof liveChain>;
  /** Other members of the opened call. */
  readonly more?: Partial<PendingCall>;
}

/** Decides on a call of `search`, which needs a yes. */
async function decideOn({ params = {}, signed = {}, parts, checkTransport, under = chain, more }: Case) {
  const bundle = liveCall(under, { tool: 'search', query: 'tea', ...signed }, { cmd: '/mcp/tools/call' });
  const headers = readHeaders({ 'X-DRS-Bundle': encode(bundle) });
  const body = { kind: 'text', text: toolCall(params) } as const;
  const opened = openRequest('mcp', { method: 'POST', target: null, headers, body, mayLackHeaders: true });
  if (opened.kind !== 'check') throw new Error(JSON.stringify(opened));
  const judged = { ...proofOf(bundle), binding: 'match' as const };
  return decide({ ...opened, ...more }, judged, { now, rules: RULES, use: null, ...parts }, checkTransport);
}

const refusal = async (given: Case, mayAsk = false) => {
  const decided = await decideOn(given);
  if (decided.kind !== 'deny') throw new Error('it was allowed');
  return responseTo(decided, mayAsk);
};

describe('a call that needs a yes', () => {
  it('is refused where nobody asks', async () => {
    expect((await refusal({})).body).toMatchObject({ error: { data: { code: 'APPROVAL_REQUIRED' } } });
    expect((await refusal({})).body).not.toHaveProperty('error.data.approval');
  });

  it('waits with a link, in words that a person can follow', async () => {
    const { status, body } = await refusal({ parts: { ask: () => asked('asked') } }, true);
    expect(status).toBe(403);
    const detail =
      'Invocation: the call of "search" needs a yes by policy.approve_tools of receipt 0, ' +
      `expected that "Alice" or "Bob" opens ${URL} and says yes by ${WHEN}`;
    expect(body).toEqual({
      jsonrpc: '2.0',
      id: 7,
      error: {
        code: -32010,
        message: `DRS: APPROVAL_REQUIRED: ${detail}`,
        data: {
          ...{ code: 'APPROVAL_REQUIRED', detail, status: 403, valid: false },
          suggestion: expect.stringMatching(/^Show this link to the person/) as string,
          approval: { url: URL, expires_at: END },
        },
      },
    });
  });

  it('is APPROVAL_DENIED after a no', async () => {
    const { body } = await refusal({ parts: { ask: () => asked('denied') } });
    const data = { code: 'APPROVAL_DENIED', status: 403, valid: false, approval: { expires_at: END } };
    expect(body).toMatchObject({ error: { data } });
    expect(JSON.stringify(body)).toContain(`somebody said no to this call, which holds until ${WHEN}`);
  });

  it('says why nobody is asked', async () => {
    const ask = () => ({ kind: 'refused', expected: 'fewer questions' }) as const;
    expect(JSON.stringify((await refusal({ parts: { ask } })).body)).toContain('expected fewer questions');
  });

  it('passes with a yes, which is in its context', async () => {
    const { yes, approval, decided } = yesTo();
    const sign = vi.fn<NonNullable<GateParts['sign']>>(() => 'token');
    const decision = await decideOn({ parts: { ask: () => yes, sign } });
    expect(decision).toMatchObject({ kind: 'allow', context: { approval } });
    expect(sign.mock.calls[0]?.[2]).toMatchObject({ approval });
    expect(decided.mock.calls).toEqual([[true]]);
  });

  it('asks nobody where something else refuses it', async () => {
    const ask = vi.fn(() => asked('asked'));
    const failure = { code: 'X', status: 403, message: 'x', suggestion: 'x', verdict: null };
    await decideOn({ parts: { ask }, checkTransport: () => failure });
    await decideOn({ parts: { ask, rules: { ...RULES, serverIdentity: undefined } } });
    await decideOn({ parts: { ask }, params: { arguments: { query: 'coffee' } } });
    expect(ask).toHaveBeenCalledOnce();
  });

  it.each<[string, Partial<GateParts>]>([
    [
      'was used before',
      {
        use: () =>
          Promise.resolve(
            new Failure('REPLAY_DETECTED', { subject: 'invocation', claimed: 'x', expected: 'y' }),
          ),
      },
    ],
    ['cannot be recorded', { use: () => Promise.reject(new Error('no store')) }],
    [
      'cannot be signed',
      {
        sign: () => {
          throw new Error('no key');
        },
      },
    ],
  ])('gives its yes back where it %s', async (_, parts) => {
    const { yes, decided } = yesTo();
    await decideOn({ parts: { ask: () => yes, ...parts } }).catch(() => undefined);
    expect(decided.mock.calls).toEqual([[false]]);
  });

  it('uses its yes before anybody hears that it passes', async () => {
    const { yes, decided } = yesTo();
    let isRecorded = false;
    decided.mockImplementation(async () => {
      await new Promise(setImmediate);
      isRecorded = true;
    });
    await decideOn({ parts: { ask: () => yes } });
    expect(isRecorded).toBe(true);
  });
});

describe('a client of MCP 2026-07-28 that opens links', () => {
  const parts = { ask: () => asked('asked') };
  const meta = { _meta: CAPABLE };

  it('is looked for only of a call that waits for a yes', async () => {
    const elicits = vi.fn(() => undefined);
    const [more, under] = [{ elicits }, liveChain(2, { cmd: '/mcp', policy: {} })];
    expect(await decideOn({ parts, more, under })).toMatchObject({ kind: 'allow' });
    expect(await decideOn({ parts: { ask: () => yesTo().yes }, more })).toMatchObject({ kind: 'allow' });
    expect(elicits).not.toHaveBeenCalled();
    expect(await decideOn({ parts, more })).toMatchObject({ failure: { code: 'APPROVAL_REQUIRED' } });
    expect(elicits).toHaveBeenCalledOnce();
  });

  it('is told to open this one, and gets back what its tool server had told it', async () => {
    const { status, body } = await refusal({ params: meta, parts }, true);
    expect(status).toBe(200);
    expect(body).toEqual({
      jsonrpc: '2.0',
      id: 7,
      result: {
        resultType: 'input_required',
        inputRequests: {
          'xyz.okeyamy.drs/approval': {
            method: 'elicitation/create',
            params: { mode: 'url', message: expect.stringContaining('"Alice" or "Bob"') as string, url: URL },
          },
        },
      },
    });
    const continued = { ...meta, requestState: 'state', inputResponses: { theirs: { action: 'accept' } } };
    expect((await refusal({ params: continued, parts }, true)).body).toMatchObject({
      result: { requestState: 'state' },
    });
  });

  it.each<[string, object, boolean?]>([
    ['behind a proxy, which takes the status 200 for an allowance', meta, false],
    ['again, when it has opened it', { ...meta, inputResponses: { 'xyz.okeyamy.drs/approval': {} } }],
    [
      'of another version',
      { _meta: { ...CAPABLE, 'io.modelcontextprotocol/protocolVersion': '2025-11-25' } },
    ],
    [
      'without that capability',
      { _meta: { ...CAPABLE, 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } } },
    ],
    [
      'whose capability is no object',
      { _meta: { ...CAPABLE, 'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: true } } } },
    ],
  ])('gets the refusal %s', async (_, params, mayAsk = true) => {
    expect(await refusal({ params, parts }, mayAsk)).toMatchObject({
      status: 403,
      body: { error: { data: { approval: { url: URL } } } },
    });
  });

  it('gets the refusal after a no', async () => {
    const denied = { ask: () => asked('denied') };
    expect((await refusal({ params: meta, parts: denied }, true)).status).toBe(403);
  });
});

describe('a route with approve', () => {
  const table = (approve: unknown) =>
    RouteTable.parse(JSON.stringify({ routes: [{ method: 'POST', path: '/pay', tool: 'pay', approve }] }));
  const decideOnRoute = (approve: boolean, parts: Partial<GateParts> = {}) => {
    const bundle = liveCall(liveChain(2, { policy: {} }), { tool: 'pay' });
    const headers = readHeaders({ 'X-DRS-Bundle': encode(bundle) });
    const request = { method: 'POST', target: '/pay', headers, body: { kind: 'text', text: '{}' } as const };
    const opened = openRequest('http', request, { routes: table(approve) });
    if (opened.kind !== 'check') throw new Error(JSON.stringify(opened));
    const judged = { ...proofOf(bundle), binding: 'match' as const };
    return decide(opened, judged, { now, rules: RULES, use: null, ...parts });
  };

  it('needs a yes for each call', async () => {
    expect((await decideOnRoute(false)).kind).toBe('allow');
    const decided = await decideOnRoute(true);
    const message = expect.stringContaining('needs a yes by approve of its route (GATE_ROUTES)') as string;
    expect(decided).toMatchObject({ failure: { code: 'APPROVAL_REQUIRED', message } });
    const { body } = responseTo(decided as never);
    expect(body).toMatchObject({ valid: false, error: { code: 'APPROVAL_REQUIRED' } });
    expect(await decideOnRoute(true, { ask: () => yesTo().yes })).toMatchObject({ kind: 'allow' });
  });

  it('has the link beside its code', async () => {
    const { body } = responseTo((await decideOnRoute(true, { ask: () => asked('asked') })) as never);
    expect(body).toMatchObject({ error: { approval: { url: URL, expires_at: END } } });
  });

  it('is true or false', () => {
    for (const approve of ['yes', 1, null])
      expect(() => table(approve)).toThrow('routes[0]: expected approve to be true or false');
  });
});
