import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { challengeOf } from '../../src/approval/statement.js';
import { destinationOf } from '../../src/relay/http-target.js';
import { openGuard } from '../../src/relay/guard-http.js';
import { hostsOf, openHttpRelay } from '../../src/relay/http-relay.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { startToolServer, type ToolServer } from '../e2e/gate-tools.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { Passkey } from '../approval/passkey.js';
import { eventually } from '../support/eventually.js';
import { unusedPort } from '../support/ports.mjs';
import { startGuard } from './guard-process.js';

/** A person's yes to calls through a guard, which has the page itself. */

const SERVER = 'https://tools.example';
const folder = mkdtempSync(path.join(tmpdir(), 'drs-guard-approve-'));
const file = path.join(folder, 'roots.jsonl');
const chain = liveChain(1, { cmd: '/mcp', policy: { allowed_tools: ['search'] } });
const BUILT = new URL('../../dist/approve/', import.meta.url);
let tools: ToolServer;
let port: number;
let alice: Passkey;
beforeAll(async () => {
  // Where the page is not built.
  if (!existsSync(BUILT)) {
    mkdirSync(new URL('assets/', BUILT), { recursive: true });
    writeFileSync(new URL('index.html', BUILT), '<!doctype html><title>Approve</title>');
  }
  tools = await startToolServer();
});
afterAll(async () => {
  await tools.close();
  rmSync(folder, { recursive: true });
});

const writeRoots = async () => {
  port = await unusedPort();
  alice = new Passkey('Ed25519', { origin: `http://localhost:${port}` });
  const entry = { did: chain.parties[0]?.did, approve: { tools: ['*'] }, approvers: [alice.approver] };
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
async function openHttp() {
  await writeRoots();
  const configuration = readConfiguration({
    ...{ PORT: String(port), WORKER_THREADS: '0', APPROVALS_URL: `http://localhost:${port}` },
    ...{ TRUSTED_ROOTS_FILE: file, SERVER_IDENTITY: SERVER },
  });
  const log = pino({ level: 'silent' });
  return openHttpRelay({
    ...{ configuration, log, hosts: hostsOf('', []) },
    destination: destinationOf(`http://127.0.0.1:${tools.port}/mcp`, 'mcp', {
      isRouted: true,
      rpc: undefined,
    }),
    openDecider: openGuard(configuration, 'mcp', log),
  });
}

it('over HTTP: an unmodified client of MCP 2026-07-28 opens the link, and its call is held and goes through', async () => {
  const guard = await openHttp();
  onTestFinished(() => guard.close());
  const info = { name: 'test', version: '1.0.0' };
  const client = new Client(info, {
    versionNegotiation: { mode: 'auto' },
    capabilities: { elicitation: { url: {} } },
  });
  const elicited = vi.fn();
  client.setRequestHandler('elicitation/create', ({ params }) => {
    elicited(params);
    // She reads it a while.
    setTimeout(() => void sayYes((params as { url: string }).url), 700);
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
  const guard = await openHttp();
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
  await new Promise((resolve) => setTimeout(resolve, 1000));
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
