import { spawn, type ChildProcess } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as ask, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { discoverOAuthProtectedResourceMetadata } from '@modelcontextprotocol/client';
import { MAIN } from '../cli/drs.js';
import { startToolServer, type ToolServer } from '../e2e/gate-tools.js';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { listen, type TestServer } from '../middleware/http.js';
import { GENERATIONS } from '../middleware/mcp-generations.js';

import { importKey } from '../../src/issue/index.js';
import { destinationOf } from '../../src/relay/http-target.js';
import { openGuard } from '../../src/relay/guard-http.js';
import { hostsOf, openHttpRelay } from '../../src/relay/http-relay.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import { eventually } from '../support/eventually.js';
import { unusedPort } from '../support/ports.mjs';

const SERVER = 'https://tools.example';
const policy = { allowed_tools: ['search', 'SendMessage', 'GetTask', 'read', 'save'] };
const chains = ['/mcp', '/a2a', '/x'].map((cmd) => [cmd, liveChain(1, { cmd, policy })] as const);
const chainOf = (command: string) =>
  (chains.find(([cmd]) => command.startsWith(cmd)) ?? chains[0])?.[1] as ReturnType<typeof liveChain>;
const chain = chainOf('/mcp');
const root = chain.parties[0]?.did ?? '';
const roots = chains.map(([, { parties }]) => parties[0]?.did).join();
const signed = (cmd: string, args: object) =>
  encode(liveCall(chainOf(cmd), args, { cmd, tool_server: SERVER }));

/** A tool server that keeps what it gets, and answers as the test says. */
interface Got {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}
const got: Got[] = [];
let respond: (res: ServerResponse, request: Got) => void;
let tools: TestServer;
const guards: Awaited<ReturnType<typeof openHttpRelay>>[] = [];
const processes: ChildProcess[] = [];
const folder = mkdtempSync(path.join(tmpdir(), 'drs-guard-'));
const routes = path.join(folder, 'routes.json');

async function guard(
  protocol: 'mcp' | 'a2a' | 'http',
  to: string,
  { rpc, ...env }: Record<string, string> = {},
) {
  const configuration = readConfiguration({
    ...{ PORT: '0', WORKER_THREADS: '0', MAX_BODY_BYTES: '100000' },
    ...{ TRUSTED_ROOTS: roots, SERVER_IDENTITY: SERVER, ...env },
  });
  const destination = destinationOf(to, protocol, { isRouted: env['GATE_ROUTES'] !== 'any', rpc });
  const log = pino({ level: 'silent' });
  const opened = await openHttpRelay({
    configuration,
    destination,
    openDecider: openGuard(configuration, protocol, log),
    hosts: hostsOf('', []),
    log,
  });
  guards.push(opened);
  return opened.url;
}

