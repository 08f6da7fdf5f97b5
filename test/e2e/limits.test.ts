import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ContextSigner } from '../../src/service/routes/context-token.js';
import { generateKey } from '../../src/issue/index.js';
import { toolCall } from '../gate/attacks.js';
import { startTestService } from '../middleware/sources.js';
import { createVerifier, type Verdict } from '../../src/index.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { drsFetch, drsContext } from '../../src/middleware/index.js';
import { createMemoryReplayStore } from '../../src/usage/index.js';
import { encode, liveCall, liveChain, OPEN_ROUTE } from '../middleware/call.js';
import type { Chain } from '../support/chain.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

const TOKEN = 'token-for-the-tests';
const key = generateKey();
const args = { tool: 'search', query: 'tea' };
const limited = (policy: object) => liveChain(2, { policy: { allowed_tools: ['search'], ...policy } });
const digests = ({ receipts }: Chain) => receipts.map(digestOf);

describe('limits of all calls at a service', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({
      ...{ REPLAY_PROTECTION: 'memory', DRS_ADMIN_TOKEN: TOKEN },
      GATE_SIGNING_KEY: key.toJwk().d,
    });
  });
  afterAll(() => service.stop());

  const verify = async (chain: Chain, cost?: number) => {
    const signed = cost === undefined ? args : { ...args, estimated_cost_usd: cost };
    const response = await service.post('/verify', { ...liveCall(chain, signed), details: true });
    return (await response.json()) as Verdict;
  };
  const askGate = async (bundle: object, cost?: number) => {
    const asked = {
      ...{ protocol: 'mcp', headers: { 'X-DRS-Bundle': encode(bundle) } },
      body_text: toolCall({ name: 'search', arguments: { query: 'tea', estimated_cost_usd: cost } }),
    };
    const response = await service.post('/v1/gate', asked);
    return (await response.json()) as {
      allow: boolean;
      status?: number;
      context?: Record<string, unknown>;
      context_jwt?: string;
      response?: { error: { data: { code: string } } };
    };
  };
  const usage = (query: string, token = TOKEN) =>
    fetch(`${service.url}/admin/usage${query}`, { headers: { Authorization: `Bearer ${token}` } });

  it('are told of, level by level, until they are reached', async () => {
    const chain = limited({ max_calls: 2, max_total_cost_usd: 0.3 });
    const [root, leaf] = digests(chain);
    const first = await verify(chain, 0.1);
    expect(first.details?.limits).toEqual([
      { level: 0, receipt: root, calls_left: 1, usd_left: 0.2, expires_at: expect.any(Number) as number },
      { level: 1, receipt: leaf, calls_left: 1, usd_left: 0.2, expires_at: expect.any(Number) as number },
    ]);
    expect(Object.keys(first.context ?? {})).toEqual(['root_principal', 'chain_depth', 'leaf_policy']);
    expect((await verify(chain, 0.2000001)).error).toMatchObject({ code: 'LIMIT_REACHED' });
    expect((await verify(chain, 0.2)).valid).toBe(true);
    expect((await verify(chain, 0)).error).toMatchObject({
      code: 'LIMIT_REACHED',
      message: expect.stringMatching(
        /^Receipt 0: this call takes 1 of policy\.max_calls, expected at most 0: 2 of 2 are used, and the limit ends at \d/,
      ) as string,
    });
  });

  it('are those of the gate, too, which counts for itself and answers 403', async () => {
    const chain = liveChain(1, {
      ...{ cmd: '/mcp/tools/call', policy: { allowed_tools: ['search'], max_calls: 1 } },
    });
    const one = liveCall(chain, args);
    const two = liveCall(chain, args);
    const [first, replayed, second] = [await askGate(one), await askGate(one), await askGate(two)];
    expect(first).toMatchObject({ allow: true, context: { limits: [{ level: 0, calls_left: 0 }] } });
    expect(first.context).not.toHaveProperty('unenforced');
    expect(replayed.response?.error.data.code).toBe('REPLAY_DETECTED');
    expect(second).toMatchObject({ allow: false, status: 403 });
    expect(second.response?.error.data.code).toBe('LIMIT_REACHED');
    const answer = await usage(`?receipt=${digests(chain)[0]}`);
    expect(await answer.json()).toEqual({
      ...{ receipt: digests(chain)[0], verify: { calls: 0, total_cost_usd: 0 } },
      gate: { calls: 1, total_cost_usd: 0 },
    });
    const scrape = await (await fetch(`${service.url}/metrics`)).text();
    expect(metricOf(scrape, 'drs_limits_reached_total{scope="gate",limit="max_calls"}')).toBe(1);
    expect(metricOf(scrape, 'drs_replay_checks_total{scope="gate",result="limit_reached"}')).toBe(1);
    expect(metricOf(scrape, 'drs_usage_counters{scope="gate"}')).toBe(1);
  });

  describe('are given back over HTTP', () => {
    const gateChain = (policy: object) =>
      liveChain(2, { cmd: '/mcp/tools/call', policy: { allowed_tools: ['search'], ...policy } });
    const tight = () => gateChain({ max_calls: 1, max_total_cost_usd: 0.3 });
    const refund = async (body: object) => {
      const response = await service.post('/v1/refund', body);
      return [response.status, await response.json()] as [number, { reason?: string; error?: string }];
    };
    const callGate = async (chain: Chain, cost?: number) => {
      const call = liveCall(chain, cost === undefined ? args : { ...args, estimated_cost_usd: cost });
      const { context_jwt: context = '' } = await askGate(call, cost);
      return { call, context };
    };
    /** As a gate with such a key signs, at such a time. */
    const signed = (seed: string, now: number, chain: Chain, jti = 'inv:none') =>
      new ContextSigner(seed, () => ({ list_age_secs: null, lists: [] })).sign({
        ...{ now, call: { encoded: '' } },
        chain: { receipts: [{ iss: 'a' }], invocation: { tool_server: 'b', args: {} } },
        context: {
          ...{ root_principal: 'a', chain_depth: 1, agent: 'c', command: '/a', tool: null, invocation: jti },
          ...{ receipts: [], root_type: null, expires_at: null },
          limits: digests(chain).map((receipt, level) => ({ level, receipt, expires_at: null })),
        },
      });
    const now = () => Math.floor(Date.now() / 1000);

    it('once, to the call that the context names', async () => {
      const chain = tight();
      const [{ call, context }, other] = [await callGate(chain, 0.3), await callGate(tight(), 0.1)];
      expect(await refund({ context })).toEqual([200, { refunded: { calls: 1, usd: 0.3 } }]);
      expect(await refund({ context })).toEqual([
        409,
        { reason: 'again', error: expect.any(String) as string },
      ]);
      expect(await refund({ context: other.context, usd: 0.2 })).toMatchObject([
        409,
        { reason: 'above_charge' },
      ]);
      expect(await refund({ context: other.context, usd: 0.04 })).toEqual([
        ...[200, { refunded: { calls: 0, usd: 0.04 } }],
      ]);
      for (const receipt of digests(chain))
        expect(await (await usage(`?receipt=${receipt}`)).json()).toMatchObject({
          gate: { calls: 0, total_cost_usd: 0 },
        });
      // The invocation stays used, and the next call has what was given back.
      expect((await askGate(call, 0.3)).response?.error.data.code).toBe('REPLAY_DETECTED');
      expect((await callGate(chain, 0.3)).context).not.toBe('');
      const text = await (await fetch(`${service.url}/metrics`)).text();
      expect(metricOf(text, 'drs_refunds_total{result="refunded"}')).toBe(2);
      expect(metricOf(text, 'drs_refunds_total{result="again"}')).toBe(1);
      const lines = service.log.filter(({ msg }) => msg === 'refund');
      expect(lines[0]).toMatchObject({
        result: 'refunded',
        jti: expect.stringMatching(/^inv:/) as string,
        calls: 1,
        usd: 0.3,
      });
      expect(lines.map(({ result }) => result)).toEqual(['refunded', 'again', 'above_charge', 'refunded']);
    });

    it('not to a call without limits, after a minute, or that was never charged', async () => {
      const { context } = await callGate(gateChain({}));
      expect(await refund({ context })).toMatchObject([409, { reason: 'no_limits' }]);
      const old = signed(key.toJwk().d, now() - 62, tight());
      expect(await refund({ context: old })).toMatchObject([409, { reason: 'late' }]);
      const unknown = signed(key.toJwk().d, now(), tight());
      expect(await refund({ context: unknown })).toMatchObject([409, { reason: 'unknown' }]);
    });

    it('only for a context that this gate has signed, as it is', async () => {
      const { context } = await callGate(tight(), 0.1);
      const [header = '', payload = '', signature = ''] = context.split('.');
      const changed = Buffer.from(payload, 'base64url').toString().replace('"inv:', '"inw:');
      const none = Buffer.from('{"alg":"none","typ":"drs-context+jwt"}').toString('base64url');
      const foreign = generateKey().toJwk().d;
      for (const forged of [
        ...['', 'a.b.c', `${context}.`, `${header}.${payload}.`, `${header}.${payload}`, ` ${context}`],
        `${header}.${Buffer.from(changed).toString('base64url')}.${signature}`,
        `${none}.${payload}.${signature}`,
        // The same low bytes, which a careless decoder reads alike.
        `${header}.${String.fromCharCode(payload.charCodeAt(0) + 256)}${payload.slice(1)}.${signature}`,
        signed(foreign, now(), tight()),
      ])
        expect((await refund({ context: forged }))[0]).toBe(403);
      expect(await refund({ context })).toMatchObject([200, {}]);
    });

    it.each([
      [{}, 'context is not a string'],
      [{ context: 1 }, 'context is not a string'],
      [{ context: '', usd: '1' }, 'usd is not a number'],
      [{ context: '', usd: null }, 'usd is not a number'],
      [{ context: '', cost: 1 }, '"cost" is none of context, usd'],
      [[], 'not a JSON object'],
    ])('for a request that can be read: %j', async (body, message) => {
      expect(await refund(body)).toMatchObject([400, { error: expect.stringContaining(message) as string }]);
    });

    it('of an amount that can be', async () => {
      const { context } = await callGate(tight(), 0.1);
      expect(await refund({ context, usd: -1 })).toMatchObject([400, { reason: 'invalid_amount' }]);
      expect(await refund({ context: 'a'.repeat(17_000) })).toMatchObject([413, {}]);
      expect(await refund({ context })).toMatchObject([200, {}]);
    });

    it('by a gate that signs', async () => {
      const plain = await startTestService();
      const response = await fetch(`${plain.url}/v1/refund`, { method: 'POST', body: '{}' });
      expect([response.status, await response.text()]).toEqual([
        404,
        expect.stringContaining('GATE_SIGNING_KEY'),
      ]);
      await plain.close();
    });
  });

  it.each([
    ['', 400],
    ['?receipt=', 400],
    ['?receipt=sha256:AB', 400],
    [`?receipt=sha256:${'a'.repeat(64)}&receipt=1`, 400],
    [`?receipt=sha256:${'A'.repeat(64)}`, 400],
    [`?receipt=sha256%3a${'a'.repeat(64)}`, 200],
  ])('are read for one receipt: %s', async (query, status) => {
    expect((await usage(query)).status).toBe(status);
  });

  it('are read by nobody else', async () => {
    expect((await usage(`?receipt=sha256:${'a'.repeat(64)}`, 'guess')).status).toBe(401);
  });

  it('are shown by a command', async () => {
    const digest = `sha256:${'b'.repeat(64)}`;
    const env = { PATH: process.env['PATH'], DRS_VERIFY_URL: service.url, DRS_ADMIN_TOKEN: TOKEN };
    const { stdout } = await promisify(execFile)(process.execPath, ['dist/cli/main.js', 'usage', digest], {
      env,
    });
    expect(stdout).toBe(`${digest}\n  /verify: 0 calls, 0 US dollars\n  the gate: 0 calls, 0 US dollars\n`);
  });
});

