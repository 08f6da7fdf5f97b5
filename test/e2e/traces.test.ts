import { spawn, type ChildProcess } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MAIN } from '../cli/drs.js';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { listen } from '../middleware/http.js';
import { newAgent, TOOL_SERVER } from '../relay/agent.js';
import { ECHO, startGuard } from '../relay/guard-process.js';
import { linesOf } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { hasProcess, startService, type RunningService } from '../support/service.js';

/** Spans by OpenTelemetry's own SDK, in each process of a call's way. */
const SDK = {
  NODE_OPTIONS: `--import ${new URL('../support/register-tracing.mjs', import.meta.url).href}`,
};
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const OURS = {
  traceparent: `00-${TRACE}-${PARENT}-01`,
  tracestate: 'vendor=a',
  baggage: 'user.tier=gold',
};
/** That of a caller in between. */
const OTHER = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly parent?: string;
  readonly traceState?: string;
  readonly status: { readonly code: number };
  readonly attributes: Readonly<Record<string, unknown>>;
}
const UNSET = 0;
const ERROR = 2;

const children: ChildProcess[] = [];
afterAll(() => children.forEach((child) => child.kill('SIGKILL')));

/** Starts the command, which listens. @returns its address, when it has one, and its spans */
async function start(args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...process.env, ...SDK } });
  children.push(child);
  let said = '';
  const spans: Span[] = [];
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  void (async () => {
    for await (const line of linesOf(child.stdout)) {
      said += line;
      if (line.includes('"msg":"span"')) spans.push(JSON.parse(line) as Span);
    }
  })();
  let url = '';
  await eventually(() => {
    [, url = ''] =
      /(http:\/\/127\.0\.0\.1:\d+)/.exec(/(listening on.*|.*"listening")/.exec(said)?.[0] ?? '') ?? [];
    expect(url, said).not.toBe('');
  });
  return { url, spans };
}

it.runIf(hasProcess)('a refused call through sign and guard is in the trace of its agent', async () => {
  const agent = newAgent();
  const got: string[] = [];
  const tools = await listen((req, res) => {
    void text(req).then((body) => {
      got.push(body);
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"jsonrpc":"2.0","id":1,"result":{}}');
    });
  });
  const listening = ['--listen', '127.0.0.1:0'];
  const trusting = ['--trusted-root', agent.principal.did, '--tool-server', TOOL_SERVER];
  const guard = await start(['guard', ...trusting, '--to', `${tools.url}/mcp`, ...listening]);
  const chain = await agent.chain('once.jwt', ['search'], '/mcp', { max_calls: 1 });
  const sign = await start([...agent.options(chain), '--to', `${guard.url}/mcp`, ...listening]);
  const call = (id: number) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call' },
    params: { name: 'search', arguments: {}, _meta: { ...OURS, 'example.com/x': 1 } },
  });
  const send = async (id: number) => {
    const headers = { 'content-type': 'application/json', 'mcp-session-id': 's-1' };
    const answer = await fetch(sign.url, { method: 'POST', headers, body: JSON.stringify(call(id)) });
    return answer.json();
  };
  await send(1);
  expect(await send(2)).toMatchObject({ error: { data: { code: 'LIMIT_REACHED' } } });
  // Untouched.
  expect(got.map((body) => JSON.parse(body) as unknown)).toEqual([call(1)]);
  const within = { traceId: TRACE, parent: PARENT, traceState: 'vendor=a' };
  const facts = {
    ...{ 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'search', 'user.tier': 'gold' },
    'mcp.session.id': 's-1',
  };
  await eventually(() => {
    const [allowed, refused] = guard.spans;
    expect(allowed).toMatchObject({ name: 'tools/call search', ...within, status: { code: UNSET } });
    expect(allowed?.attributes).toEqual({ ...facts, 'http.route': 'gate', 'jsonrpc.request.id': '1' });
    expect(refused).toMatchObject({ name: 'tools/call', ...within, status: { code: ERROR } });
    expect(refused?.attributes).toEqual({
      ...{ ...facts, 'http.route': 'gate', 'http.response.status_code': 403 },
      ...{ 'jsonrpc.request.id': '2', 'error.type': 'LIMIT_REACHED' },
    });
    expect(sign.spans).toHaveLength(2);
    for (const span of sign.spans) expect(span).toMatchObject(within);
  });
  await tools.close();
});

it.runIf(hasProcess)('so is one that a guard over stdio refuses', async () => {
  const options = ['--trusted-root', 'any', '--tool-server', TOOL_SERVER];
  const guard = startGuard(options, ECHO, { ...SDK, SPANS: 'stderr' });
  const name = `\u001b[2J${'x'.repeat(300)}`;
  guard.say({ jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name, _meta: OURS } });
  const [refusal] = await guard.heard(1);
  expect(refusal).toMatchObject({ error: { data: { code: 'MISSING_BUNDLE' } } });
  await eventually(() => {
    const line =
      guard
        .stderr()
        .split('\n')
        .find((one) => one.includes('"msg":"span"')) ?? '{}';
    const { attributes, ...span } = JSON.parse(line) as Span;
    expect(span).toMatchObject({ name: 'tools/call', traceId: TRACE, parent: PARENT });
    expect(attributes).toEqual({
      ...{ 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': `?[2J${'x'.repeat(196)}…` },
      ...{ 'jsonrpc.request.id': 'a', 'error.type': 'MISSING_BUNDLE', 'user.tier': 'gold' },
    });
  });
});

