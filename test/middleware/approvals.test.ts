import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { getRequestListener } from '@hono/node-server';
import * as v2 from '@modelcontextprotocol/client';
import { createMcpHandler, McpServer as V2Server } from '@modelcontextprotocol/server';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer as V1Server } from '@modelcontextprotocol/sdk/server/mcp.js';
import { UrlElicitationRequiredError } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { Questions } from '../../src/approval/questions.js';
import { challengeOf } from '../../src/approval/statement.js';
import { checkYesLine, readYesLine } from '../../src/cli/approval-line.js';
import { DrsClient } from '../../src/client/index.js';
import { openApprovals as openWithoutNode } from '../../src/middleware/approvals-web.js';
import {
  createMemoryReplayStore,
  drsContext,
  drsFetch,
  drsMiddleware,
  openApprovals,
  openRedisReplayStore,
  type ApprovalRecord,
  type ApprovalsOptions,
  type Refusal,
} from '../../src/middleware/index.js';
import type { Denial } from '../../src/gate/request.js';
import { ASKER } from '../../src/middleware/options.js';
import { drsMcp, type McpProtection } from '../../src/middleware/mcp/index.js';
import { createVerifier, type Verifier } from '../../src/verifier/create-verifier.js';
import { Passkey } from '../approval/passkey.js';
import { requireApprovePage, watchHeld } from '../support/approve-page.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { markAsUsed, RedisServer } from '../usage/redis-server.js';
import { encode, liveCall, liveChain } from './call.js';
import { listen, type TestServer } from './http.js';

/** Middleware that asks persons for their yes itself. */

const ORIGIN = 'https://tools.example';
const [alice, bob] = [
  new Passkey('Ed25519', { origin: ORIGIN }),
  new Passkey('P-256', { name: 'Bob', origin: ORIGIN }),
];
const CMD = { cmd: '/mcp/tools/call' };
const policy = { allowed_tools: ['search'] };
const [chain, both, hidden] = [1, 2, 3].map(() => liveChain(2, { cmd: '/mcp', policy })) as [
  Chain,
  Chain,
  Chain,
];
type Chain = ReturnType<typeof liveChain>;
const SERVED = { serverIdentity: 'any', trustedRoots: 'any' } as const;

let verifier: Verifier;
beforeAll(() => {
  requireApprovePage();
  const entry = ({ parties }: Chain, more: object) => ({
    ...{ did: parties[0]?.did as string, name: 'alice@example.com', approve: { tools: ['*'] } },
    ...more,
  });
  verifier = createVerifier({
    workerThreads: 0,
    trustedRoots: [
      entry(chain, { approvers: [alice.approver] }),
      entry(both, { approvers: [alice.approver, bob.approver], needed: 2 }),
      entry(hidden, { approvers: [alice.approver], private: true }),
    ],
  });
});
afterAll(() => verifier.close());

/** A page of its own, whose answers `ask` gets over node:http. */
async function opened(more: Partial<ApprovalsOptions> = {}) {
  const { replayStore = createMemoryReplayStore() } = more;
  const approvals = await openApprovals({ url: ORIGIN, verifier, ...more, replayStore });
  const page = await listen(approvals.page);
  onTestFinished(() => page.close());
  return { approvals, page, protection: { ...SERVED, verifier, replayStore, approvals } };
}

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

async function ask(
  { url }: TestServer,
  at: string,
  body?: object | string,
  headers: Record<string, string> = {},
  method = body === undefined ? 'GET' : 'POST',
): Promise<Answered> {
  const sent = request(new URL(at.replace(ORIGIN, ''), url), { method, headers, agent: false });
  sent.end(typeof body === 'object' ? JSON.stringify(body) : body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const piece of answer) text += String(piece);
  return { status: answer.statusCode ?? 0, headers: answer.headers, text };
}

const bodyOf = ({ text }: Answered) => JSON.parse(text) as Record<string, unknown>;

