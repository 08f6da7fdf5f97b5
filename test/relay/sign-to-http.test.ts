import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { decodeBundle } from '../../src/issue/index.js';
import { httpEnd } from '../../src/relay/http-end.js';
import { httpTarget } from '../../src/relay/http-target.js';
import { sayTo } from '../../src/relay/lines.js';
import { MAX_MESSAGE_BYTES } from '../../src/relay/message.js';
import { pump } from '../../src/relay/pump.js';
import { mcpSigner } from '../../src/relay/sign.js';
import type { Tools } from '../../src/verify/tools.js';
import { eventually } from '../support/eventually.js';
import { listen, type TestServer } from '../middleware/http.js';
import { MAIN } from '../cli/drs.js';
import { newAgent } from './agent.js';

const agent = newAgent();
const chain = await agent.chain('search.jwt', ['search']);

/** What the server got, and how it answers: by the method of the message, or of the request. */
let server: TestServer;
interface Got {
  readonly method: string;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}
let got: Got[] = [];
let answers: Record<string, (res: ServerResponse, req: IncomingMessage) => void> = {};
beforeAll(async () => {
  server = await listen((req, res) => {
    void text(req).then((body) => {
      const { method } = /^\s*\{/.test(body) ? (JSON.parse(body) as { method?: string }) : {};
      got.push({ method: method ?? req.method ?? '', url: req.url, headers: req.headers, body });
      const respond = answers[method ?? req.method ?? ''];
      if (respond === undefined) res.writeHead(202).end();
      else respond(res, req);
    });
  });
});
afterAll(() => server.close());
afterEach(() => void vi.restoreAllMocks());

const json =
  (body: string, status = 200, headers = {}) =>
  (res: ServerResponse) =>
    void res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);

/** Runs lines through a relay until it ends. */
async function relay(
  lines: readonly (string | Buffer)[],
  {
    to = server.url,
    until,
    more = [],
    chains = [chain],
    tools,
  }: {
    to?: string;
    until?: (output: string) => void;
    more?: readonly string[];
    chains?: string[];
    tools?: Tools;
  } = {},
): Promise<string[]> {
  got = [];
  const [input, out] = [new PassThrough(), new PassThrough()];
  let written = '';
  out.on('data', (chunk: Buffer) => (written += chunk.toString()));
  const say = sayTo(out);
  const headers = { authorization: 'Bearer t' };
  const server = httpEnd(httpTarget(new URL('/mcp', to)), headers, say, () => undefined);
  const hook = mcpSigner(await agent.delegations(chains, tools), new Set(['help']));
  const ended = pump(input, hook, server.send, say).then(() => server.end());
  for (const line of lines) if (!input.write(line)) await once(input, 'drain');
  if (until !== undefined) await eventually(() => until(written), 5);
  input.end(more.join(''));
  await ended;
  return written.split('\n').slice(0, -1);
}

const request = (id: unknown, method: string, params = {}) =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
const failed = (id: unknown, message: string) => ({
  id,
  error: expect.objectContaining({
    code: -32000,
    message: expect.stringContaining(message) as unknown,
  }) as unknown,
});
const parsed = (lines: readonly string[]) => lines.map((line) => JSON.parse(line) as Record<string, unknown>);

it('sends the bytes of each message, and writes the bytes of each answer in a line', async () => {
  answers = {
    a: json('{ "jsonrpc":"2.0",\r\n "id": 1.0, "result": {"n":1e2}\n}'),
    b: (res) =>
      void res
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(
          ': comment\r\ndata: {"method":\ndata: "n\\u0041"}\n\nevent: other\ndata: x\n\ndata: {"id":"b" ,"result":{}}\n\n',
        ),
  };
  const lines = [
    ' {"jsonrpc":"2.0", "id":1.0, "method":"a" } \r\n',
    '{"id":"b","method":"b","params":{"x":"\\u00e9"}}\n',
  ];
  const out = await relay(lines, { until: (written) => expect(written.split('\n')).toHaveLength(4) });
  expect(got.map(({ body }) => body)).toEqual(
    expect.arrayContaining(lines.map((line) => line.replace(/\n$/, ''))),
  );
  expect(got[0]?.headers).toMatchObject({
    authorization: 'Bearer t',
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  });
  expect([...out].sort()).toEqual(
    [
      '{ "jsonrpc":"2.0",   "id": 1.0, "result": {"n":1e2} }',
      '{"method": "n\\u0041"}',
      '{"id":"b" ,"result":{}}',
    ].sort(),
  );
});

