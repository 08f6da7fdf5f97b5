import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Role, type AgentCard } from '@a2a-js/sdk';
import { JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, type AgentExecutor } from '@a2a-js/sdk/server';
import { jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import express from 'express';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { challengeOf } from '../../src/approval/statement.js';
import { destinationOf } from '../../src/relay/http-target.js';
import { openGuard } from '../../src/relay/guard-http.js';
import { hostsOf, openHttpRelay } from '../../src/relay/http-relay.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { startToolServer, type ToolServer } from '../e2e/gate-tools.js';
import { a2aCallOf } from '../../src/middleware/a2a/sign-requests.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { listen, type TestServer } from '../middleware/http.js';
import { Passkey } from '../approval/passkey.js';
import { requireApprovePage, watchHeld } from '../support/approve-page.js';
import { eventually } from '../support/eventually.js';
import { unusedPort } from '../support/ports.mjs';
import { startGuard } from './guard-process.js';

/** A person's yes to calls through a guard, which has the page itself. */

const SERVER = 'https://tools.example';
const folder = mkdtempSync(path.join(tmpdir(), 'drs-guard-approve-'));
const file = path.join(folder, 'roots.jsonl');
const chain = liveChain(1, { cmd: '/mcp', policy: { allowed_tools: ['search'] } });
let tools: ToolServer;
let port: number;
let alice: Passkey;
beforeAll(async () => {
  requireApprovePage();
  tools = await startToolServer();
});
afterAll(async () => {
  await tools.close();
  rmSync(folder, { recursive: true });
});

const writeRoots = async (under = chain) => {
  port = await unusedPort();
  alice = new Passkey('Ed25519', { origin: `http://localhost:${port}` });
  const entry = { did: under.parties[0]?.did, approve: { tools: ['*'] }, approvers: [alice.approver] };
  writeFileSync(file, JSON.stringify(entry));
};

/** Says yes on the page behind a link, which is at `127.0.0.1`. */
async function sayYes(link: string): Promise<void> {
  const at = link.replace('localhost', '127.0.0.1');
  expect(await (await fetch(at)).text()).toContain('<!doctype html>');
  const { statement } = (await (await fetch(`${at}/statement`)).json()) as { statement: string };
  const signed = alice.assert(challengeOf(Buffer.from(statement)));
  const body = { answer: 'yes', id: alice.approver.id } as Record<string, string>;
  for (const [name, bytes] of Object.entries<Buffer>({ ...signed })) body[name] = bytes.toString('base64url');
  const answered = await fetch(at, { method: 'POST', body: JSON.stringify(body) });
  expect(await answered.json()).toEqual({ state: 'approved', missing: 0 });
}
const linkIn = (text: string) => /http:\/\/localhost:\d+\/approve\/[\w-]{22}/.exec(text)?.[0] ?? '';

/** A guard over HTTP, which serves its page itself. */
async function openHttp(protocol: 'mcp' | 'a2a', to: string, rpc?: string) {
  const configuration = readConfiguration({
    ...{ PORT: String(port), WORKER_THREADS: '0', APPROVALS_URL: `http://localhost:${port}` },
    ...{ TRUSTED_ROOTS_FILE: file, SERVER_IDENTITY: SERVER },
  });
  const log = pino({ level: 'silent' });
  return openHttpRelay({
    ...{ configuration, log, hosts: hostsOf('', []) },
    destination: destinationOf(to, protocol, { isRouted: true, rpc }),
    openDecider: openGuard(configuration, protocol, log),
  });
}

const openMcp = async () => {
  await writeRoots();
  return openHttp('mcp', `http://127.0.0.1:${tools.port}/mcp`);
};

it('over HTTP: an unmodified client of MCP 2026-07-28 opens the link, and its call is held and goes through', async () => {
  const guard = await openMcp();
  const held = watchHeld();
  onTestFinished(() => guard.close());
  const info = { name: 'test', version: '1.0.0' };
  const client = new Client(info, {
    versionNegotiation: { mode: 'auto' },
    capabilities: { elicitation: { url: {} } },
  });
  const elicited = vi.fn();
  client.setRequestHandler('elicitation/create', ({ params }) => {
    elicited(params);
    // She reads it until the call is held.
    void held().then(() => sayYes((params as { url: string }).url));
    return { action: 'accept' };
  });
  const transport = new StreamableHTTPClientTransport(new URL(`${guard.url}/mcp`), {
    // Signs each call anew, with what it answers.
    fetch: (url, init) => {
      const message = typeof init?.body === 'string' ? (JSON.parse(init.body) as Sent) : null;
      if (message?.method !== 'tools/call') return fetch(url, init);
      const { arguments: args, inputResponses, requestState } = message.params;
      const together = JSON.parse(JSON.stringify({ inputResponses, requestState })) as object;
      const more = Object.keys(together).length > 0 ? { 'xyz.okeyamy.drs/params': together } : {};
      const bundle = liveCall(
        chain,
        { tool: 'search', ...args, ...more },
        { cmd: '/mcp/tools/call', tool_server: SERVER },
      );
      const headers = new Headers(init?.headers);
      headers.set('X-DRS-Bundle', encode(bundle));
      return fetch(url, { ...init, headers });
    },
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  const result = await client.callTool({ name: 'search', arguments: { query: 'tea' } });
  expect(result.content).toMatchObject([{ text: 'search: tea' }]);
  expect(elicited.mock.calls).toMatchObject([
    [{ mode: 'url', url: expect.stringContaining('/approve/') as string }],
  ]);
  expect(tools.calls).toEqual(['search tea']);
});

it('over HTTP: what is held is answered when the guard is stopped', async () => {
  const guard = await openMcp();
  const held = watchHeld();
  const inputResponses = { 'xyz.okeyamy.drs/approval': { action: 'accept' } };
  const args = { query: 'tea' };
  const bundle = liveCall(
    chain,
    { tool: 'search', ...args, 'xyz.okeyamy.drs/params': { inputResponses } },
    { cmd: '/mcp/tools/call', tool_server: SERVER },
  );
  const params = { name: 'search', arguments: args, inputResponses, _meta: CAPABLE };
  const asked = fetch(`${guard.url}/mcp`, {
    method: 'POST',
    headers: {
      'X-DRS-Bundle': encode(bundle),
      'Content-Type': 'application/json',
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': 'tools/call',
      'Mcp-Name': 'search',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  });
  const answered = vi.fn();
  void asked.then(answered);
  await held();
  expect(answered).not.toHaveBeenCalled();
  const closing = guard.close();
  expect(await (await asked).text()).toContain('"code":"APPROVAL_REQUIRED"');
  await closing;
});

const CAPABLE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } },
};

interface Sent {
  readonly method: string;
  readonly params: {
    readonly arguments: object;
    readonly inputResponses?: object;
    readonly requestState?: string;
  };
}

describe('over A2A', () => {
  const part = {
    content: { $case: 'text' as const, value: 'hello' },
    metadata: undefined,
    filename: '',
    mediaType: '',
  };
  const message = (taskId: string, role: Role) => ({
    ...{ messageId: 'm', contextId: '', taskId, role, parts: [part] },
    ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
  });
  const sending = {
    tenant: '',
    configuration: undefined,
    metadata: undefined,
    message: message('', Role.ROLE_USER),
  };
  const first = async (stream: AsyncIterable<unknown>) => {
    for await (const item of stream) return item;
    return undefined;
  };
  const delegated = liveChain(1, { cmd: '/a2a', policy: { allowed_tools: ['*'] } });
  let runs = 0;
  let agent: TestServer;
  let url: string;
  let close: () => Promise<unknown>;
  beforeAll(async () => {
    const app = express();
    agent = await listen(app);
    const executor: AgentExecutor = {
      execute: (_context, bus) => {
        runs++;
        bus.publish(AgentEvent.message(message('', Role.ROLE_AGENT)));
        return Promise.resolve();
      },
      cancelTask: () => Promise.resolve(),
    };
    const card = {
      capabilities: { streaming: true, extensions: [] },
      supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].map((protocolBinding) => ({
        url: agent.url,
        protocolBinding,
        protocolVersion: '1.0',
        tenant: '',
      })),
    };
    const requestHandler = new DefaultRequestHandler(card as never, new InMemoryTaskStore(), executor);
    const handlers = { requestHandler, userBuilder: UserBuilder.noAuthentication };
    app.use('/agent/rpc', jsonRpcHandler(handlers));
    app.use('/agent', restHandler(handlers));
    await writeRoots(delegated);
    const guard = await openHttp('a2a', `${agent.url}/agent`, '/agent/rpc');
    ({ url } = guard);
    close = () => guard.close();
  });
  afterAll(async () => {
    await close();
    await agent.close();
  });

  it.each([
    ['JSON-RPC', JsonRpcTransportFactory, '/agent/rpc'],
    ['REST', RestTransportFactory, '/agent'],
  ] as const)(
    '%s: an unmodified client of the SDK gets an error with the link, and after the yes its answer',
    async (_, Factory, at) => {
      // Signs what the client sends, as `sign` does.
      const fetchImpl: typeof fetch = (input, init) => {
        const { pathname, search } = new URL(input instanceof Request ? input.url : input);
        const call = a2aCallOf(init?.method ?? 'GET', pathname + search, init?.body ?? null);
        const headers = new Headers(init?.headers);
        const claims = { cmd: call?.command ?? '', tool_server: SERVER };
        headers.set('X-DRS-Bundle', encode(liveCall(delegated, call?.args ?? {}, claims)));
        return fetch(input, { ...init, headers });
      };
      const client = await new Factory({ fetchImpl }).create(`${url}${at}`, {} as AgentCard);
      const options = { serviceParameters: { 'A2A-Version': '1.0' } };
      for (const send of [
        () => client.sendMessage(sending, options),
        () => first(client.sendMessageStream(sending, options)),
      ]) {
        const before = runs;
        const refused: unknown = await send().catch((error: unknown) => error);
        expect(refused).toBeInstanceOf(Error);
        const { message: says } = refused as Error;
        expect(says).toContain('needs a yes');
        await sayYes(linkIn(says));
        expect(JSON.stringify(await send())).toContain('hello');
        expect(runs).toBe(before + 1);
        await expect(send()).rejects.toThrow('needs a yes');
      }
    },
  );
});