beforeAll(async () => {
  tools = await listen((req, res) => {
    void buffer(req).then((body) => {
      const { method = '', url = '', headers } = req;
      const request = { method, url, headers, body: body.toString() };
      got.push(request);
      respond(res, request);
    });
  });
  const save = { method: 'POST', path: '/api/notes/{name}', tool: 'save', body: 'envelope' };
  const read = { method: 'GET', path: '/api/notes/{name}', query: ['part'], tool: 'read' };
  writeFileSync(routes, JSON.stringify({ routes: [save, read] }));
});
afterEach(() => void vi.useRealTimers());
beforeEach(() => {
  got.length = 0;
  respond = (res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
});
afterAll(async () => {
  await Promise.all(guards.map((one) => one.close()));
  // Also where a test has failed before it ended its own.
  for (const child of processes) child.kill('SIGKILL');
  await tools.close();
  rmSync(folder, { recursive: true });
});

/** Sends a request with exactly these headers. */
type Sent = { method?: string; headers?: Record<string, string | string[]>; body?: string | Buffer };
async function send(url: string, { method = 'POST', headers = {}, body = '' }: Sent) {
  const req = ask(url, { method, headers, agent: false });
  req.on('error', () => undefined);
  // With a text, Node would write the headers as UTF-8, too.
  req.end(Buffer.from(body));
  const [res] = (await once(req, 'response')) as [import('node:http').IncomingMessage];
  const text = (await buffer(res)).toString();
  const code = /"code":"([A-Z_]+)"/.exec(text)?.[1] ?? null;
  return { status: res.statusCode, headers: res.headers, text, code };
}
/** Each by its path, with the code that it is refused with, or else its status. */
async function expectAnswers(url: string, rows: readonly (readonly [string, Sent, number | string])[]) {
  for (const [at, request, expected] of rows) {
    const { status, code } = await send(url + at, request);
    expect([at, code ?? status]).toEqual([at, expected]);
  }
}
const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
const json = { 'Content-Type': 'application/json' };

describe('drs-verify guard in front of an MCP server over HTTP', () => {
  let server: ToolServer;
  let url: string;
  beforeAll(async () => {
    server = await startToolServer();
    url = `${await guard('mcp', `http://127.0.0.1:${server.port}/mcp`)}/mcp`;
  });
  afterAll(() => server.close());

  const [keyed] = chain.parties.slice(1);
  const delegation = {
    key: importKey(keyed?.key.export({ format: 'jwk' })),
    chain: chain.receipts,
    toolServer: SERVER,
  };
  it.each(GENERATIONS)('serves what is signed, and nothing else: a client of $name', async ({ connect }) => {
    const [signing, bare] = [await connect(url, { delegation }), await connect(url)];
    const call = { name: 'search', arguments: { query: 'tea' } };
    server.requests.length = 0;
    expect((await signing.callTool(call)).content[0]?.text).toBe('search: tea');
    await expect(bare.callTool(call)).rejects.toThrow('MISSING_BUNDLE');
    await Promise.all([signing.close(), bare.close()]);
    expect(server.calls.splice(0)).toEqual(['search tea']);
    const seen = server.requests.find(({ headers }) => headers['x-drs-agent'] !== undefined);
    expect(seen?.headers).toMatchObject({
      'x-drs-root-principal': root,
      'x-drs-tool': 'search',
      'x-drs-binding': 'match',
      host: `127.0.0.1:${server.port}`,
    });
    expect(seen?.headers).not.toHaveProperty('x-drs-bundle');
  });

  it('refuses what must be written anew and nests too deep for that, and passes what stays as it is', async () => {
    const nested = `${'['.repeat(8_000)}${']'.repeat(8_000)}`;
    const pingWith = (more: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${nested}${more}}}`;
    const plain = await guard('mcp', `${tools.url}/mcp`);
    const sent = (body: string) => send(`${plain}/mcp`, { headers: json, body });
    expect(await sent(pingWith(''))).toMatchObject({ status: 200 });
    expect(got.map(({ body }) => body)).toEqual([pingWith('')]);
    const refused = { status: 400, text: '{"error":"the message nests too deep"}' };
    expect(await sent(pingWith(',"_meta":{"X-DRS-Bundle":"e30"}'))).toMatchObject(refused);
    expect(got).toHaveLength(1);
  });

  it('asks again over the connections that it has', async () => {
    const address = `${await guard('mcp', `${tools.url}/mcp`)}/mcp`;
    let made = 0;
    const count = () => made++;
    tools.server.on('connection', count);
    const askAtOnce = async () => {
      const held: ServerResponse[] = [];
      respond = (res) => {
        if (held.push(res) === 40) for (const one of held) one.end('{}');
      };
      await Promise.all(Array.from({ length: 40 }, () => send(address, { headers: json, body: PING })));
    };
    await askAtOnce();
    expect(made).toBe(40);
    await askAtOnce();
    tools.server.off('connection', count);
    expect(made).toBe(40);
  });

  it('answers what is under way when it is told to end, and takes nothing more', async () => {
    const address = `${await guard('mcp', `${tools.url}/mcp`)}/mcp`;
    const others = respond;
    const held = new Promise<ServerResponse>((resolve) => (respond = resolve));
    const first = send(address, { headers: json, body: PING });
    const response = await held;
    respond = others;
    const closed = guards.at(-1)?.close();
    await eventually(async () =>
      expect(await send(address, { headers: json, body: PING })).toMatchObject({
        status: 503,
        code: 'VERIFIER_UNAVAILABLE',
      }),
    );
    response.end('{}');
    expect(await first).toMatchObject({ status: 200, text: '{}' });
    await closed;
    await expect(send(address, { body: PING })).rejects.toThrow('ECONNREFUSED');
  });

  it('reads its routes again', async () => {
    const file = path.join(folder, 'other-routes.json');
    const write = (tool: string) =>
      writeFileSync(file, JSON.stringify({ routes: [{ method: 'GET', path: '/a', tool }] }));
    write('search');
    const address = await guard('http', tools.url, { GATE_ROUTES: file });
    const bundle = signed('/x', { tool: 'save' });
    const asked = { method: 'GET', headers: { 'X-DRS-Bundle': bundle } };
    expect(await send(`${address}/a`, asked)).toMatchObject({ code: 'TOOL_MISMATCH' });
    write('save');
    await guards.at(-1)?.reload();
    expect(await send(`${address}/a`, asked)).not.toMatchObject({ code: 'TOOL_MISMATCH' });
  });

  it('passes an event stream on as it comes, and its end', async () => {
    const stop = new AbortController();
    const stream = await fetch(url, {
      headers: { Accept: 'text/event-stream', 'Last-Event-ID': '1' },
      signal: stop.signal,
    });
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe('data: first\n\n');
    server.release();
    expect((await reader?.read())?.value).toBe('data: second\n\n');
    expect((await reader?.read())?.done).toBe(true);
  });
});

describe('drs-verify guard as a reverse proxy', () => {
  const message = (meta: object, id = 1) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'search', arguments: { query: 'ü' }, ...meta },
    });
  const args = { tool: 'search', query: 'ü' };
  let url: string;
  beforeAll(async () => {
    url = `${await guard('mcp', `${tools.url}/mcp`, { ALLOWED_ORIGINS: 'https://app.example', REQUEST_TIMEOUT_SECS: '1' })}/mcp`;
  });

  it('forwards the bytes that it has decided on, and refuses their replay', async () => {
    const headers = { ...json, 'X-DRS-Bundle': signed('/mcp/tools/call', args) };
    const body = message({}).replace(',', ' ,\t');
    expect(await send(url, { headers, body })).toMatchObject({ status: 200, text: '{"ok":true}' });
    expect(got).toMatchObject([{ method: 'POST', url: '/mcp', body }]);
    expect(await send(url, { headers, body })).toMatchObject({ status: 409, code: 'REPLAY_DETECTED' });
    expect(got).toHaveLength(1);
  });

  it('takes the bundle out of the message, and what only a guard says', async () => {
    const forged = { 'xyz.okeyamy.drs/context': { root_principal: 'x' }, mine: 1 };
    const meta = { _meta: { ...forged, 'X-DRS-Bundle': signed('/mcp/tools/call', args) } };
    await send(url, { headers: json, body: message(meta) });
    expect(got.map(({ body }) => JSON.parse(body) as object)).toEqual([
      JSON.parse(message({ _meta: { mine: 1 } })),
    ]);
  });

  it('forwards no header that is about a context, a method, a path or the connection', async () => {
    const own = { 'X-Own': 'a', 'Mcp-Session-Id': 's', Authorization: 'Bearer t', Connection: 'close' };
    const forged = {
      ...{ 'X-DRS-Agent': 'forged', 'x-drs-context': 'forged', 'X-DRS-New': 'forged' },
      ...{ 'X-Forwarded-Uri': '/admin', TE: 'trailers' },
      ...{ 'X-HTTP-Method-Override': 'POST', 'X-Forwarded-Host': 'forged', Forwarded: 'for=forged' },
      ...{ 'X-Forwarded-For': 'forged', 'X-Forwarded-Proto': 'forged', 'X-Real-IP': 'forged' },
    };
    const bundle = signed('/mcp/tools/call', args);
    await send(url, { headers: { ...json, ...own, ...forged, 'X-DRS-Bundle': bundle }, body: message({}) });
    await send(url, { headers: { ...json, ...own, ...forged }, body: PING });
    expect(got).toHaveLength(2);
    for (const { headers } of got) {
      expect(headers).toMatchObject({ 'x-own': 'a', 'mcp-session-id': 's', authorization: 'Bearer t' });
      expect(JSON.stringify(headers)).not.toMatch(/forged|admin|trailers|override/);
    }
    expect(got[0]?.headers).toMatchObject({ 'x-drs-root-principal': root });
    expect(Object.keys(got[1]?.headers ?? {}).filter((name) => name.startsWith('x-drs'))).toEqual([]);
  });

  it.each([
    ['a name that was made to lead here', { headers: { ...json, Host: 'evil.example:80' }, body: PING }, 403],
    ['a connection that names a header', { headers: { Connection: 'close, X-DRS-Agent' } }, 400],
    ['a header like one of ours', { headers: { ...json, X_DRS_Agent: 'x' }, body: PING }, 400],
    ['the mount of an application', { headers: { ...json, 'Script-Name': '/mcp' }, body: PING }, 405],
    ['a method by header', { headers: { ...json, 'X-HTTP-Method-Override': 'DELETE' } }, 405],
    ['another method', { method: 'PUT', headers: json }, 405],
    ['a form', { headers: { 'Content-Type': 'text/plain' }, body: PING }, 403],
    ['a body that is too large', { headers: json, body: Buffer.alloc(200_000, 0x20) }, 413],
    ['a web page', { headers: { ...json, Origin: 'https://evil.example' }, body: PING }, 403],
  ])('refuses %s', async (_, request, status) => {
    expect(await send(url, request)).toMatchObject({ status });
    expect(got).toEqual([]);
  });

  it.each(['/', '/mcp/', '/mcp?x=1', '/MCP', '/mcp/../mcp', '/%6dcp', '//mcp', '/admin'])(
    'serves nothing at %s',
    async (other) => {
      const body = PING;
      const { port } = new URL(url);
      const req = ask({ port, host: '127.0.0.1', path: other, method: 'POST', headers: json, agent: false });
      const [res] = (await once(req.end(body), 'response')) as [import('node:http').IncomingMessage];
      res.resume();
      expect(res.statusCode).toBe(404);
      expect(got).toEqual([]);
    },
  );

  it('lets its own pages pass and those that are listed, and nothing with a body that nobody reads', async () => {
    const own = { ...json, Origin: new URL(url).origin };
    expect(await send(url, { headers: own, body: PING })).toMatchObject({ status: 200 });
    expect(got.splice(0)[0]?.headers).not.toHaveProperty('origin');
    const origin = { Origin: 'https://app.example' };
    const session = { 'Mcp-Session-Id': 's' };
    const one = { ...json, 'Content-Length': '1' };
    await expectAnswers(url, [
      ['', { method: 'OPTIONS', headers: origin }, 200],
      ['', { method: 'DELETE', headers: session }, 200],
      ['', { method: 'OPTIONS', headers: { ...origin, ...one }, body: 'x' }, 'METHOD_NOT_ALLOWED'],
      ['', { method: 'DELETE', headers: { ...session, ...one }, body: 'x' }, 'METHOD_NOT_ALLOWED'],
    ]);
    expect(got.map(({ method, body }) => [method, body])).toEqual([
      ['OPTIONS', ''],
      ['DELETE', ''],
    ]);
  });

  it('takes upgrades off, which Java asks for, sends bytes as they came, and says itself who calls', async () => {
    const connection = {
      Connection: 'Upgrade, HTTP2-Settings',
      Upgrade: 'h2c',
      'HTTP2-Settings': 'AAMAAABk',
    };
    const odd = 'gr\u00fc\u00df \u00c3\u00bc';
    respond = (res) =>
      res.writeHead(200, 'OK', ['X-Odd', odd, 'Connection', 'X-Hop', 'X-Hop', '1']).end(Buffer.from('ok'));
    const headers = { ...json, ...connection, 'X-Odd': odd };
    const answer = await send(url, { headers, body: PING });
    expect([answer.status, answer.headers['x-odd'], answer.headers['x-hop']]).toEqual([200, odd, undefined]);
    expect(got[0]?.headers).toMatchObject({ 'x-odd': odd, 'x-forwarded-for': '127.0.0.1' });
    expect(JSON.stringify(got[0]?.headers)).not.toMatch(/h2c|http2/);
  });

  it('serves others while a client is slow, and refuses that one', async () => {
    const slow = connect(Number(new URL(url).port), '127.0.0.1');
    slow.write(
      'POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 90000\r\n\r\n{',
    );
    const answered = buffer(slow);
    expect(await send(url, { headers: json, body: PING })).toMatchObject({ status: 200 });
    expect((await answered).toString()).toMatch(/^HTTP\/1.1 408 .*BODY_TIMEOUT/s);
  });

  it('serves others while the calls of a client fill its share of the memory, until they are answered', async () => {
    const address = await guard('mcp', `${tools.url}/mcp`, { MAX_BODY_MEMORY: '400000' });
    const waiting: ServerResponse[] = [];
    respond = (res) => void waiting.push(res);
    const large = `${PING.slice(0, -1)},"params":{"_meta":{"x":"${'y'.repeat(30_000)}"}}}`;
    const ping = async (localAddress: string) => {
      const req = ask(`${address}/mcp`, { method: 'POST', headers: json, agent: false, localAddress });
      req.end(large);
      const [res] = (await once(req, 'response')) as [import('node:http').IncomingMessage];
      res.resume();
      return res.statusCode;
    };
    const greedy: Promise<number | undefined>[] = [];
    let refused = 0;
    for (let sent = 1; sent <= 8; sent++) {
      greedy.push(ping('127.0.0.1'));
      void greedy.at(-1)?.then((status) => (refused += Number(status === 503)));
      await eventually(() => expect(waiting.length + refused).toBe(sent));
    }
    expect(refused).toBeGreaterThan(0);
    const served = waiting.length;
    const other = ping('127.0.0.2');
    await eventually(() => expect(waiting).toHaveLength(served + 1));
    for (const res of waiting.splice(0)) res.writeHead(202).end();
    expect(await other).toBe(202);
    await Promise.all(greedy);
    const again = ping('127.0.0.1');
    await eventually(() => expect(waiting).toHaveLength(1));
    waiting[0]?.writeHead(202).end();
    expect(await again).toBe(202);
  });

  it.runIf(process.platform === 'linux')(
    'serves others while a client has all event streams that it gets',
    async () => {
      respond = (res, { method }) =>
        method === 'GET'
          ? res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
          : res.writeHead(200).end('pong');
      const options = ['--trusted-root', root, '--tool-server', SERVER, '--to', `${tools.url}/mcp`];
      const guarding = [process.execPath, MAIN, 'guard', ...options, '--listen', '127.0.0.1:0'];
      const child = spawn('sh', ['-c', 'ulimit -n 160; exec "$0" "$@"', ...guarding], {
        ...{ env: { PATH: process.env['PATH'] }, stdio: ['ignore', 'pipe', 'inherit'] },
      });
      let log = '';
      child.stdout.on('data', (chunk: Buffer) => (log += chunk.toString()));
      const port = await eventually(() => {
        const [, found] = /"url":"http:\/\/127\.0\.0\.1:(\d+)"/.exec(log) ?? [];
        if (found === undefined) throw new Error(log);
        return Number(found);
      });
      const sockets: Socket[] = [];
      for (let answer = ''; !answer.startsWith('HTTP/1.1 503');) {
        const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' });
        sockets.push(socket);
        socket.write('GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n');
        const [data] = (await once(socket, 'data')) as [Buffer];
        answer = data.toString();
      }
      // Seven eighths of the half of 160 descriptors that is for the tool server.
      expect(sockets.length).toBeGreaterThan(20);
      expect(await send(`http://127.0.0.1:${port}/mcp`, { headers: json, body: PING })).toMatchObject({
        ...{ status: 200, text: 'pong' },
      });
      for (const socket of sockets) socket.destroy();
      child.kill();
      expect(await once(child, 'exit')).toEqual([0, null]);
    },
  );

  it('says why a tool server gave no answer', async () => {
    const ping = { headers: json, body: PING };
    const dead = await guard('mcp', `http://127.0.0.1:${await unusedPort()}/mcp`);
    const refused = await send(`${dead}/mcp`, ping);
    expect(refused).toMatchObject({ status: 502 });
    // Strangers need not know where the tool server is.
    expect(refused.text).toMatch(/did not answer\. The call was not executed; (?!.*127\.0\.0\.1)/);
    respond = (res) => res.socket?.destroy();
    expect(await send(url, ping)).toMatchObject({
      ...{ status: 502, text: expect.stringContaining('The call may have been executed; ') as unknown },
    });
  });

  it('cuts no call by time, on no side', async () => {
    const idle: unknown[] = [];
    const began = (message: unknown) => {
      const { socket } = message as { socket: Socket };
      respond = (res) => {
        idle.push(socket.timeout);
        vi.advanceTimersByTime(24 * 3600 * 1000);
        res.writeHead(200).end('late');
      };
      unsubscribe('http.server.request.start', began);
    };
    // What the guard's own listener is asked comes first.
    subscribe('http.server.request.start', began);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
    expect(await send(url, { headers: json, body: PING })).toMatchObject({ status: 200, text: 'late' });
    // Node's own limit for connections in which nothing is said.
    expect(idle).toEqual([0]);
  });

  it('cuts an answer off that the tool server cuts off, and the request that its client cuts off', async () => {
    respond = (res) => {
      res.writeHead(200).write('a');
      setImmediate(() => res.destroy());
    };
    await expect(send(url, { headers: json, body: PING })).rejects.toThrow('aborted');
    for (const begins of [true, false]) {
      let isCut = false;
      respond = (res) => {
        res.on('close', () => (isCut = true));
        if (begins) res.writeHead(200).write('a');
      };
      const req = ask(url, { method: 'POST', headers: json, agent: false }).end(PING);
      req.on('error', () => undefined);
      got.length = 0;
      if (begins) {
        const [res] = (await once(req, 'response')) as [import('node:http').IncomingMessage];
        res.on('error', () => undefined);
      } else
        await eventually(() => {
          expect(got).toHaveLength(1);
        });
      req.destroy();
      await eventually(() => {
        expect(isCut).toBe(true);
      });
    }
  });
});