const stream = { 'content-type': 'text/event-stream' };

it('turns what a server answers otherwise into errors with the id of the request', async () => {
  const elsewhere = 'https://elsewhere.example/';
  answers = {
    'tools/call': (res) => void res.writeHead(307, { location: elsewhere }).end(),
    denied: json('{"jsonrpc":"2.0","id":2,"error":{"code":-32010,"message":"DRS: EXPIRED"}}', 403),
    unread: json('{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"DRS: INVALID_JSONRPC"}}', 400),
    down: (res) => void res.writeHead(503).end('try later'),
    oauth: (res) => void res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(),
    html: (res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    none: (res) => void res.writeHead(202).end(),
    cut: (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"method":"n"}\n\n');
      setImmediate(() => res.destroy());
    },
    reset: (res) => void res.destroy(),
    huge: (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: ');
      res.end(Buffer.alloc(MAX_MESSAGE_BYTES + 1, 'x'));
    },
    coded: (res) => void res.writeHead(200, { 'content-encoding': 'gzip' }).end(),
    large: (res) => void res.writeHead(413).end(),
    gone: (res) => void res.writeHead(200, stream).end('id: 0\nretry: 1\ndata:\n\n'),
    GET: (res) => void res.writeHead(405).end(),
    switched: (res) => void res.socket?.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n'),
  };
  const named = [
    'denied',
    'unread',
    'down',
    'oauth',
    'html',
    'none',
    'cut',
    'reset',
    'huge',
    'switched',
  ].concat(...['coded', 'large', 'gone']);
  const out = await relay([
    request(1, 'tools/call', { name: 'search' }),
    ...named.map((method, at) => request(at + 2, method)),
    'no JSON\n',
    '[]\n',
    Buffer.alloc(MAX_MESSAGE_BYTES + 1, 'y'),
    '\n',
  ]);
  const byId = new Map(parsed(out).map((message) => [message['id'], message]));
  expect(byId.get(1)).toMatchObject(failed(1, `redirects to "${elsewhere}"`));
  expect(byId.get(2)).toMatchObject({ error: { code: -32010, message: 'DRS: EXPIRED' } });
  expect(byId.get(3)).toMatchObject({ error: { code: -32010, message: 'DRS: INVALID_JSONRPC' } });
  const said = [
    'answered with 503: try later',
    '--header-env',
    'text/html',
    'no content type',
    'connection ended',
    'cannot reach',
    'exceeded max buffer size',
    'another protocol',
    'in the coding "gzip"',
    '413 (your arguments are 1 kB)',
    'connection ended',
  ];
  for (const [at, message] of said.entries()) expect(byId.get(at + 4)).toMatchObject(failed(at + 4, message));
  // A definite no is not asked for again.
  expect(got.filter(({ method }) => method === 'GET')).toHaveLength(1);
  expect(got.every(({ headers }) => headers['accept-encoding'] === 'identity')).toBe(true);
  const unknown = parsed(out)
    .filter(({ id }) => id === null)
    .map(({ error }) => (error as { code: number }).code);
  expect(unknown).toEqual([-32600, -32600, -32010]);
});

it('says that the server is away', async () => {
  const away = await relay([request(1, 'tools/list')], { to: 'http://127.0.0.1:1' });
  expect(parsed(away)).toMatchObject([failed(1, 'cannot reach http://127.0.0.1:1: connect ECONNREFUSED')]);
});

