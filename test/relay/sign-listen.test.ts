import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Role } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { getRequestListener } from '@hono/node-server';
import {
  Client as V2Client,
  StreamableHTTPClientTransport as V2Transport,
} from '@modelcontextprotocol/client';
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { DRS_EXTENSION } from '../../src/middleware/a2a/extension.js';
import { createMemoryReplayStore, drsContext, drsMcp } from '../../src/middleware/mcp/index.js';
import { listen, type TestServer } from '../middleware/http.js';
import { linkExample } from '../support/examples.js';
import { MAIN } from '../cli/drs.js';
import { newAgent, TOOL_SERVER } from './agent.js';

const agent = newAgent();
const info = { name: 'test', version: '1.0.0' };
const children: ChildProcess[] = [];
afterAll(() => children.forEach((child) => child.kill()));

/** Starts a program, and waits for the line that has its address. */
async function start(output: 'stdout' | 'stderr', args: readonly string[], env = {}): Promise<string> {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  for await (const line of createInterface({ input: child[output] })) {
    const [, url] = /listening on (http:\/\/[\d.]+:\d+)/.exec(line) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error('it did not start');
}

describe('for MCP', () => {
  const verifier = createVerifier({ workerThreads: 0 });
  let server: TestServer;
  let port: string;
  /** Those of `post`: clients open streams beside their calls, which come at any time. */
  let requests = 0;
  beforeAll(async () => {
    const drs = drsMcp({
      verifier,
      trustedRoots: [agent.principal.did],
      serverIdentity: TOOL_SERVER,
      replayStore: createMemoryReplayStore(),
    });
    const handler = createMcpHandler(() => {
      const mcp = new McpServer(info);
      mcp.registerTool('search', {}, () => ({
        content: [{ type: 'text', text: `for ${drsContext().root_principal}` }],
      }));
      return drs.protectServer(mcp);
    });
    const listener = getRequestListener((request) => handler.fetch(request));
    server = await listen((req, res) => {
      if (req.headers['x-page'] !== undefined) requests++;
      if (req.headers['x-move'] !== undefined)
        res.writeHead(308, { location: 'https://elsewhere.example' }).end();
      else void listener(req, res);
    });
    const options = agent.options(await agent.chain('search.jwt', ['search']));
    const to = ['--to', `${server.url}/mcp`, '--listen', '127.0.0.1:0'];
    port = await start('stderr', [MAIN, ...options, ...to, '--allow-origin', 'https://friend.example']);
  });
  afterAll(async () => {
    await server.close();
    await verifier.close();
  });

  const connected = async (mode: 'auto' | 'legacy' | '1.x') => {
    const client = mode === '1.x' ? new V1Client(info) : new V2Client(info, { versionNegotiation: { mode } });
    if (client instanceof V1Client) await client.connect(new V1Transport(new URL(port)));
    else await client.connect(new V2Transport(new URL(port)));
    return client;
  };

  it.each(['auto', 'legacy', '1.x'] as const)('an SDK client (%s) calls through it', async (mode) => {
    const client = await connected(mode);
    const { content } = await client.callTool({ name: 'search' });
    expect(content).toEqual([{ type: 'text', text: `for ${agent.principal.did}` }]);
    await expect(client.callTool({ name: 'delete' })).rejects.toMatchObject({
      code: -32010,
      data: { code: 'POLICY_VIOLATION' },
    });
    await client.close();
  });

  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search' } });
  /** The status of a request as a page of a browser could send it. */
  async function post(headers: Record<string, string>, path = '/', body = call): Promise<number> {
    const sent = httpRequest(new URL(port), {
      method: 'POST',
      path,
      headers: { ...headers, 'X-Page': '1' },
      setHost: headers['Host'] === undefined,
    });
    sent.end(body);
    const [res] = (await once(sent, 'response')) as [import('node:http').IncomingMessage];
    res.resume();
    return res.statusCode ?? 0;
  }

  it.each([
    ['a page of the network', { Origin: 'https://evil.example' }, '/'],
    ['a page of this machine', { Origin: 'http://localhost:3000' }, '/'],
    ['a page without an origin', { Origin: 'null' }, '/'],
    ['an image in a page of the network', { 'Sec-Fetch-Site': 'cross-site' }, '/'],
    ['a link in a page of another port', { 'Sec-Fetch-Site': 'same-site' }, '/'],
    ['a name that was made to lead here', { Host: 'evil.example' }, '/'],
    ['a name that begins like ours', { Host: 'localhost.evil.example:80' }, '/'],
    ['no name', { Host: '' }, '/'],
  ])('refuses %s', async (_, headers, path) => {
    const before = requests;
    expect(await post(headers as Record<string, string>, path)).toBe(403);
    expect(requests).toBe(before);
  });

  it.each(['/other', '/mcp/../admin', '/mcp/', '//evil.example/mcp'])(
    'serves no other path: %s',
    async (path) => {
      expect(await post({}, path)).toBe(404);
    },
  );

  it('serves pages that are named, and follows no redirect with a bundle', async () => {
    const types = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    const before = requests;
    expect(await post({ ...types, Host: 'LOCALHOST:1', Origin: 'https://friend.example' }, '/mcp')).toBe(200);
    expect(requests).toBe(before + 1);
    // Its client gets it, which has no bundle.
    expect(await post({ ...types, 'X-Move': '1' })).toBe(308);
    expect(requests).toBe(before + 2);
  });
});

it('an A2A client calls through it, over JSON-RPC and REST, by the addresses of the card', async () => {
  const program = path.join(linkExample('a2a-agent'), 'server.js');
  const url = await start('stdout', [program], { PORT: '0' });
  const file = await agent.chain('a2a.jwt', ['SendMessage'], '/a2a');
  const here = await start('stderr', [
    ...[MAIN, 'sign', '--key', agent.keyFile, '--chain', file, '--tool-server', 'https://weather.example'],
    ...['--to', url, '--listen', '127.0.0.1:0', '--protocol', 'a2a'],
  ]);
  const part = {
    content: { $case: 'text' as const, value: 'hello' },
    metadata: undefined,
    filename: '',
    mediaType: '',
  };
  const message = {
    ...{ messageId: 'm', contextId: '', taskId: '', role: Role.ROLE_USER, parts: [part] },
    ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
  };
  const sending = { tenant: '', configuration: undefined, metadata: undefined, message };
  for (const transport of [new JsonRpcTransportFactory(), new RestTransportFactory()]) {
    const client = await new ClientFactory({ transports: [transport] }).createFromUrl(here);
    expect(JSON.stringify(await client.sendMessage(sending))).toContain(`sunny, for ${agent.principal.did}`);
    await expect(client.getTask({ tenant: '', id: 'x', historyLength: 1 })).rejects.toThrow(
      'no delegation allows it',
    );
  }
});

it('gives an agent’s port no other agent of the host: only its card, unsigned and without secrets', async () => {
  const got: string[] = [];
  const host = await listen((req, res) => {
    const { authorization, 'a2a-extensions': extensions } = req.headers;
    got.push(`${req.method} ${req.url} ${authorization} ${String(extensions)}`);
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const file = await agent.chain('tenant.jwt', ['SendMessage'], '/a2a');
  const here = await start('stderr', [
    ...[MAIN, 'sign', '--key', agent.keyFile, '--chain', file, '--to', `${host.url}/one`],
    ...['--listen', '127.0.0.1:0', '--protocol', 'a2a', '--header', 'Authorization: Bearer t'],
  ]);
  const statusOf = async (path: string, init?: RequestInit) => (await fetch(here + path, init)).status;
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message: {} } });
  const extension = 'https://a.example/x';
  const headers = { 'Content-Type': 'application/json', 'A2A-Extensions': extension };
  const post = { method: 'POST', body, headers };
  expect(await statusOf('/one', post)).toBe(200);
  expect(await statusOf('/.well-known/agent-card.json')).toBe(200);
  for (const path of ['/two/.well-known/agent-card.json', '/.well-known/agent-card.json?x', '/two'])
    expect([await statusOf(path), await statusOf(path, post)]).toEqual([404, 404]);
  expect(await statusOf('/.well-known/agent-card.json', post)).toBe(404);
  expect(got).toEqual([
    `POST /one Bearer t ${extension}, ${DRS_EXTENSION}`,
    'GET /.well-known/agent-card.json undefined undefined',
  ]);
  // The limits are those of a guard.
  expect(await statusOf('/one', { ...post, body: 'x'.repeat(2 ** 24 + 1) })).toBe(413);
  await host.close();
});