/** What a passkey signs on the page behind a link. */
async function signed(page: TestServer, link: string, passkey = alice) {
  const { statement } = bodyOf(await ask(page, `${link}/statement`));
  const assertion = passkey.assert(challengeOf(Buffer.from(String(statement))));
  const wire = Object.entries<Buffer>({ ...assertion }).map(([name, bytes]) => [
    name,
    bytes.toString('base64url'),
  ]);
  return { id: passkey.approver.id, ...(Object.fromEntries(wire) as object) };
}
const sayYes = async (page: TestServer, link: string, passkey = alice) =>
  bodyOf(await ask(page, link, { answer: 'yes', ...(await signed(page, link, passkey)) }));
const sayNo = (page: TestServer, link: string) => ask(page, link, { answer: 'no' });

interface Told {
  readonly code: string;
  readonly approval?: { readonly url: string; readonly expires_at: number };
}

describe('over HTTP', () => {
  /** A server of one tool; `post` gives its status, and the refusal. */
  async function served(more: Partial<ApprovalsOptions> = {}, handle: () => void = () => undefined) {
    const { approvals, page, protection } = await opened(more);
    const onRefused = vi.fn<(refusal: Refusal) => void>();
    const drs = drsMiddleware({ ...protection, onRefused, tool: 'search', onError: () => undefined });
    const server = await listen((req, res) =>
      drs(req, res, () => {
        handle();
        res.end(JSON.stringify({ by: drsContext(req).approval?.by.map(({ name }) => name) }));
      }),
    );
    onTestFinished(() => server.close());
    const post = async (of = chain, query = 'tea') => {
      const args = { tool: 'search', query };
      const headers = { 'X-DRS-Bundle': encode(liveCall(of, args, CMD)), 'Content-Type': 'application/json' };
      const answered = await ask(server, '/', args, headers);
      const { error, by } = (answered.text === '' ? {} : bodyOf(answered)) as { error?: Told; by?: string[] };
      return { status: answered.status, code: error?.code, link: error?.approval?.url ?? '', by };
    };
    return { approvals, page, post, onRefused };
  }

  it('a call waits with a link, and passes once with a yes', async () => {
    const { page, post, onRefused } = await served();
    const { status, code, link } = await post();
    expect({ status, code }).toEqual({ status: 403, code: 'APPROVAL_REQUIRED' });
    expect(link).toMatch(/^https:\/\/tools\.example\/approve\/[\w-]{22}$/);
    expect(onRefused.mock.calls[0]?.[0].message).toContain(
      `expected that "Alice" opens ${link} and says yes by`,
    );
    expect((await post()).link).toBe(link);
    expect((await ask(page, link)).text).toContain('<!doctype html>');
    expect(await sayYes(page, link)).toEqual({ state: 'approved', missing: 0 });
    expect((await post(chain, 'coffee')).code).toBe('APPROVAL_REQUIRED');
    expect(await post()).toMatchObject({ status: 200, by: ['Alice'] });
    expect((await post()).code).toBe('APPROVAL_REQUIRED');
  });

  it('is refused after a no', async () => {
    const { page, post } = await served();
    const { link } = await post();
    await sayYes(page, link);
    expect(bodyOf(await sayNo(page, link))).toEqual({ state: 'denied', missing: 1 });
    expect(await post()).toMatchObject({ status: 403, code: 'APPROVAL_DENIED', link });
  });

  it('waits for both persons', async () => {
    const { page, post } = await served();
    const { link } = await post(both);
    expect(await sayYes(page, link)).toEqual({ state: 'asked', missing: 1 });
    expect((await post(both)).code).toBe('APPROVAL_REQUIRED');
    expect(await sayYes(page, link, bob)).toEqual({ state: 'approved', missing: 0 });
    expect(await post(both)).toMatchObject({ status: 200, by: ['Alice', 'Bob'] });
  });

  it('asks nobody where fewer persons than needed could say yes here', async () => {
    const elsewhere = new Passkey('Ed25519', { name: 'Bob', origin: 'https://other.example' });
    const second = new Passkey('Ed25519', { origin: ORIGIN });
    const { did } = chain.parties[0] as { did: string };
    const approvers = [alice.approver, second.approver, elsewhere.approver];
    const fewer = createVerifier({
      workerThreads: 0,
      trustedRoots: [{ did, approve: { tools: ['*'] }, approvers, needed: 2 }],
    });
    onTestFinished(() => fewer.close());
    const { protection } = await opened({ verifier: fewer });
    const args = { tool: 'search', query: 'tea' };
    const headers = {
      'X-DRS-Bundle': encode(liveCall(chain, args, CMD)),
      'Content-Type': 'application/json',
    };
    const handler = drsFetch({ ...protection, verifier: fewer, tool: 'search' }, () => new Response());
    const sent = new Request(ORIGIN, { method: 'POST', headers, body: JSON.stringify(args) });
    const refused = await (await handler(sent)).text();
    expect(refused).toContain(`expected 2 of approvers with the origin ${ORIGIN}`);
    expect(refused).toContain('which has 1');
    expect(refused).not.toContain('/approve/');
  });

  it('has used its yes when its handler throws', async () => {
    const { page, post } = await served({}, () => {
      throw new Error('no tea');
    });
    await sayYes(page, (await post()).link);
    expect((await post()).status).toBe(500);
    expect((await post()).code).toBe('APPROVAL_REQUIRED');
  });

  it('gives no yes to the second of two racing calls', async () => {
    const { page, post } = await served();
    await sayYes(page, (await post()).link);
    const all = await Promise.all([post(), post(), post()]);
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 403, 403]);
  });

  it('has the yes of another instance with the same Redis', needs('redis-server'), async () => {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.stop());
    for (const prefix of ['drs:replay:', 'drs:approve:{1}:']) await markAsUsed(redis, prefix);
    const open = async () => {
      const replayStore = await openRedisReplayStore({ url: redis.url, timeoutMs: 2000 });
      const instance = await served({ replayStore });
      onTestFinished(async () => {
        instance.approvals.close();
        await replayStore.close();
      });
      return instance;
    };
    const [first, second] = [await open(), await open()];
    const { link } = await first.post();
    expect((await second.post()).link).toBe(link);
    expect(await sayYes(second.page, link)).toEqual({ state: 'approved', missing: 0 });
    const all = await Promise.all([first.post(), second.post()]);
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 403]);
  });

  it(
    'says nothing of what fails in Redis to callers, and once to its operator',
    needs('redis-server'),
    async () => {
      const redis = await RedisServer.start();
      // Nothing marks what it has: it may forget.
      const replayStore = await openRedisReplayStore({ url: redis.url, timeoutMs: 2000, mayForget: true });
      const onError = vi.fn<(error: Error) => void>();
      const { approvals, post, onRefused } = await served({ replayStore, onError });
      onTestFinished(async () => {
        approvals.close();
        await replayStore.close();
      });
      expect((await post()).link).not.toBe('');
      await redis.stop();
      for (let round = 0; round < 3; round++)
        expect(await post()).toMatchObject({ status: 403, code: 'APPROVAL_REQUIRED', link: '' });
      const said = onRefused.mock.calls.map(([{ message }]) => message);
      expect(new Set(said.slice(1))).toEqual(
        new Set([expect.stringMatching(/expected a store of questions that can tell$/)]),
      );
      expect(onError).toHaveBeenCalledTimes(1);
    },
  );

  it.each([
    ['of the same questions lets no call pass, whatever a person says', true, 403],
    ['of questions of its own needs a yes for each', false, 200],
  ])('behind another check %s', async (_, isShared, last) => {
    const first = await opened();
    const second = isShared ? first : await opened();
    const guarded = (
      of: typeof first,
      replayScope: string,
      handler: (request: Request) => Promise<Response>,
    ) => drsFetch({ ...of.protection, replayScope, tool: 'search' }, handler);
    const behind = guarded(second, 'behind', () => Promise.resolve(new Response('ran')));
    const inFront = guarded(first, 'in front', behind);
    const args = { tool: 'search', query: 'tea' };
    const statuses: number[] = [];
    for (const { page } of [first, second, first, first]) {
      const headers = {
        'X-DRS-Bundle': encode(liveCall(chain, args, CMD)),
        'Content-Type': 'application/json',
      };
      const answered = await inFront(
        new Request(ORIGIN, { method: 'POST', headers, body: JSON.stringify(args) }),
      );
      statuses.push(answered.status);
      if (answered.status === 200) break;
      const { error } = (await answered.json()) as { error: Told };
      expect(error.code).toBe('APPROVAL_REQUIRED');
      expect(await sayYes(page, error.approval?.url ?? '')).toEqual({ state: 'approved', missing: 0 });
    }
    expect(statuses).toEqual([403, 403, 403, last]);
  });

  it('has what proves a yes, and says what happened', async () => {
    const records: ApprovalRecord[] = [];
    const { page, post } = await served({ onRecord: (record) => records.push(record) });
    const { link } = await post();
    await sayYes(page, link);
    await post();
    expect(records.map(({ event }) => event)).toEqual(['asked', 'approved', 'used']);
    expect(records.every(({ approval: { handle } }) => link.endsWith(handle))).toBe(true);
    const line = readYesLine(JSON.stringify(records[1]));
    const {
      requested_at: _,
      handle: __,
      v: ___,
      ...call
    } = JSON.parse(line?.statement ?? '') as Record<string, never>;
    const approval = {
      approvers: [alice.approver],
      needed: 1,
      tools: null,
      aboveUsd: null,
      isPrivate: false,
    };
    expect(checkYesLine(line as never, call as never, approval)).toHaveProperty('value');
    expect(checkYesLine(line as never, { ...call, command: '/x' } as never, approval)).toHaveProperty(
      'problem',
    );
  });

  it('tells of a record that cannot be kept, and goes on', async () => {
    const onError = vi.fn();
    const { post } = await served({ onRecord: () => Promise.reject(new Error('disk full')), onError });
    expect((await post()).code).toBe('APPROVAL_REQUIRED');
    expect(onError).toHaveBeenCalledWith(new Error('disk full'));
  });

  it('asks nobody on trial', async () => {
    const { protection } = await opened();
    const onRefused = vi.fn<(refusal: Refusal) => void>();
    const handler = drsFetch(
      { ...protection, mode: 'observe', onRefused, tool: 'search' },
      () => new Response('ran'),
    );
    const args = { tool: 'search', query: 'tea' };
    const headers = {
      'X-DRS-Bundle': encode(liveCall(chain, args, CMD)),
      'Content-Type': 'application/json',
    };
    const answered = await handler(
      new Request(ORIGIN, { method: 'POST', headers, body: JSON.stringify(args) }),
    );
    expect(await answered.text()).toBe('ran');
    expect(onRefused.mock.calls[0]?.[0]).toMatchObject({ code: 'APPROVAL_REQUIRED' });
    expect(onRefused.mock.calls[0]?.[0].message).not.toContain('/approve/');
  });
});