describe('without replay protection', () => {
  it('a verifier says which limits it does not enforce', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const verdictOn = (chain: Chain) =>
      verifier.verify(liveCall(chain, { ...args, estimated_cost_usd: 1 }), { details: true });
    const both = await verdictOn(limited({ max_calls: 1, max_total_cost_usd: 5 }));
    expect(both.context?.unenforced).toEqual(['max_total_cost_usd', 'max_calls']);
    expect(both.details?.unenforced).toEqual(['max_total_cost_usd', 'max_calls']);
    expect(both.details).not.toHaveProperty('limits');
    expect((await verdictOn(limited({ max_calls: 1 }))).context?.unenforced).toEqual(['max_calls']);
    const none = await verdictOn(limited({}));
    expect(none.context).not.toHaveProperty('unenforced');
    expect(none.details).not.toHaveProperty('unenforced');
    await verifier.close();
  });

  it('a middleware tells its handler the same, and counts if it has a store', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = limited({ max_calls: 1 });
    const ask = async (handler: (request: Request) => Promise<Response>) => {
      const request = new Request('http://tools.example/', {
        ...{ method: 'POST', body: JSON.stringify(args) },
        headers: { 'X-DRS-Bundle': encode(liveCall(chain, args)), 'Content-Type': 'application/json' },
      });
      return (await handler(request)).text();
    };
    const handler = (request: Request) => {
      const { limits, unenforced } = drsContext(request);
      return Response.json({ left: limits?.[0]?.calls_left, unenforced });
    };
    const open = drsFetch({ ...OPEN_ROUTE, verifier }, handler);
    const counting = drsFetch({ ...OPEN_ROUTE, verifier, replayStore: createMemoryReplayStore() }, handler);
    expect(await ask(open)).toBe('{"unenforced":["max_calls"]}');
    expect(await ask(open)).toBe('{"unenforced":["max_calls"]}');
    expect(await ask(counting)).toBe('{"left":0}');
    expect(await ask(counting)).toContain('LIMIT_REACHED');
    await verifier.close();
  });

  it('and behind a verifier that knows no limits, a call without a cost is refused', async () => {
    const chain = limited({ max_total_cost_usd: 5 });
    // As a service of an older version.
    const verifier = { verify: () => Promise.resolve({ valid: true } as const) };
    const handle = drsFetch(
      { ...OPEN_ROUTE, verifier, bindingMode: 'off', replayStore: createMemoryReplayStore() },
      () => new Response('done'),
    );
    const headers = { 'X-DRS-Bundle': encode(liveCall(chain, args)), 'Content-Type': 'application/json' };
    const answer = await handle(
      new Request('http://tools.example/', { method: 'POST', body: '{}', headers }),
    );
    expect([answer.status, await answer.text()]).toEqual([403, expect.stringContaining('LIMIT_REACHED')]);
  });
});
