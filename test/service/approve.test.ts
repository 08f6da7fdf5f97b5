import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { challengeOf } from '../../src/approval/statement.js';
import type { Assertion } from '../../src/approval/webauthn.js';
import { RateLimit } from '../../src/service/load/rate-limit.js';
import { toolCall } from '../gate/attacks.js';
import { askGrpc, askProxy, askV1 } from '../gate/transports.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { requireApprovePage } from '../support/approve-page.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { requireDescribed } from '../support/openapi.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';
import { markAsUsed, RedisServer } from '../usage/redis-server.js';
import { Passkey } from '../approval/passkey.js';

/** The page's endpoints, and calls at the gate that has asked. */

const ORIGIN = 'https://drs.example';
const [alice, bob] = [new Passkey(), new Passkey('P-256', { name: 'Bob' })];
const policy = { allowed_tools: ['search'] };
const [open, closed, both] = [1, 2, 3].map(() => liveChain(2, { cmd: '/mcp', policy }));
const folder = mkdtempSync(path.join(tmpdir(), 'drs-approve-'));
let service: RunningService;

beforeAll(async () => {
  requireApprovePage();
  const entry = (chain: typeof open, more: object) =>
    JSON.stringify({
      ...{ did: chain?.parties[0]?.did, name: 'alice@example.com', approve: { tools: ['*'] } },
      ...more,
    });
  const lines = [
    entry(open, { approvers: [alice.approver] }),
    entry(closed, { approvers: [alice.approver], private: true }),
    entry(both, { approvers: [alice.approver, bob.approver], needed: 2 }),
  ];
  const file = path.join(folder, 'roots.jsonl');
  writeFileSync(file, lines.join('\n'));
  service = await startService({ TRUSTED_ROOTS_FILE: file, APPROVALS_URL: ORIGIN, GRPC_PORT: '0' });
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
  readonly body: Record<string, unknown>;
}

/** Not with `fetch`, which changes paths. */
async function ask(
  at: string,
  body?: object | string,
  headers: Record<string, string> = {},
  method = body === undefined ? 'GET' : 'POST',
): Promise<Answered> {
  const sent = request(new URL(at, service.url), { method, headers });
  sent.end(typeof body === 'object' ? JSON.stringify(body) : body);
  const [answer] = (await once(sent, 'response')) as [import('node:http').IncomingMessage];
  let text = '';
  for await (const piece of answer) text += String(piece);
  const isJson = answer.headers['content-type'] === 'application/json' && text !== '';
  const sentHeaders = new Headers(answer.headers as Record<string, string>);
  const { pathname } = new URL(at, service.url);
  requireDescribed({ method, path: pathname, status: answer.statusCode ?? 0, headers: sentHeaders, text });
  return {
    ...{ status: answer.statusCode ?? 0, headers: answer.headers, text },
    body: isJson ? (JSON.parse(text) as Record<string, unknown>) : {},
  };
}

/** Asks the gate about a call of `search`. */
async function call(chain = open, query = 'tea') {
  const bundle = encode(
    liveCall(chain as NonNullable<typeof chain>, { tool: 'search', query }, { cmd: '/mcp/tools/call' }),
  );
  const body = toolCall({ arguments: { query } });
  const headers = { 'X-DRS-Bundle': bundle, 'content-type': 'application/json' };
  const answered = await ask('/gate/mcp', body, headers);
  const { error } = answered.body as { error?: { data: { code: string; approval?: { url: string } } } };
  const url = error?.data.approval?.url ?? '';
  return {
    code: error?.data.code ?? 'allow',
    at: url.replace(ORIGIN, ''),
    handle: url.split('/').at(-1) ?? '',
  };
}

const wire = (id: string, { clientDataJSON, authenticatorData, signature }: Assertion) => ({
  id,
  clientDataJSON: clientDataJSON.toString('base64url'),
  authenticatorData: authenticatorData.toString('base64url'),
  signature: signature.toString('base64url'),
});

async function sign(at: string, passkey = alice) {
  const { body } = await ask(`${at}/statement`);
  const statement = Buffer.from(String(body['statement']));
  return wire(passkey.approver.id, passkey.assert(challengeOf(statement)));
}
const yes = async (at: string, passkey = alice) =>
  ask(at, { answer: 'yes', ...(await sign(at, passkey)) }, { origin: ORIGIN });

it('a call waits, a person sees it and says yes, it passes once', async () => {
  const { code, at, handle } = await call();
  expect(code).toBe('APPROVAL_REQUIRED');
  expect(at).toMatch(/^\/approve\/[\w-]{22}$/);
  expect((await call()).at).toBe(at);
  const { status, body } = await ask(`${at}/statement`);
  expect(status).toBe(200);
  const { statement, ...rest } = body;
  const agent = open?.parties.at(-1)?.did;
  expect(JSON.parse(String(statement))).toMatchObject({
    ...{ v: 1, agent, handle, args: { tool: 'search', query: 'tea' } },
  });
  expect(rest).toMatchObject({
    ...{ state: 'asked', needed: 1, said: [], root_name: 'alice@example.com' },
    ends: expect.any(Number) as number,
    approvers: [{ name: 'Alice', id: alice.approver.id }],
    receipts: [{ iss: open?.parties[0]?.did, policy }, { aud: agent }],
  });
  expect((await yes(at)).body).toEqual({ state: 'approved', missing: 0 });
  expect((await ask(`${at}/statement`)).body).toMatchObject({ state: 'approved', said: ['Alice'] });
  expect((await call()).code).toBe('allow');
  expect((await ask(`${at}/statement`)).status).toBe(404);
  expect((await call()).code).toBe('APPROVAL_REQUIRED');
});

it('each door of the gate gives the same link', async () => {
  const { at } = await call(open, 'doors');
  const body = toolCall({ arguments: { query: 'doors' } });
  const args = { tool: 'search', query: 'doors' };
  const bundle = encode(liveCall(open as NonNullable<typeof open>, args, { cmd: '/mcp/tools/call' }));
  const attempt = { headers: [['X-DRS-Bundle', bundle]], body } as const;
  const gateway = askGrpc(service);
  for (const ask of [askProxy(service), askV1(service), gateway.ask])
    expect(await ask('mcp', attempt)).toMatchObject({
      ...{ decision: 'deny', status: 403, code: 'APPROVAL_REQUIRED' },
      body: { error: { data: { approval: { url: ORIGIN + at, expires_at: expect.any(Number) as number } } } },
    });
  gateway.close();
});

it('after a no the same call is denied, and another one asks', async () => {
  const { at } = await call(open, 'no');
  expect((await ask(at, { answer: 'no' })).body).toEqual({ state: 'denied', missing: 1 });
  expect((await call(open, 'no')).code).toBe('APPROVAL_DENIED');
  expect((await ask(`${at}/statement`)).body).toMatchObject({ state: 'denied' });
  expect((await yes(at)).status).toBe(409);
  expect((await call(open, 'another')).code).toBe('APPROVAL_REQUIRED');
});

it('four eyes are needed where the entry says so', async () => {
  const { at } = await call(both);
  expect((await yes(at)).body).toEqual({ state: 'asked', missing: 1 });
  expect((await call(both)).code).toBe('APPROVAL_REQUIRED');
  expect((await yes(at, bob)).body).toEqual({ state: 'approved', missing: 0 });
  expect((await call(both)).code).toBe('allow');
});

it('a private question is shown to its approver alone', async () => {
  const { at, handle } = await call(closed);
  const { body } = await ask(`${at}/statement`);
  const challenge = createHash('sha256').update(`drs-approval-view:${handle}`).digest();
  const approvers = [{ name: 'Alice', id: alice.approver.id }];
  expect(body).toEqual({ private: true, challenge: challenge.toString('base64url'), approvers });
  const seen = await ask(`${at}/statement`, wire(alice.approver.id, alice.assert(challenge)));
  expect(seen.body).toMatchObject({ state: 'asked', receipts: [{}, {}] });
  const theirs = await ask(`${at}/statement`, wire(bob.approver.id, bob.assert(challenge)));
  expect(theirs).toMatchObject({ status: 400, body: { error: 'this passkey is not one of an approver' } });
  // What shows it is no yes.
  const forged = await ask(at, { answer: 'yes', ...wire(alice.approver.id, alice.assert(challenge)) });
  expect(forged.status).toBe(400);
  const statement = Buffer.from(String(seen.body['statement']));
  const signed = wire(alice.approver.id, alice.assert(challengeOf(statement)));
  expect((await ask(`${at}/statement`, signed)).status).toBe(400);
  expect((await ask(at, { answer: 'yes', ...signed })).body).toEqual({ state: 'approved', missing: 0 });
});

describe('the page', () => {
  it('is there for each handle, known or not, and for registering, and forbids what it does not need', async () => {
    for (const at of ['/approve/register', '/approve/0000000000000000000000', (await call()).at]) {
      const { status, headers, text } = await ask(at);
      expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
      expect(text).toContain('<!doctype html>');
      expect(headers).toMatchObject({
        'content-security-policy': expect.stringMatching(
          /^default-src 'none';.*frame-ancestors 'none'$/,
        ) as string,
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-store',
      });
      expect(headers['content-security-policy']).not.toContain('unsafe');
    }
  });

  it.each([
    ['/approve/assets/none.js', 404],
    ['/approve/../package.json', 404],
    ['/approve/%2e%2e/package.json', 404],
    ['/approve/assets/', 404],
    ['/approve/', 404],
    ['/approve/0000000000000000000000/statement', 404],
    ['/approve/0000000000000000000000/other', 404],
  ])('has nothing at %s', async (at, status) => {
    expect((await ask(at)).status).toBe(status);
  });

  it('takes no other methods', async () => {
    const { status, headers } = await ask('/approve/register', undefined, {}, 'DELETE');
    expect([status, headers['allow']]).toEqual([405, 'GET, HEAD, POST']);
    expect((await ask('/approve/register', '{"answer":"no"}')).status).toBe(404);
    expect((await ask('/approve/assets/page.js', '{"answer":"no"}')).status).toBe(404);
  });
});

describe('an answer', () => {
  it('of a page of another origin is refused', async () => {
    const { at } = await call();
    for (const origin of ['https://evil.example', 'null', 'https://drs.example:444']) {
      expect((await ask(at, { answer: 'no' }, { origin })).status).toBe(403);
      expect((await ask(`${at}/statement`, undefined, { origin })).status).toBe(403);
    }
    expect((await call()).code).toBe('APPROVAL_REQUIRED');
  });

  it('to no question is refused', async () => {
    const unknown = `/approve/${'0'.repeat(22)}`;
    expect((await ask(unknown, { answer: 'no' })).status).toBe(404);
    expect((await ask(unknown, { answer: 'yes', ...(await sign((await call()).at)) })).status).toBe(404);
  });

  it('has exactly its members, in strict JSON', async () => {
    const { at } = await call();
    const signed = await sign(at);
    const { id, ...rest } = signed;
    for (const body of [
      '',
      '[]',
      '{"answer":"no","answer":"no"}',
      {},
      { answer: 'maybe' },
      { answer: 'no', id },
      { answer: 'no', more: 1 },
      { answer: 'yes' },
      signed,
      { answer: 'yes', ...rest },
      { answer: 'yes', ...signed, more: 1 },
      { answer: 'yes', ...signed, signature: `${signed.signature}=` },
      { answer: 'yes', ...signed, signature: 1 },
      { answer: 'yes', ...signed, id: 1 },
    ])
      expect([body, (await ask(at, body)).status]).toEqual([body, 400]);
    expect((await ask(at, ' '.repeat(16_385))).status).toBe(413);
    expect((await ask(`${at}/statement`, { answer: 'yes', ...signed })).status).toBe(400);
    expect((await call()).code).toBe('APPROVAL_REQUIRED');
    expect((await ask(at, { answer: 'yes', ...signed })).status).toBe(200);
  });

  it('says why it is no yes', async () => {
    const { at } = await call(open, 'why');
    const signed = await sign(at, bob);
    const { status, body } = await ask(at, { answer: 'yes', ...signed, id: alice.approver.id });
    expect([status, body]).toEqual([400, { error: 'the signature is not one of this passkey' }]);
  });
});

it('the yes given at one instance serves the call at another', needs('redis-server'), async () => {
  const redis = await RedisServer.start();
  await markAsUsed(redis, 'drs:approve:{1}:');
  const chain = liveChain(2, { cmd: '/mcp', policy });
  const file = path.join(folder, 'shared.jsonl');
  const did = chain.parties[0]?.did;
  writeFileSync(file, JSON.stringify({ did, approve: { tools: ['*'] }, approvers: [alice.approver] }));
  const env = {
    ...{ TRUSTED_ROOTS_FILE: file, APPROVALS_URL: ORIGIN, GATE_REPLAY: 'redis' },
    ...{ REDIS_URL: redis.url, REDIS_TIMEOUT_MS: '2000' },
  };
  const own = service;
  const [first, second] = [await startService(env), await startService(env)];
  service = first;
  const { at } = await call(chain);
  service = second;
  expect((await yes(at)).body).toEqual({ state: 'approved', missing: 0 });
  const codes = async (one: RunningService) => {
    service = one;
    return (await call(chain)).code;
  };
  // Both have the yes, and one call gets it.
  expect(await codes(first)).toBe('allow');
  expect(await codes(second)).toBe('APPROVAL_REQUIRED');
  service = own;
  await Promise.all([first.stop(), second.stop()]);
  await redis.stop();
});

it('what fails in Redis is for the log alone', needs('redis-server'), async () => {
  const redis = await RedisServer.start();
  await markAsUsed(redis, 'drs:approve:{1}:');
  const own = service;
  service = await startService({
    ...{ TRUSTED_ROOTS_FILE: path.join(folder, 'roots.jsonl'), APPROVALS_URL: ORIGIN, GATE_REPLAY: 'redis' },
    ...{ REDIS_URL: redis.url, REDIS_TIMEOUT_MS: '2000' },
  });
  const { log } = service;
  const { host } = new URL(redis.url);
  await redis.stop();
  const bundle = encode(
    liveCall(open as NonNullable<typeof open>, { tool: 'search', query: 'tea' }, { cmd: '/mcp/tools/call' }),
  );
  const headers = { 'X-DRS-Bundle': bundle, 'content-type': 'application/json' };
  for (let round = 0; round < 5; round++) {
    const { status, text } = await ask('/gate/mcp', toolCall({ arguments: { query: 'tea' } }), headers);
    expect(status).toBe(403);
    expect(text).toContain('expected a store of questions that can tell');
    for (const inside of [host, host.split(':')[1] ?? '', 'connect', 'ECONN', 'closed', 'socket'])
      expect(text.toLowerCase()).not.toContain(inside.toLowerCase());
  }
  const said = log.filter(({ msg }) => String(msg).startsWith('the store of questions cannot tell'));
  expect(said).toMatchObject([{ level: 50, err: { message: expect.any(String) as string } }]);
  await service.stop();
  service = own;
});

it('nobody is asked where nobody could say yes here', async () => {
  const chain = liveChain(2, { cmd: '/mcp', policy });
  const elsewhere = new Passkey('Ed25519', { origin: 'https://other.example' }).approver;
  const did = chain.parties[0]?.did;
  const file = path.join(folder, 'other.jsonl');
  writeFileSync(file, JSON.stringify({ did, approve: { tools: ['*'] }, approvers: [elsewhere] }));
  const other = await startService({ TRUSTED_ROOTS_FILE: file, APPROVALS_URL: ORIGIN });
  const bundle = encode(liveCall(chain, { tool: 'search', query: 'tea' }, { cmd: '/mcp/tools/call' }));
  const asked = { protocol: 'mcp', headers: { 'X-DRS-Bundle': bundle }, body_text: toolCall() };
  const text = await (await other.post('/v1/gate', asked)).text();
  await other.stop();
  expect(text).toContain(
    'expected 1 of approvers with the origin https://drs.example in the line of the root principal in TRUSTED_ROOTS_FILE, which has 0',
  );
});

it('a yes whose approver is withdrawn before the call is worth nothing', async () => {
  const chain = liveChain(2, { cmd: '/mcp', policy });
  const did = chain.parties[0]?.did;
  const file = path.join(folder, 'changed.jsonl');
  const trust = (...approvers: (typeof alice.approver)[]) =>
    writeFileSync(file, JSON.stringify({ did, approve: { tools: ['*'] }, approvers }));
  trust(alice.approver);
  const own = service;
  service = await startService({ TRUSTED_ROOTS_FILE: file, APPROVALS_URL: ORIGIN });
  const { at } = await call(chain);
  expect((await yes(at)).body).toEqual({ state: 'approved', missing: 0 });
  trust(bob.approver);
  await eventually(
    async () => expect((await ask(`${at}/statement`)).body).toMatchObject({ state: 'asked', said: [] }),
    300,
  );
  expect(await call(chain)).toMatchObject({ code: 'APPROVAL_REQUIRED', at });
  expect((await yes(at)).body).toEqual({ error: 'this passkey is not one of an approver' });
  await service.stop();
  service = own;
});

it('a question is shown to nobody when its approvers are withdrawn', async () => {
  const chain = liveChain(2, { cmd: '/mcp', policy });
  const did = chain.parties[0]?.did;
  const file = path.join(folder, 'withdrawn.jsonl');
  const entry = { did, approve: { tools: ['*'] }, approvers: [alice.approver], private: true };
  writeFileSync(file, JSON.stringify(entry));
  const own = service;
  service = await startService({ TRUSTED_ROOTS_FILE: file, APPROVALS_URL: ORIGIN });
  const { at } = await call(chain);
  expect((await ask(`${at}/statement`)).body).toMatchObject({ private: true });
  writeFileSync(file, JSON.stringify({ did }));
  await eventually(async () => expect((await ask(`${at}/statement`)).status).toBe(404), 300);
  await service.stop();
  service = own;
});

it('each client may send 300 requests a minute', async () => {
  const other = await startService({ APPROVALS_URL: ORIGIN, TRUST_PROXY: '1' });
  const statusOf = async (client: string) => {
    const at = new URL('/approve/register', other.url).href;
    return (await ask(at, undefined, { 'x-forwarded-for': client }, 'DELETE')).status;
  };
  // Its clock stands still, however long they take.
  let clockMs = 0;
  const admit = Reflect.get(RateLimit.prototype, 'admit');
  const counted = vi.spyOn(RateLimit.prototype, 'admit').mockImplementation(function (
    this: RateLimit,
    client,
  ) {
    return admit.call(this, client, clockMs);
  });
  onTestFinished(() => counted.mockRestore());
  const statuses = await Promise.all(Array.from({ length: 310 }, () => statusOf('192.0.2.1')));
  expect(statuses.filter((status) => status === 405)).toHaveLength(300);
  expect(statuses.filter((status) => status === 429)).toHaveLength(10);
  expect(await statusOf('192.0.2.2')).toBe(405);
  // Each fifth of a second lets one more pass.
  clockMs = 201;
  expect([await statusOf('192.0.2.1'), await statusOf('192.0.2.1')]).toEqual([405, 429]);
  await other.stop();
});