describe('the page', () => {
  it('passes on what is not below /approve/', async () => {
    const { approvals } = await opened();
    const server = await listen((req, res) => approvals.page(req, res, () => res.end('app')));
    onTestFinished(() => server.close());
    for (const path of ['/', '/approver', '/x/approve/']) expect((await ask(server, path)).text).toBe('app');
    expect((await ask(server, '/approve/register?x=1')).text).toContain('<!doctype html>');
    expect((await approvals.fetch(new Request(`${ORIGIN}/approver`))).status).toBe(404);
    for (const at of ['/approve', '/approve/'])
      expect(bodyOf(await ask(server, at))).toEqual({ error: 'there is no such file' });
  });

  it('alone on its server has nothing elsewhere, and closes a connection whose body it left', async () => {
    const { page } = await opened();
    expect((await ask(page, '/')).status).toBe(404);
    const kept = { connection: 'keep-alive' };
    expect((await ask(page, '/approve/register', undefined, kept)).headers['connection']).toBe('keep-alive');
    const large = await ask(page, '/approve/x', ' '.repeat(16_385), kept);
    expect(large).toMatchObject({ status: 413, headers: { connection: 'close' } });
  });

  it('holds at most 1,000 calls', async () => {
    const { approvals } = await opened();
    // Of a question that is over: each is held until it first looks.
    const denial = { failure: { approval: { url: `${ORIGIN}/approve/x` } } } as Denial;
    const hold = () => approvals[ASKER].answered(denial, () => true);
    const all = Array.from({ length: 1001 }, hold);
    expect(await all.pop()).toBe(false);
    expect(new Set(await Promise.all(all))).toEqual(new Set([true]));
    expect(await hold()).toBe(true);
  });

  it('closes what it holds', async () => {
    const close = vi.spyOn(Questions.prototype, 'close');
    onTestFinished(() => close.mockRestore());
    const { approvals } = await opened();
    approvals.close();
    expect(close).toHaveBeenCalledOnce();
  });

  it('asks whoever may say yes now, for as long as was said', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-approvals-'));
    const file = path.join(folder, 'roots.jsonl');
    const trust = (...approvers: readonly object[]) =>
      writeFileSync(
        file,
        JSON.stringify({ did: chain.parties[0]?.did, approve: { tools: ['*'] }, approvers }),
      );
    trust(alice.approver);
    const following = createVerifier({ workerThreads: 0, trustedRootsFile: file });
    onTestFinished(async () => {
      await following.close();
      rmSync(folder, { recursive: true });
    });
    const { page, protection } = await opened({ verifier: following, openSecs: 60 });
    const args = { tool: 'search', query: 'tea' };
    const headers = {
      'X-DRS-Bundle': encode(liveCall(chain, args, CMD)),
      'Content-Type': 'application/json',
    };
    const handler = drsFetch({ ...protection, verifier: following, tool: 'search' }, () => new Response());
    const sent = new Request(ORIGIN, { method: 'POST', headers, body: JSON.stringify(args) });
    const { error } = (await (await handler(sent)).json()) as { error: Told };
    const { url = '', expires_at = 0 } = error.approval ?? {};
    expect(expires_at - Date.now() / 1000).toSatisfy((left: number) => left > 0 && left <= 61);
    trust(bob.approver);
    await eventually(async () =>
      expect(bodyOf(await ask(page, `${url}/statement`))).toMatchObject({ approvers: [{ name: 'Bob' }] }),
    );
  });

  it('finds its path where a framework cuts it', async () => {
    const { approvals } = await opened();
    const server = await listen((req, res) => {
      Object.assign(req, { originalUrl: req.url, url: '/register' });
      approvals.page(req, res);
    });
    onTestFinished(() => server.close());
    expect((await ask(server, '/approve/register')).text).toContain('<!doctype html>');
  });

  it.each<[string, string, object | string | undefined, Record<string, string>, string, number]>([
    ['of another origin', '/approve/register', undefined, { origin: 'https://evil.example' }, 'GET', 403],
    ['with another method', '/approve/register', undefined, {}, 'PUT', 405],
    ['with a body that is too large', '/approve/x', ' '.repeat(16_385), {}, 'POST', 413],
    [
      'with a large body in pieces',
      '/approve/x',
      ' '.repeat(16_385),
      { 'transfer-encoding': 'chunked' },
      'POST',
      413,
    ],
    ['with no answer', '/approve/x', { answer: 'maybe' }, {}, 'POST', 400],
    ['about no question', '/approve/x', { answer: 'no' }, {}, 'POST', 404],
    ['for a file outside', '/approve/..%2findex.html', undefined, {}, 'GET', 404],
    ['for its head', '/approve/register', undefined, {}, 'HEAD', 200],
  ])('answers a request %s, over node:http as with fetch', async (_, at, body, headers, method, status) => {
    const { approvals, page } = await opened();
    const over = await ask(page, at, body, headers, method);
    expect(over.status).toBe(status);
    expect(over.headers).toMatchObject({
      'content-security-policy': expect.stringContaining("frame-ancestors 'none'") as string,
      ...{ 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' },
    });
    const { 'transfer-encoding': _coding, ...sent } = headers;
    const init = {
      method,
      headers: sent,
      body: typeof body === 'object' ? JSON.stringify(body) : (body ?? null),
    };
    const answered = await approvals.fetch(new Request(`${ORIGIN}${at}`, init));
    expect(answered.status).toBe(status);
    expect(await answered.text()).toBe(over.text);
    expect(answered.headers.get('content-type')).toBe(over.headers['content-type']);
  });

  it('shows a private question to an approver alone', async () => {
    const { page, protection } = await opened();
    const handler = drsFetch({ ...protection, tool: 'search' }, () => new Response());
    const args = { tool: 'search', query: 'secret tea' };
    const headers = {
      'X-DRS-Bundle': encode(liveCall(hidden, args, CMD)),
      'Content-Type': 'application/json',
    };
    const refused = await handler(
      new Request(ORIGIN, { method: 'POST', headers, body: JSON.stringify(args) }),
    );
    const { error } = (await refused.json()) as { error: Told };
    const shown = await ask(page, `${error.approval?.url}/statement`);
    expect(bodyOf(shown)).toMatchObject({ private: true });
    expect(shown.text).not.toContain('secret tea');
  });

  it.each<[string, (req: IncomingMessage, page: () => void) => unknown]>([
    ['was read before', (req, page) => req.resume().on('end', page)],
    [
      'gives text',
      (req, page) => {
        req.setEncoding('utf8');
        page();
      },
    ],
  ])('says that its body %s', async (_, spoil) => {
    const onError = vi.fn();
    const { approvals } = await opened({ onError });
    const server = await listen((req, res) => void spoil(req, () => approvals.page(req, res)));
    onTestFinished(() => server.close());
    expect((await ask(server, '/approve/x', { answer: 'no' })).status).toBe(503);
    expect(String(onError.mock.calls[0]?.[0])).toContain('in front of every body parser');
  });
});

