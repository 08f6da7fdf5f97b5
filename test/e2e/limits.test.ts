import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeJwt, decodeProtectedHeader, importJWK, SignJWT } from 'jose';
import { generateKey } from '../../src/issue/index.js';
import { toolCall } from '../gate/attacks.js';
import { createVerifier, type Verdict } from '../../src/index.js';
import { digestOf } from '../../src/protocol/jwt.js';
import { drsFetch, drsContext, RefundError } from '../../src/middleware/index.js';
import { createMemoryReplayStore } from '../../src/usage/index.js';
import { eventually } from '../support/eventually.js';
import { encode, liveCall, liveChain, OPEN_ROUTE } from '../middleware/call.js';
import type { Chain } from '../support/chain.js';
import { metricOf, startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

const TOKEN = 'token-for-the-tests';
const key = generateKey();
const args = { tool: 'search', query: 'tea' };
const limited = (policy: object) => liveChain(2, { policy: { allowed_tools: ['search'], ...policy } });
const digests = ({ receipts }: Chain) => receipts.map(digestOf);

describe('limits of all calls at a service', { shuffle: false }, () => {
  let service: RunningService;
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-limits-'));
  beforeAll(async () => {
    service = await startService({
      ...{ REPLAY_PROTECTION: 'memory', DRS_ADMIN_TOKEN: TOKEN },
      ...{ GATE_SIGNING_KEY: key.toJwk().d, DECISION_LOG: path.join(folder, 'decisions') },
    });
  });
  afterAll(async () => {
    await service.stop();
    rmSync(folder, { recursive: true });
  });

  const verify = async (chain: Chain, cost?: number) => {
    const signed = cost === undefined ? args : { ...args, estimated_cost_usd: cost };
    const response = await service.post('/verify', { ...liveCall(chain, signed), details: true });
    return (await response.json()) as Verdict;
  };
  const askGate = async (bundle: object, { tool: name, ...rest }: { tool: string } = args) => {
    const asked = {
      ...{ protocol: 'mcp', headers: { 'X-DRS-Bundle': encode(bundle) } },
      body_text: toolCall({ name, arguments: rest }),
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
    expect(Object.keys(first.context ?? {})).toEqual([
      'root_principal',
      'chain_depth',
      'leaf_policy',
      'tool_server',
    ]);
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

  it('of the gate are given back with the context that it has signed, once', async () => {
    const policy = { allowed_tools: ['search'], max_calls: 1, max_total_cost_usd: 0.5 };
    const chain = liveChain(1, { cmd: '/mcp/tools/call', policy });
    const allowed = async (of: Chain) => {
      const signed = { ...args, estimated_cost_usd: 0.4 };
      const { allow, context_jwt: token = '' } = await askGate(liveCall(of, signed), signed);
      return { allow, token };
    };
    const refund = async (body: object | string) => {
      const response = await service.post('/v1/refund', body);
      return [response.status, await response.json()];
    };
    const refused = (status: number, error: string, detail: string) => [
      status,
      { error, detail: expect.stringContaining(detail) as string },
    ];
    const first = await allowed(chain);
    const context = first.token;
    expect(decodeJwt(context)).toMatchObject({
      charged: [{ receipt: digests(chain)[0], micro_usd: 400_000 }],
    });
    expect((await allowed(chain)).allow).toBe(false);
    const [header, payload = '', signature] = context.split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const forged = [header, encode({ ...claims, iat: 1 }), signature].join('.');
    const signedBy = async (by: typeof key, others = {}) =>
      new SignJWT({ ...claims, ...others })
        .setProtectedHeader({ ...decodeProtectedHeader(context), alg: 'EdDSA' })
        .sign(await importJWK({ ...by.toJwk() }, 'EdDSA'));
    const none = [encode({ alg: 'none', typ: 'drs-context+jwt' }), payload, signature].join('.');
    // The same low bytes, which a careless decoder reads alike.
    const wide = [header, String.fromCharCode(payload.charCodeAt(0) + 256) + payload.slice(1), signature];
    for (const bad of [
      none,
      wide.join('.'),
      await signedBy(generateKey()),
      forged,
      '',
      '.',
      `${context}A`,
      context.replace('.', '..'),
      payload,
    ])
      expect(await refund({ context: bad })).toEqual(
        refused(403, 'REFUND_CONTEXT_INVALID', 'not one that this gate has signed'),
      );
    for (const [body, detail] of [
      [[], 'expected an object'],
      ['{', 'not strict JSON'],
      [{ usd: 1 }, 'context is missing'],
      [{ context, amount: 1 }, '"amount" is not a member of a refund'],
      [{ context, usd: null }, 'the amount is null'],
    ] as const)
      expect(await refund(body)).toEqual(refused(400, 'REFUND_MALFORMED', detail));
    const late = await signedBy(key, { iat: Math.floor(Date.now() / 1000) - 62 });
    expect(await refund({ context: late })).toEqual(refused(409, 'REFUND_TOO_LATE', '60 s after'));
    expect(await refund({ context, usd: 0.41 })).toEqual(refused(409, 'REFUND_TOO_LARGE', 'was charged 0.4'));
    const large = await service.post('/v1/refund', { context: 'x'.repeat(33_000) });
    expect(large.status).toBe(413);
    const all = await Promise.all([refund({ context }), refund({ context }), refund({ context })]);
    expect(all.filter(([status]) => status === 200)).toEqual([[200, { calls: 1, total_cost_usd: 0.4 }]]);
    expect(await refund({ context, usd: 0.1 })).toEqual(refused(409, 'REFUND_REPEATED', 'possible once'));
    expect((await allowed(chain)).allow).toBe(true);
    const free = await allowed(
      liveChain(1, { cmd: '/mcp/tools/call', policy: { allowed_tools: ['search'] } }),
    );
    expect(decodeJwt(free.token)).not.toHaveProperty('charged');
    expect(await refund({ context: free.token })).toEqual(refused(409, 'REFUND_NOT_CHARGED', 'no limit'));
    const scrape = await (await fetch(`${service.url}/metrics`)).text();
    const counted = (result: string) => metricOf(scrape, `drs_refunds_total{result="${result}"}`);
    expect([counted('done'), counted('REFUND_REPEATED'), counted('REFUND_CONTEXT_INVALID')]).toEqual([
      1, 3, 9,
    ]);
    // Also those that are refused, of contexts that the gate has signed.
    const refunds = () =>
      readFileSync(path.join(folder, 'decisions'), 'utf8')
        .split('\n')
        .filter((line) => line.includes('"refund":'))
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    await eventually(() => expect(refunds()).toHaveLength(8));
    const [done, ...more] = refunds().filter(({ refund }) => refund === 'done');
    expect(done).toMatchObject({
      ...{ endpoint: 'gate', refund: 'done', calls: 1, totalCostUsd: 0.4, receipts: digests(chain) },
      ...{ rootPrincipal: decodeJwt(context).sub, jti: decodeJwt(context).jti, tool: 'search' },
      ...{ address: '127.0.0.1', agent: decodeJwt(context)['agent'] },
    });
    expect(more).toEqual([]);
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

  it('a middleware that counts lets its handler give back, and others say why not', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = limited({ max_calls: 1, max_total_cost_usd: 1 });
    const signed = { ...args, estimated_cost_usd: 0.5 };
    const ask = async (handler: (request: Request) => Promise<Response>) => {
      const request = new Request('http://tools.example/', {
        ...{ method: 'POST', body: JSON.stringify(signed) },
        headers: { 'X-DRS-Bundle': encode(liveCall(chain, signed)), 'Content-Type': 'application/json' },
      });
      return (await handler(request)).json();
    };
    const code = (error: unknown) => (error instanceof RefundError ? error.code : String(error));
    const handler = async () => {
      const drs = drsContext();
      const too = await drs.refund(0.6).catch(code);
      const both = await Promise.all([drs.refund().catch(code), drs.refund().catch(code)]);
      return Response.json([too, ...both, Object.keys(drs).includes('refund'), Object.isFrozen(drs)]);
    };
    const counting = drsFetch({ ...OPEN_ROUTE, verifier, replayStore: createMemoryReplayStore() }, handler);
    const expected = ['REFUND_TOO_LARGE', { calls: 1, total_cost_usd: 0.5 }, 'REFUND_REPEATED', false, true];
    for (let calls = 0; calls < 3; calls++) expect(await ask(counting)).toEqual(expected);
    // Counting is the middleware's own, wherever verdicts come from.
    const remote = { verify: () => Promise.resolve({ valid: true } as const) };
    const replayStore = createMemoryReplayStore();
    const far = drsFetch({ ...OPEN_ROUTE, verifier: remote, bindingMode: 'off', replayStore }, handler);
    expect(await ask(far)).toEqual(expected);
    const open = drsFetch({ ...OPEN_ROUTE, verifier }, async () =>
      Response.json(await drsContext().refund().catch(code)),
    );
    expect(await ask(open)).toBe('REFUND_NOT_CHARGED');
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