let service: RunningService;
beforeAll(async () => {
  if (hasProcess) service = await startService({ ...SDK, GRPC_PORT: '0', LOG_REFUSALS: 'all' });
});
afterAll(() => service.stop());

type Ask = (body: string, headers: Record<string, string>) => Promise<unknown>;
const proxied: Ask = (body, headers) => service.post('/gate/mcp', body, headers);
const described: Ask = (body, headers) =>
  service.post('/v1/gate', { protocol: 'mcp', headers, body_text: body });
const overGrpc =
  (metadata = new Metadata()): Ask =>
  async (body, headers) => {
    const envoy = clientOf(AUTHORIZATION, grpcPortOf(service));
    const http = { method: 'POST', path: '/mcp', headers, raw_body: Buffer.from(body) };
    await callOnce(envoy, 'Check', { attributes: { request: { http } } }, {}, metadata).finally(() =>
      envoy.close(),
    );
  };
const ofGateway = new Metadata();
ofGateway.set('traceparent', OURS.traceparent);

const bare = { jsonrpc: '2.0', method: 'tools/call', params: { name: 'search' } };
const within = (meta: object) => ({ ...bare, params: { ...bare.params, _meta: meta } });
/** Each has `OURS` in the place that counts; `null`: in none. */
const PLACES: readonly (readonly [string, Ask, object, Record<string, string>, string | null])[] = [
  ['a header before _meta', proxied, within({ traceparent: OTHER }), OURS, TRACE],
  ['_meta', proxied, within(OURS), {}, TRACE],
  ['_meta where the header is malformed', proxied, within(OURS), { traceparent: `${OTHER}x` }, TRACE],
  ['no form of W3C', proxied, within({ traceparent: `${OURS.traceparent}-x`, tracestate: 'a=1' }), {}, null],
  ['no text', proxied, within({ traceparent: [OURS.traceparent] }), {}, null],
  ['a described header before _meta', described, within({ traceparent: OTHER }), OURS, TRACE],
  ['_meta of a described body', described, within(OURS), {}, TRACE],
  ['metadata of gRPC', overGrpc(ofGateway), within({ traceparent: OTHER }), { traceparent: OTHER }, TRACE],
  ['a header over gRPC', overGrpc(), within({ traceparent: OTHER }), OURS, TRACE],
  ['_meta over gRPC', overGrpc(), within(OURS), {}, TRACE],
];

it.runIf(hasProcess).each(PLACES)(
  'the parent of a span is said by %s',
  async (place, ask, message, headers, trace) => {
    await ask(JSON.stringify({ ...message, id: place }), headers);
    await eventually(() => {
      const spans = service.log.filter(({ msg }) => msg === 'span') as unknown as Span[];
      const span = spans.find(({ attributes }) => attributes['jsonrpc.request.id'] === place);
      expect(span?.attributes).toMatchObject({
        'mcp.method.name': 'tools/call',
        'error.type': 'MISSING_BUNDLE',
      });
      expect(span?.status.code).toBe(ERROR);
      if (trace === null) expect(span).not.toHaveProperty('parent');
      else expect(span).toMatchObject({ traceId: trace, parent: PARENT });
    });
  },
);

it.runIf(hasProcess)('the log of a refusal, and spans of what is no known method', async () => {
  const { params, ...call } = JSON.parse(toolCall()) as { params: object };
  const forged = { ...call, id: 'forged', params: { ...params, name: 'other', _meta: OURS } };
  await proxied(JSON.stringify(forged), { 'x-drs-bundle': mcpBundle() });
  await proxied(JSON.stringify({ ...bare, id: 'made up', method: 'made/up' }), {});
  await eventually(() => {
    const refused = service.log.find(({ msg, code }) => msg === 'refused' && code === 'BINDING_MISMATCH');
    expect(refused).toMatchObject({ traceId: TRACE });
    const names = service.log.filter(({ msg }) => msg === 'span').map(({ name }) => name);
    // Of names that callers make up, there would be many.
    expect(names.slice(-2)).toEqual(['tools/call', 'drs gate']);
  });
});

it.runIf(hasProcess)('a verdict has its span, which is no error', async () => {
  await service.post('/verify', '{}', OURS);
  await eventually(() => {
    const spans = service.log.filter(({ msg }) => msg === 'span') as unknown as Span[];
    const span = spans.find(({ name }) => name === 'drs verify');
    expect(span).toMatchObject({ traceId: TRACE, parent: PARENT, status: { code: UNSET } });
    const answered = { 'http.route': 'verify', 'http.response.status_code': 200 };
    expect(span?.attributes).toMatchObject({ ...answered, 'error.type': 'MALFORMED_BUNDLE' });
  });
});