const CAPABLE = { capabilities: { elicitation: { url: {} } } };
const info = { name: 'test', version: '1.0.0' };
const input = { query: z.string() };

/** A bundle for what a client sends, with what it answers to questions. */
function bundleFor({ arguments: args, inputResponses, requestState }: Record<string, unknown>) {
  const together = JSON.parse(JSON.stringify({ inputResponses, requestState })) as object;
  const more = Object.keys(together).length > 0 ? { 'xyz.okeyamy.drs/params': together } : {};
  return encode(liveCall(chain, { tool: 'search', ...(args as object), ...more }, CMD));
}

describe('over MCP 2026-07-28', () => {
  async function served(handle: (query: string) => string = (query) => query) {
    const { page, protection } = await opened();
    const onRefused = vi.fn();
    const drs = drsMcp({ ...protection, onRefused });
    const handler = createMcpHandler(() => {
      const server = new V2Server(info);
      server.registerTool('search', { inputSchema: z.object(input) }, ({ query }) => ({
        content: [{ type: 'text', text: handle(query) }],
      }));
      return drs.protectServer(server);
    });
    const listener = getRequestListener((request) => handler.fetch(request));
    const server = await listen((req, res) => void listener(req, res));
    onTestFinished(() => server.close());
    return { page, server, onRefused };
  }

  async function connected({ url }: TestServer, capabilities: object) {
    const client = new v2.Client(info, { versionNegotiation: { mode: 'auto' }, ...capabilities });
    const transport = new v2.StreamableHTTPClientTransport(new URL(url), {
      fetch: (to, init) => {
        const message =
          typeof init?.body === 'string'
            ? (JSON.parse(init.body) as { method: string; params: object })
            : null;
        const headers = new Headers(init?.headers);
        if (message?.method === 'tools/call') headers.set('X-DRS-Bundle', bundleFor({ ...message.params }));
        return fetch(to, { ...init, headers });
      },
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return client;
  }
  const CALL = { name: 'search', arguments: { query: 'tea' } };

  it('a client that opens links is told one, and its call is held until she has said yes', async () => {
    const held = watchHeld();
    const handle = vi.fn((query: string) => `${query} by ${drsContext().approval?.by[0]?.name}`);
    const { page, server } = await served(handle);
    const client = await connected(server, CAPABLE);
    const elicited = vi.fn();
    client.setRequestHandler('elicitation/create', ({ params }) => {
      elicited(params);
      void held().then(() => sayYes(page, (params as { url: string }).url));
      return { action: 'accept' };
    });
    expect((await client.callTool(CALL)).content).toMatchObject([{ text: 'tea by Alice' }]);
    expect(elicited).toHaveBeenCalledOnce();
    expect(elicited.mock.calls[0]?.[0]).toMatchObject({ mode: 'url' });
    expect(handle).toHaveBeenCalledOnce();
  });

  it('is refused as soon as she says no', async () => {
    const held = watchHeld();
    const { page, server } = await served();
    const client = await connected(server, CAPABLE);
    client.setRequestHandler('elicitation/create', ({ params }) => {
      void held().then(() => sayNo(page, (params as { url: string }).url));
      return { action: 'accept' };
    });
    await expect(client.callTool(CALL)).rejects.toMatchObject({
      code: -32010,
      data: { code: 'APPROVAL_DENIED' },
    });
  });

  it('a client that opens none gets the text', async () => {
    const { page, server } = await served();
    const client = await connected(server, {});
    const error = (await client.callTool(CALL).catch((thrown: unknown) => thrown)) as v2.ProtocolError;
    expect(error.code).toBe(-32010);
    const { approval } = error.data as Told;
    expect(error.message).toContain(approval?.url);
    await sayYes(page, approval?.url ?? '');
    expect((await client.callTool(CALL)).content).toMatchObject([{ text: 'tea' }]);
  });

  it('is not held for a client that has gone', async () => {
    const held = watchHeld();
    const { server, onRefused } = await served();
    const client = await connected(server, CAPABLE);
    const gone = new AbortController();
    client.setRequestHandler('elicitation/create', () => {
      void held().then(() => gone.abort());
      return { action: 'accept' };
    });
    await expect(client.callTool(CALL, { signal: gone.signal })).rejects.toThrow();
    await eventually(() => expect(onRefused).toHaveBeenCalledTimes(2));
  });
});

interface Pair {
  readonly server: { connect(transport: never): Promise<void> };
  readonly client: Pick<V1Client, 'callTool' | 'close'> & { connect(transport: never): Promise<void> };
}
type Handle = () => { content: { type: 'text'; text: string }[] };

const PAIRS: readonly (readonly [string, (capabilities: object, handle: Handle) => Pair])[] = [
  [
    '1.x',
    (capabilities, handle) => {
      const server = new V1Server(info);
      server.registerTool('search', { inputSchema: input }, handle);
      return { server, client: new V1Client(info, capabilities) };
    },
  ],
  [
    '2.x',
    (capabilities, handle) => {
      const server = new V2Server(info);
      server.registerTool('search', { inputSchema: z.object(input) }, handle);
      const client = new v2.Client(info, { versionNegotiation: { mode: 'legacy' }, ...capabilities });
      return { server, client: client as never };
    },
  ],
];

describe.each(PAIRS)('over MCP 2025-11-25, SDK %s', (generation, pair) => {
  /** A client and a server in one session. */
  async function session(drs: McpProtection, capabilities: object, handle: () => string = () => 'tea') {
    const { server, client } = pair(capabilities, () => ({ content: [{ type: 'text', text: handle() }] }));
    const [left, right] = InMemoryTransport.createLinkedPair();
    await drs.protectServer(server).connect(right as never);
    await client.connect(left as never);
    onTestFinished(() => client.close());
    return () => {
      const params = { name: 'search', arguments: { query: 'tea' } };
      return client.callTool({ ...params, _meta: { 'X-DRS-Bundle': bundleFor(params) } });
    };
  }
  const Required = generation === '1.x' ? UrlElicitationRequiredError : v2.UrlElicitationRequiredError;
  const thrownBy = (call: Promise<unknown>) =>
    call.then(
      () => null,
      (error: unknown) => error,
    );

  it('a client that has said that it opens links gets -32042 with the link', async () => {
    const { page, protection } = await opened();
    const call = await session(drsMcp(protection), CAPABLE);
    const error = (await thrownBy(call())) as UrlElicitationRequiredError;
    expect(error).toBeInstanceOf(Required);
    const [elicitation, ...others] = error.elicitations;
    const url = elicitation?.url ?? '';
    expect(others).toEqual([]);
    expect(elicitation).toEqual({
      mode: 'url',
      elicitationId: url.split('/').at(-1),
      url: expect.stringMatching(/^https:\/\/tools\.example\/approve\/[\w-]{22}$/) as string,
      message: expect.stringContaining(`"Alice" opens ${url}`) as string,
    });
    await sayYes(page, url);
    expect((await call()).content).toMatchObject([{ text: 'tea' }]);
    expect(await thrownBy(call())).toBeInstanceOf(Required);
  });

  it.each<[string, object]>([
    ['has said that it shows forms alone', { capabilities: { elicitation: { form: {} } } }],
    ['has said nothing', {}],
  ])('a client that %s gets the text', async (_, capabilities) => {
    const { protection } = await opened();
    const error = (await thrownBy(
      (await session(drsMcp(protection), capabilities))(),
    )) as UrlElicitationRequiredError;
    expect(error.code).toBe(-32010);
    const { approval, ...data } = error.data as Told & object;
    expect(error.message).toContain(approval?.url);
    expect(data).not.toHaveProperty('elicitations');
  });

  it('gets another refusal as before, and a no', async () => {
    const { page, protection } = await opened();
    const drs = drsMcp(protection);
    const call = await session(drs, CAPABLE);
    const { elicitations } = (await thrownBy(call())) as UrlElicitationRequiredError;
    await sayNo(page, elicitations[0]?.url ?? '');
    expect(await thrownBy(call())).toMatchObject({ code: -32010, data: { code: 'APPROVAL_DENIED' } });
  });

  it('a yes is used also where the tool throws', async () => {
    const { page, protection } = await opened();
    const call = await session(drsMcp(protection), CAPABLE, () => {
      throw new Error('no tea');
    });
    const { elicitations } = (await thrownBy(call())) as UrlElicitationRequiredError;
    await sayYes(page, elicitations[0]?.url ?? '');
    expect(await call()).toMatchObject({ isError: true });
    expect(await thrownBy(call())).toBeInstanceOf(Required);
  });
});

describe('what it cannot ask with', () => {
  const given = () => ({ url: ORIGIN, verifier, replayStore: createMemoryReplayStore() });

  it.each<[string, () => object, string]>([
    ['a path', () => ({ url: `${ORIGIN}/x` }), `url is "${ORIGIN}/x": expected an origin`],
    ['another machine without TLS', () => ({ url: 'http://tools.example' }), 'expected an origin'],
    ['no verifier', () => ({ verifier: undefined }), 'verifier is missing'],
    ['a short time', () => ({ openSecs: 1 }), 'openSecs is 1: expected'],
    ['an unknown option', () => ({ origin: ORIGIN }), 'origin is not an option here'],
    [
      'a service',
      () => ({ verifier: new DrsClient('http://127.0.0.1:1') }),
      'approvals needs a verifier in this process',
    ],
    [
      'a verifier that would use up what waits',
      () => ({ verifier: createVerifier({ workerThreads: 0, replayProtection: 'memory' }) }),
      'the verifier has replayProtection',
    ],
  ])('%s', async (_, more, problem) => {
    await expect(openApprovals({ ...given(), ...more() })).rejects.toThrow(problem);
  });

  it('another verifier than it was opened with, or a service', async () => {
    const { protection } = await opened();
    const { verifier: _, ...rest } = protection;
    const other = createVerifier({ workerThreads: 0 });
    onTestFinished(() => other.close());
    for (const source of [{ verifier: other }, { verifyUrl: 'http://127.0.0.1:1' }])
      expect(() => drsMcp({ ...rest, ...source })).toThrow('approvals was opened with another verifier');
    expect(() => drsMcp({ ...protection, approvals: {} } as never)).toThrow(
      'expected what openApprovals() returns',
    );
  });

  it('a runtime without node:crypto', async () => {
    await expect(openWithoutNode()).rejects.toThrow('openApprovals needs Node.js');
  });
});