it('opens nothing where the certificate was spoiled since the configuration was read', async () => {
  const decisionLog = path.join(folder, 'decisions.jsonl');
  const read = readConfiguration({ PORT: '0', WORKER_THREADS: '0', DECISION_LOG: decisionLog });
  const configuration = { ...read, tlsCertFile: routes, tlsKeyFile: routes };
  const destination = destinationOf(tools.url, 'mcp', { isRouted: true, rpc: undefined });
  const log = pino({ level: 'silent' });
  const openDecider = openGuard(configuration, 'mcp', log);
  const opening = openHttpRelay({ configuration, destination, openDecider, hosts: null, log });
  await expect(opening).rejects.toThrow('TLS_CERT_FILE is ');
  expect(existsSync(decisionLog)).toBe(false);
});

describe('drs-verify guard in front of an A2A agent', () => {
  const send1 = { message: { parts: [] } };
  let url: string;
  beforeAll(async () => {
    url = await guard('a2a', `${tools.url}/agent`);
  });

  it('serves the agent, its card and its REST paths, and nothing beside', async () => {
    const rpc = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: send1 });
    const call = (args: object, method: string) => ({
      ...json,
      'X-DRS-Bundle': signed(`/a2a/${method}`, args),
    });
    const ofRpc = { tool: 'SendMessage', ...send1 };
    const message = () => ({ headers: call(ofRpc, 'SendMessage'), body: rpc });
    const task = { tool: 'GetTask', path: '/agent', id: '7' };
    const elsewhere = { tool: 'GetTask', id: '7' };
    await expectAnswers(url, [
      ['/agent', message(), 200],
      ['/agent', { headers: json, body: rpc }, 'MISSING_BUNDLE'],
      ['/other', message(), 404],
      ['/agent/other', message(), 404],
      ['/agent/tasks/7', { method: 'GET', headers: call(task, 'GetTask') }, 200],
      ['/tasks/7', { method: 'GET', headers: call(elsewhere, 'GetTask') }, 404],
      ['/.well-known/agent-card.json', { method: 'GET' }, 200],
      ['/admin', { method: 'OPTIONS' }, 404],
    ]);
    expect(got.map(({ method, url: asked, body }) => [method, asked, body])).toEqual([
      ['POST', '/agent', rpc],
      ['GET', '/agent/tasks/7', ''],
      ['GET', '/.well-known/agent-card.json', ''],
    ]);
  });

  it('serves JSON-RPC at one path, and REST beside it', async () => {
    const both = await guard('a2a', tools.url, { rpc: '/a2a' });
    const call = (args: object, method: string) => ({ 'X-DRS-Bundle': signed(`/a2a/${method}`, args) });
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: send1 });
    const message = () => ({
      headers: { ...json, ...call({ tool: 'SendMessage', ...send1 }, 'SendMessage') },
      body,
    });
    const task = { tool: 'GetTask', path: '/rest', id: '7' };
    await expectAnswers(both, [
      ['/a2a', message(), 200],
      ['/', message(), 404],
      ['/rest', message(), 404],
      ['/a2a/', message(), 404],
      ['/rest/tasks/7', { method: 'GET', headers: call(task, 'GetTask') }, 200],
      ['/rest/tasks/7', { method: 'GET' }, 'MISSING_BUNDLE'],
    ]);
  });
});