it('waits for an answer as long as its client does', async () => {
  // None is set that could end the wait. Others in this process have some, too: those of a relay count.
  const timers = new Set<unknown>();
  const [set, clear] = [setTimeout, clearTimeout];
  vi.spyOn(globalThis, 'setTimeout').mockImplementation((run: () => void, ms?: number) => {
    const timer = set(run, ms);
    if (new Error('who').stack?.includes('/src/relay/') === true) timers.add(timer);
    return timer;
  });
  vi.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => {
    timers.delete(timer);
    clear(timer);
  });
  const pending: number[] = [];
  const slow = (res: ServerResponse) => {
    pending.push(timers.size);
    json('{"id":1,"result":{}}')(res);
  };
  answers = { slow };
  expect(await relay([request(1, 'slow')])).toEqual(['{"id":1,"result":{}}']);
  expect(pending).toEqual([0]);
});

it('begins a lost session again, and sends once more what was not taken, signed anew', async () => {
  let sessions = 0;
  const known = new Set<unknown>();
  const inSession = (body: string) => (res: ServerResponse, req: IncomingMessage) => {
    if (known.has(req.headers['mcp-session-id'])) json(body)(res);
    // The SDKs say it with an error, others with nothing.
    else if (body.includes('"1"')) res.writeHead(404).end();
    else json('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}', 404)(res);
  };
  answers = {
    initialize: (res, req) => {
      expect(req.headers).not.toHaveProperty('mcp-session-id');
      expect(req.headers).not.toHaveProperty('mcp-protocol-version');
      const id = `s${++sessions}`;
      known.clear();
      known.add(id);
      json('{"id":0,"result":{"protocolVersion":"2025-06-18"}}', 200, { 'mcp-session-id': id })(res);
    },
    'notifications/initialized': inSession(''),
    GET: (res) => void res.writeHead(405).end(),
    'tools/call': inSession('{"jsonrpc":"2.0","id":1,"result":{}}'),
    forget: (res) => {
      known.clear();
      json('{"id":2,"result":{}}')(res);
    },
  };
  const call = request(1, 'tools/call', { name: 'search' });
  const initialize = [request(0, 'initialize'), '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'];
  const heard = (count: number) => (written: string) => expect(written.split('\n')).toHaveLength(count + 1);
  const out = await relay([...initialize, request(2, 'forget')], {
    until: heard(2),
    more: [call, call.replace('"id":1', '"id":"1"')],
  });
  expect(parsed(out).map(({ id, result }) => result !== undefined && id)).toEqual([0, 2, 1, 1]);
  expect(sessions).toBe(2);
  const calls = got.filter(({ method }) => method === 'tools/call');
  expect(new Set(calls.map(({ body }) => body)).size).toBe(calls.length);
  // One that forgets at once is not asked for ever.
  answers['tools/call'] = json('{"jsonrpc":"2.0","id":null,"error":{}}', 404);
  const [, answer] = parsed(await relay([...initialize, call]));
  expect(answer).toMatchObject({ id: 1, error: {} });
  expect(got.filter(({ method }) => method === 'tools/call')).toHaveLength(2);
});