it.runIf(process.platform === 'linux')('ends with the npx that started it, however that ends', async () => {
  const options = agent.options(await agent.chain('b.jwt', []));
  const args = [MAIN, ...options, '--to', 'http://127.0.0.1:1/?key=secret'];
  // As npx starts it: with a shell between.
  const npx = `const { spawn } = require('node:child_process');
    spawn('sh', ['-c', '"$0" "$@"; true', process.execPath, ...process.argv.slice(1)], { stdio: 'inherit' });`;
  const child = spawn(process.execPath, ['-e', npx, ...args, '--listen', '127.0.0.1:0'], {
    env: { ...process.env, npm_command: 'exec' },
  });
  children.push(child);
  const [said] = (await once(child.stderr, 'data')) as [Buffer];
  expect(said.toString()).toContain('listening on');
  expect(said.toString()).not.toContain('secret');
  child.kill('SIGKILL');
  // Its end of the pipe.
  child.stderr.resume();
  await once(child, 'close');
});

it('listens on the loopback interface only, unless told otherwise', async () => {
  const child = spawn(process.execPath, [
    MAIN,
    ...agent.options(await agent.chain('a.jwt', [])),
    ...['--to', 'https://tools.example', '--listen', '0.0.0.0:0'],
  ]);
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  expect(await once(child, 'close')).toEqual([2, null]);
  expect(stderr).toContain('whoever reaches this port calls as this agent');
});