it('over stdio: the page is on this machine, and the call goes through once', async () => {
  await writeRoots();
  const guard = startGuard(['--tool-server', SERVER], undefined, {
    DRS_TRUSTED_ROOTS_FILE: file,
    DRS_APPROVALS_URL: `http://localhost:${port}`,
  });
  onTestFinished(() => void guard.process.kill());
  let id = 0;
  const call = async (more: object = {}) => {
    const args = { query: 'tea' };
    const bundle = liveCall(
      chain,
      { tool: 'search', ...args },
      { cmd: '/mcp/tools/call', tool_server: SERVER },
    );
    const params = { name: 'search', arguments: args, _meta: { 'X-DRS-Bundle': encode(bundle), ...more } };
    guard.say({ jsonrpc: '2.0', id: ++id, method: 'tools/call', params });
    const isAnswer = (line: string) => line.includes(`"id":${id},`) && !line.includes('"got"');
    return eventually(() => guard.lines.find(isAnswer) ?? Promise.reject(new Error(guard.stderr())));
  };
  const refused = await call();
  expect(refused).toContain('APPROVAL_REQUIRED');
  const told = await call(CAPABLE);
  expect(told).toContain('"resultType":"input_required"');
  expect(linkIn(told)).toBe(linkIn(refused));
  await sayYes(linkIn(refused));
  expect(await call()).not.toContain('APPROVAL_REQUIRED');
  expect(await call()).toContain('APPROVAL_REQUIRED');
});

it('over stdio a page elsewhere is refused', async () => {
  await writeRoots();
  const guard = startGuard(['--tool-server', SERVER], undefined, {
    DRS_TRUSTED_ROOTS_FILE: file,
    DRS_APPROVALS_URL: 'https://approve.example',
  });
  const [code] = (await once(guard.process, 'close')) as [number];
  expect(code).toBe(2);
  expect(guard.stderr()).toContain('expected http://localhost with a port');
});