describe('drs-verify guard in front of an HTTP tool', () => {
  it('serves its routes below its path, and takes envelopes out', async () => {
    const url = await guard('http', `${tools.url}/api`, { GATE_ROUTES: routes });
    const bundle = (args: object) => ({ 'X-DRS-Bundle': signed('/x', args) });
    const read = { tool: 'read', name: 'a', part: '2' };
    const body = { text: 'ü', n: 1.5 };
    const envelope = { bundle: signed('/x', { tool: 'save', name: 'a', ...body }), body };
    const headers = { 'Content-Type': 'application/drs-call+json' };
    await expectAnswers(url, [
      ['/api/notes/a?part=2', { method: 'GET', headers: bundle(read) }, 200],
      ['/api/notes/b?part=2', { method: 'GET', headers: bundle(read) }, 'BINDING_MISMATCH'],
      ['/api/else', { method: 'GET', headers: bundle(read) }, 'UNKNOWN_ROUTE'],
      ['/notes/a', { method: 'GET', headers: bundle(read) }, 404],
      ['/api/notes/a', { headers, body: JSON.stringify(envelope) }, 200],
    ]);
    expect(got.map(({ url: asked }) => asked)).toEqual(['/api/notes/a?part=2', '/api/notes/a']);
    expect(got[1]).toMatchObject({
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', 'x-drs-tool': 'save' },
    });
  });

  it('sends on what it would refuse on trial, and says why to the tool alone', async () => {
    const url = await guard('http', `${tools.url}/api`, { GATE_ROUTES: routes, GATE_MODE: 'observe' });
    const spoofed = { 'X-DRS-Observed': 'EXPIRED', 'X-DRS-Agent': 'did:key:zBoss', 'X-DRS-Bundle': 'x' };
    const type = { 'Content-Type': 'application/drs-call+json' };
    await expectAnswers(url, [
      ['/api/notes/a?part=2', { method: 'GET', headers: spoofed }, 200],
      ['/api/else', { headers: json, body: '{"a":1}' }, 200],
      ['/api/notes/a', { headers: type, body: '{"bundle":"x","body":{"n":1}}' }, 200],
      // Nobody knows what the tool would make of it.
      ['/api/notes/a', { headers: type, body: '{"body":{"n":1}}' }, 400],
      ['/notes/a', { method: 'GET' }, 404],
    ]);
    expect(got.map(({ url: asked, body, headers }) => [asked, body, headers['x-drs-observed']])).toEqual([
      ['/api/notes/a?part=2', '', 'MALFORMED_BUNDLE'],
      ['/api/else', '{"a":1}', 'UNKNOWN_ROUTE'],
      ['/api/notes/a', '{"n":1}', 'MALFORMED_BUNDLE'],
    ]);
    for (const { headers } of got)
      for (const name of ['x-drs-agent', 'x-drs-bundle']) expect(headers).not.toHaveProperty(name);
  });

  it('serves exactly its own path, where there is no table', async () => {
    const url = await guard('http', `${tools.url}/save?v=1`, { GATE_ROUTES: 'any' });
    const headers = () => ({ ...json, 'X-DRS-Bundle': signed('/x', { tool: 'save' }) });
    await expectAnswers(url, [['/save?v=1', { headers: headers(), body: '{"tool":"save"}' }, 200]]);
    const other = await send(`${url}/save`, { headers: headers(), body: '{"tool":"save"}' });
    expect([other.status, other.text]).toEqual([404, expect.not.stringContaining('v=1')]);
  });
});

