import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { gzipSync } from 'node:zlib';
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

  it(
    'serves a crowd of calls, and refuses one that is too large under its id',
    { timeout: 60_000 },
    async () => {
      const client = await connected('1.x');
      const crowd = Array.from({ length: 100 }, () => client.callTool({ name: 'search' }));
      expect(new Set((await Promise.all(crowd)).map(({ content }) => JSON.stringify(content))).size).toBe(1);
      const large = { name: 'search', arguments: { text: 'x'.repeat(2 ** 24) } };
      const data = { code: 'BODY_TOO_LARGE', status: 413 };
      await expect(client.callTool(large)).rejects.toMatchObject({ code: -32010, data });
      await client.close();
    },
  );

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

describe('the card of an agent', () => {
  let host: TestServer;
  let here: string;
  let respond: (res: ServerResponse, req: IncomingMessage) => void;
  const stays = 'grpc.agent.example:443';
  beforeAll(async () => {
    host = await listen((req, res) => respond(res, req));
    const file = await agent.chain('card.jwt', [], '/a2a');
    here = await start('stderr', [
      ...[MAIN, 'sign', '--key', agent.keyFile, '--chain', file, '--to', host.url],
      ...['--listen', '127.0.0.1:0', '--protocol', 'a2a', '--allow-address', stays],
    ]);
  });
  afterAll(() => host.close());
  const serving =
    (card: unknown, headers = {}) =>
    (res: ServerResponse) =>
      void res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(card));
  const CARD = '/.well-known/agent-card.json';
  const get = async (path = CARD) => {
    const res = await fetch(here + path);
    return { status: res.status, headers: res.headers, card: (await res.json()) as Record<string, unknown> };
  };

  it.each([
    () => host.url,
    () => host.url.replace('127.0.0.1', 'localhost'),
    () => 'http://0.0.0.0:3000',
    () => 'https://agent.example',
    () => 'http://user:word@weather.agents.svc.cluster.local:8080',
    () => ' HTTPS://AGENT.example',
    () => '//agent.example',
  ])('names no address but that of the port (%#)', async (originOf) => {
    const url = `${originOf()}/a2a?x=1`;
    const others = {
      provider: { organization: 'A', url: 'https://a.example' },
      iconUrl: 'https://a.example',
    };
    const lists = (one: string) => ({
      ...{ url: one, additionalInterfaces: [{ url: one, transport: 'JSONRPC' }] },
      ...{ supportedInterfaces: [{ url: one }, { url: stays }], later: { deeper: [{ URL: one }] } },
    });
    respond = serving({ ...lists(url), ...others, signatures: [{ signature: 'x' }] });
    expect((await get()).card).toEqual({ ...lists(`${here}/a2a?x=1`), ...others });
  });

  it.each(['localhost:50051', 'dns:///agent:443', 'unix:/run/agent.sock', ''])(
    'is refused where an address cannot be that of the port: %j',
    async (url) => {
      respond = serving({ url: `${host.url}/a2a`, supportedInterfaces: [{ url }] });
      const { status, card } = await get();
      if (url === '') expect(card).toMatchObject({ supportedInterfaces: [{ url: `${here}/` }] });
      else {
        expect(status).toBe(502);
        expect(card['error']).toContain(`names ${JSON.stringify(url)}`);
        expect(card['error']).toContain('--allow-address');
      }
    },
  );

  it('keeps its signatures where nothing is changed, and the headers that are not about bytes', async () => {
    const cors = { 'access-control-allow-origin': '*', etag: '"1"', vary: 'Origin' };
    respond = serving({ url: stays, signatures: [1] }, cors);
    expect((await get()).card).toEqual({ url: stays, signatures: [1] });
    respond = serving({ url: host.url }, cors);
    const { headers, card } = await get();
    expect(card).toEqual({ url: `${here}/` });
    expect(Object.fromEntries(headers)).toMatchObject({ 'access-control-allow-origin': '*', vary: 'Origin' });
    expect(headers.get('etag')).toBeNull();
  });

  it.each([
    ['another path', CARD + '/', (text: string) => [text, {}] as const],
    ['a query', `${CARD}?x=1`, (text: string) => [text, {}] as const],
    [
      'a path of its own',
      '/agents/weather',
      (text: string) => [text, { 'content-type': 'text/plain' }] as const,
    ],
    ['a byte order mark', CARD, (text: string) => [`\ufeff${text}`, {}] as const],
    ['gzip', CARD, (text: string) => [gzipSync(text), { 'content-encoding': 'gzip' }] as const],
    ['an extended card', '/extendedAgentCard', (text: string) => [text, {}] as const],
  ])('is one with %s', async (_, path, encode) => {
    const [body, headers] = encode(JSON.stringify({ url: host.url }));
    respond = (res, req) => {
      expect(req.headers).not.toHaveProperty('if-none-match');
      res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(body);
    };
    const res = await fetch(here + path, { headers: { 'If-None-Match': '"1"', Range: 'bytes=0-1' } });
    expect(await res.json()).toEqual({ url: `${here}/` });
  });

  it('is one as the answer to a message, and behind a redirect; what is none stays', async () => {
    respond = serving({ jsonrpc: '2.0', id: 1, result: { url: host.url, signatures: [] } });
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetExtendedAgentCard', params: {} });
    const headers = { 'content-type': 'application/json' };
    const res = await fetch(here, { method: 'POST', headers, body });
    expect(await res.json()).toEqual({ jsonrpc: '2.0', id: 1, result: { url: `${here}/` } });
    const redirected = async (location: string) => {
      respond = (res) => void res.writeHead(308, { location }).end();
      const { status, headers } = await fetch(here + CARD, { redirect: 'manual' });
      return [status, headers.get('location')];
    };
    expect(await redirected(`${host.url}/card`)).toEqual([308, `${here}/card`]);
    expect(await redirected('ftp://agent.example/card')).toEqual([502, null]);
    respond = (res) => void res.writeHead(307, { location: `${host.url}/a2a` }).end();
    const moved = await fetch(here, { method: 'POST', headers, body, redirect: 'manual' });
    expect([moved.status, moved.headers.get('location')]).toEqual([307, `${here}/a2a`]);
    respond = (res) => void res.writeHead(200, { 'content-type': 'text/html' }).end(`<a href="${host.url}">`);
    expect(await (await fetch(here)).text()).toContain(host.url);
    respond = (res) => void res.writeHead(200).end(`{"url":"${host.url}",}`);
    expect((await fetch(here)).status).toBe(502);
  });

  it('is not the only thing that has a form: what cannot be sent is refused in that of the call', async () => {
    respond = () => expect.fail('it was sent');
    const call = (params: object) =>
      JSON.stringify({ jsonrpc: '2.0', id: 'x', method: 'SendMessage', params });
    const headers = { 'content-type': 'application/json' };
    const post = async (params: object) =>
      (await (await fetch(here, { method: 'POST', headers, body: call(params) })).json()) as object;
    const refused = (data: object) => ({ id: 'x', error: { data } });
    const long = expect.stringMatching(/characters, and headers have at most \d+; send less/) as unknown;
    expect(await post({ n: 'x'.repeat(40_000) })).toMatchObject(refused({ detail: long }));
    expect(await post({ n: 'x'.repeat(2 ** 24) })).toMatchObject(
      refused({ code: 'BODY_TOO_LARGE', status: 413 }),
    );
  });
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