it.each([
  [
    'an answer under its id',
    404,
    '{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Paid, then lost"}}',
  ],
  ['400', 400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session"}}'],
  [
    '400 under its id',
    400,
    '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"Paid, but the session closed"}}',
  ],
  ['a page', 404, '<p>Paid, but the session is gone'],
  [
    'an answer in an array',
    404,
    '[{"jsonrpc":"2.0","id":null,"error":{}},{"jsonrpc":"2.0","id":7,"error":{"message":"x"}}]',
  ],
  ['an answer of another', 404, '{"jsonrpc":"2.0","id":null,"result":{}}'],
])('never sends a call again that the server may have carried out: %s', async (_, status, body) => {
  let sessions = 0;
  answers = {
    initialize: (res) => {
      const id = `s${++sessions}`;
      json('{"id":0,"result":{"protocolVersion":"2025-06-18"}}', 200, { 'mcp-session-id': id })(res);
    },
    GET: (res) => void res.writeHead(405).end(),
    'tools/call': (res, req) => {
      if (req.headers['mcp-session-id'] === 's1') json(body, status)(res);
      else json('{"jsonrpc":"2.0","id":8,"result":{}}')(res);
    },
  };
  const call = (id: number) => request(id, 'tools/call', { name: 'search' });
  const out = await relay([request(0, 'initialize'), call(7)], {
    until: (written) => expect(written.split('\n')).toHaveLength(3),
    more: [call(8)],
  });
  expect(parsed(out)[1]).toMatchObject({
    id: 7,
    error: { message: expect.stringContaining('may be repeated') as unknown },
  });
  // The session is begun again all the same: what comes next is served.
  expect(parsed(out)[2]).toMatchObject({ id: 8, result: {} });
  expect(got.filter(({ method }) => method === 'tools/call')).toHaveLength(2);
  expect(sessions).toBe(2);
});

it('gives back the error also where no session can be begun again', async () => {
  let sessions = 0;
  answers = {
    initialize: (res) => {
      if (++sessions > 1) res.writeHead(500).end();
      else json('{"id":0,"result":{}}', 200, { 'mcp-session-id': 's' })(res);
    },
    'tools/call': (res) => void res.writeHead(400).end('no session'),
  };
  const call = request(1, 'tools/call', { name: 'search' });
  const out = await relay([request(0, 'initialize'), call, request(2, 'tools/list')], {
    until: (written) => expect(written.split('\n')).toHaveLength(4),
  });
  expect(parsed(out).find(({ id }) => id === 1)).toMatchObject(failed(1, 'may be repeated'));
  expect(sessions).toBeGreaterThan(1);
});

it.each([401, 410, 503])('takes no session for lost that MCP does not: %s', async (status) => {
  answers = {
    initialize: json('{"id":0,"result":{}}', 200, { 'mcp-session-id': 's' }),
    'tools/call': (res) => void res.writeHead(status).end(),
  };
  const out = await relay([request(0, 'initialize'), request(1, 'tools/call', { name: 'search' })]);
  expect(parsed(out)[1]).toMatchObject(failed(1, 'if it has lost the session, restart'));
  expect(got.map(({ method }) => method)).toEqual(['initialize', 'tools/call', 'DELETE']);
});

it('names a server of the transport of 2024-11-05', async () => {
  answers = {
    initialize: (res) => void res.writeHead(405).end('Method Not Allowed'),
    GET: (res) => void res.writeHead(200, stream).write('event: endpoint\ndata: /messages?id=1\n\n'),
  };
  const [answer] = parsed(await relay([request(0, 'initialize')]));
  expect(answer).toMatchObject(failed(0, 'speaks the transport of 2024-11-05'));
  answers['GET'] = (res) => void res.writeHead(404).end();
  const [other] = parsed(await relay([request(0, 'initialize')]));
  expect(other).toMatchObject(failed(0, 'answered with 405: Method Not Allowed'));
});

it('ends a call at once where its server goes away for good', async () => {
  const gone = await listen((_, res) => {
    res.writeHead(200, stream).write('id: 1\nretry: 100\ndata:\n\n');
    setImmediate(() => void gone.close().finally(() => res.destroy()));
  });
  const call = request(1, 'tools/call', { name: 'search' });
  const out = await relay([call], { to: gone.url, until: (written) => expect(written).toContain('\n') });
  expect(parsed(out)).toMatchObject([failed(1, 'connection ended before the answer')]);
});

it('goes on asking for what the server says by itself, where its stream is cut again and again', async () => {
  let opened = 0;
  const began = performance.now();
  answers = {
    initialize: json('{"jsonrpc":"2.0","id":0,"result":{}}'),
    GET: (res) => {
      // Balancers cut streams in which nothing is said.
      res.writeHead(200, stream).write(`retry: 0\n\n${opened++ < 8 ? '' : 'data: {"method":"n"}\n\n'}`);
      setImmediate(() => res.end());
    },
  };
  const initialized = '{"jsonrpc":"2.0","method":"notifications/initialized"}\n';
  const until = (written: string) => expect(written).toContain('"n"');
  expect(await relay([request(0, 'initialize'), initialized], { until })).toContain('{"method":"n"}');
  // With a pause between, although the server says 0.
  expect(performance.now() - began).toBeGreaterThan(8 * 99);
});

it('knows the answer in a batch', async () => {
  const batch = '[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"n"}]';
  answers = { a: (res) => void res.writeHead(200, stream).end(`data: ${batch}\n\n`) };
  expect(await relay([request(1, 'a')])).toEqual([batch]);
});

it('says what to do about the member that failed', async () => {
  const total = await agent.chain('total.jwt', ['search'], '/mcp', { max_total_cost_usd: 5 });
  const remedies: unknown[] = [];
  for (const [name, cost] of [['search'], ['search', 9], ['delete', 1]] as const) {
    const params = { name, arguments: { estimated_cost_usd: cost } };
    // It knows what the operator says, so that it knows what is not said.
    const options = { chains: [total], tools: { of: () => null } };
    const [answer] = parsed(await relay([request(1, 'tools/call', params)], options));
    remedies.push((answer?.['error'] as { data: { suggestion: string } }).data.suggestion);
  }
  expect(remedies).toEqual([
    expect.stringMatching(
      /^Add estimated_cost_usd to the arguments, or have the operator of the tool server say it/,
    ),
    expect.stringMatching(
      /^Call with another estimated_cost_usd; to allow this one, issue another total\.jwt/,
    ),
    expect.stringMatching(
      /^To allow the tool "delete" under \/mcp\/tools\/call, issue another total\.jwt \(as did:key:\w+\): it counts at once/,
    ),
  ]);
});

it('takes no more requests than it can keep', async () => {
  answers = { hang: () => undefined };
  const lines = Array.from({ length: 257 }, (_, id) => request(id, 'hang'));
  const cancelled = Array.from({ length: 256 }, (_, requestId) => ({
    method: 'notifications/cancelled',
    params: { requestId },
  }));
  const out = await relay([...lines, ...cancelled.map((message) => `${JSON.stringify(message)}\n`)]);
  expect(parsed(out)).toMatchObject([failed(256, '256 requests have no answer yet')]);
});

it('leaves unsigned what needs no delegation', async () => {
  answers = { 'tools/call': json('{"id":1,"result":{}}') };
  await relay([request(1, 'tools/call', { name: 'help' })]);
  expect(got[0]?.headers['x-drs-bundle']).toBeUndefined();
  expect(got[0]?.body).not.toContain('X-DRS-Bundle');
});

it('takes a URL with a secret from a variable, and names, signs and says it without', async () => {
  answers = { 'tools/call': json('{"jsonrpc":"2.0","id":1,"result":{}}') };
  got = [];
  const args = ['sign', '--key', agent.keyFile, '--chain', chain, '--to-env', 'TOOLS'];
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env['PATH'], TOOLS: `${server.url}/mcp?api_key=secret` },
  });
  const [stdout, stderr] = [text(child.stdout), text(child.stderr)];
  child.stdin.end(request(1, 'tools/call', { name: 'search' }));
  expect(await stdout).toBe('{"jsonrpc":"2.0","id":1,"result":{}}\n');
  const [{ url, body } = { url: '', body: '' }] = got;
  expect(url).toBe('/mcp?api_key=secret');
  const [, bundle = ''] = /"X-DRS-Bundle":"([\w-]+)"/.exec(body) ?? [];
  // Others' gates know one name, and others the other.
  expect(body).toContain(`"xyz.okeyamy.drs/bundle":"${bundle}"`);
  const [, claims = ''] = (decodeBundle(bundle) as { invocation: string }).invocation.split('.');
  expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({
    tool_server: `${server.url}/mcp`,
  });
  expect(await stderr).toContain(`calls are signed for ${server.url}/mcp,`);
  expect(await stderr).not.toContain('secret');
});

it('ends the session where a signal ends it, whatever has no answer yet', async () => {
  answers = {
    initialize: json('{"jsonrpc":"2.0","id":0,"result":{}}', 200, { 'mcp-session-id': 's' }),
    hang: () => undefined,
  };
  got = [];
  const args = ['sign', '--key', agent.keyFile, '--chain', chain, '--to', `${server.url}/mcp`];
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['pipe', 'ignore', 'inherit'] });
  child.stdin.write(request(0, 'initialize') + request(1, 'hang'));
  await eventually(() => expect(got.at(-1)?.method).toBe('hang'));
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([143, null]);
  expect(got.at(-1)).toMatchObject({ method: 'DELETE', headers: { 'mcp-session-id': 's' } });
});