it('lets a client that must sign in find out how, and nothing else beside the server’s path', async () => {
  const url = await guard('mcp', `${tools.url}/mcp`);
  const metadata = { resource: `${url}/mcp`, authorization_servers: ['https://auth.example'] };
  respond = (res, { method }) =>
    method === 'GET'
      ? res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata))
      : res.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${url}/x"` }).end();
  expect(await discoverOAuthProtectedResourceMetadata(`${url}/mcp`)).toEqual(metadata);
  expect(got.map(({ url: asked }) => asked)).toEqual(['/.well-known/oauth-protected-resource/mcp']);
  const list = { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' };
  const headers = { 'Content-Type': 'application/json' };
  const refused = await fetch(`${url}/mcp`, { ...list, headers });
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
    ...[401, `Bearer resource_metadata="${url}/x"`],
  ]);
  const well = '/.well-known/oauth-protected-resource';
  const statusOf = async (path: string, init?: RequestInit) => (await fetch(url + path, init)).status;
  expect(await statusOf(well)).toBe(200);
  for (const path of [
    `${well}/other`,
    `${well}/mcp?x=1`,
    `${well}/mcp/`,
    '/.well-known/openid-configuration',
  ])
    expect(await statusOf(path)).toBe(404);
  expect(await statusOf(well, { ...list, headers })).toBe(404);
});
