import { once } from 'node:events';
import { connect as connectHttp2, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { status, type Client, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encode, liveCall, liveChain } from '../middleware/call.js';
import { writeMessage } from '../../src/service/grpc/messages.js';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { mcpChain } from '../gate/decide.js';
import { ListServer } from '../revocation/list-server.js';
import { eventually } from '../support/eventually.js';
import { AUTHORIZATION, callOnce, clientOf, DEFINITIONS, grpcPortOf, HEALTH } from '../support/grpc.js';
import { failureOf, startService as startServiceHere } from '../support/service-in-process.js';
import { metricOf, runToExit, startService, type RunningService } from '../support/service.js';

/** What Envoy sends about a call; members of the request override. */
const question = (http: object = {}, extensions: Record<string, string> = {}) => ({
  attributes: {
    source: { address: { socket_address: { address: '10.0.0.9', port_value: 1234 } } },
    request: {
      http: {
        id: '1234',
        method: 'POST',
        path: '/mcp',
        host: 'tools.example',
        protocol: 'HTTP/1.1',
        size: 100,
        headers: { ':method': 'POST', 'x-drs-bundle': mcpBundle() },
        raw_body: Buffer.from(toolCall()),
        ...http,
      },
    },
    context_extensions: extensions,
  },
});

const statusOf = (promise: Promise<unknown>): Promise<number> =>
  promise.then(
    () => status.OK,
    (error: unknown) => (error as ServiceError).code,
  );
const metricsOf = async ({ url }: RunningService) => (await fetch(`${url}/metrics`)).text();

/** A gRPC message: a flag, its length, its bytes. */
const framed = (bytes: Buffer, flag = 0, length = bytes.length): Buffer => {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flag);
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, bytes]);
};
const serializeCheck = (message: object): Buffer => {
  const service = DEFINITIONS[AUTHORIZATION] as unknown as {
    Check: { requestSerialize: (message: object) => Buffer };
  };
  return service.Check.requestSerialize(message);
};

/** What a context may have, and this one has not. */
const UNSAID = [
  'x-drs-root-name',
  'x-drs-session-id',
  'x-drs-correlation-id',
  'x-drs-approved-by',
  'x-drs-context',
  'x-drs-observed',
];
const CALL = {
  ...{ ':method': 'POST', ':path': `/${AUTHORIZATION}/Check` },
  ...{ 'content-type': 'application/grpc', te: 'trailers' },
};
const LIMITS = { GRPC_PORT: '0', REQUEST_TIMEOUT_SECS: '1' };
let service: RunningService;
let port: number;
let envoy: Client;
const sessions: (ClientHttp2Session | Socket)[] = [];

beforeAll(async () => {
  service = await startService({ ...LIMITS, LOG_REFUSALS: 'all' });
  port = grpcPortOf(service);
  envoy = clientOf(AUTHORIZATION, port);
});
afterAll(async () => {
  envoy.close();
  for (const session of sessions) session.destroy();
  await service.stop();
});

describe('Authorization/Check', () => {
  it('hands the context on as headers in place of those of the caller', async () => {
    const allowed = await callOnce(envoy, 'Check', question());
    expect(allowed).toMatchObject({ status: {}, http_response: 'ok_response' });
    const { ok_response: ok } = allowed as unknown as {
      ok_response: {
        headers: { header: { key: string; value: string }; append: object; append_action: string }[];
        headers_to_remove: string[];
      };
    };
    const headers = Object.fromEntries(ok.headers.map(({ header }) => [header.key, header.value]));
    expect(headers).toMatchObject({
      'x-drs-root-principal': mcpChain.parties[0]?.did,
      'x-drs-agent': mcpChain.parties.at(-1)?.did,
      'x-drs-chain-depth': '2',
      'x-drs-command': '/mcp/tools/call',
      'x-drs-tool': 'search',
      'x-drs-binding': 'match',
    });
    for (const { append, append_action: action } of ok.headers) {
      expect([append, action]).toEqual([{}, 'OVERWRITE_IF_EXISTS_OR_ADD']);
    }
    expect(ok.headers_to_remove).toEqual(UNSAID);
  });

  it('denies with status, headers and body for the caller, and the request id of the log', async () => {
    const asked = question({
      headers: {
        'x-drs-bundle': encode(liveCall(mcpChain, { tool: 'search' }, { cmd: '/mcp' })),
        'x-request-id': 'caller/42',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      },
    });
    const denied = (await callOnce(envoy, 'Check', asked)) as {
      denied_response?: { headers: { header: { key: string; value: string } }[]; body: string };
    };
    expect(denied).toMatchObject({
      status: { code: 7, message: 'COMMAND_MISMATCH' },
      denied_response: { status: { code: 'Forbidden' } },
    });
    const headers = denied.denied_response?.headers.map(({ header }) => [header.key, header.value]) ?? [];
    expect(Object.fromEntries(headers)).toEqual({
      'content-type': 'application/json',
      'x-drs-code': 'COMMAND_MISMATCH',
      'x-request-id': 'caller/42',
    });
    expect(JSON.parse(denied.denied_response?.body ?? '')).toMatchObject({ id: 7, error: { code: -32010 } });
    await eventually(() =>
      expect(service.log).toContainEqual(
        expect.objectContaining({
          msg: 'refused',
          requestId: 'caller/42',
          traceId: '0af7651916cd43dd8448eb211c80319c',
          code: 'COMMAND_MISMATCH',
        }),
      ),
    );
  });

  it('reads raw headers, which may repeat, and a body that comes as text', async () => {
    const rest = { ...question().attributes.request.http, headers: undefined };
    const header = (key: string, value: string) => ({ key, raw_value: Buffer.from(value) });
    const ask = (headers: object[]) =>
      callOnce(envoy, 'Check', {
        attributes: {
          request: { http: { ...rest, raw_body: undefined, body: toolCall(), header_map: { headers } } },
        },
      });
    const bundle = mcpBundle();
    expect(await ask([header('x-drs-bundle', bundle)])).toMatchObject({ http_response: 'ok_response' });
    expect(
      await ask([header('x-drs-bundle', mcpBundle()), header('X-DRS-Bundle', mcpBundle())]),
    ).toMatchObject({ status: { message: 'MULTIPLE_BUNDLES' } });
  });

  it.each<[string, object, string]>([
    ['two bodies', { body: toolCall() }, 'BINDING_MISMATCH'],
    ['less than Content-Length', { headers: { 'content-length': '9999' } }, 'BODY_TOO_LARGE'],
    ['no body, and a Content-Length', { raw_body: '', headers: { 'content-length': '1' } }, 'BODY_TOO_LARGE'],
    ['bytes that are no UTF-8', { raw_body: Buffer.from([0x22, 0xff, 0x22]) }, 'BINDING_MISMATCH'],
    ['no method', { method: '' }, 'METHOD_NOT_ALLOWED'],
    ['a method in small letters', { method: 'post' }, 'METHOD_NOT_ALLOWED'],
    [
      'a header that calls it a GET, where no body is sent',
      { raw_body: '', headers: { 'x-forwarded-method': 'GET' } },
      'METHOD_NOT_ALLOWED',
    ],
  ])('denies %s', async (_, http, code) => {
    const headers = { 'x-drs-bundle': mcpBundle(), ...(http as { headers?: object }).headers };
    expect(await callOnce(envoy, 'Check', question({ ...http, headers }))).toMatchObject({
      http_response: 'denied_response',
      status: { message: code },
    });
  });

  // What a client of Envoy's own definitions cannot write.
  it('reads a body of text byte by byte, and sees a key of a map twice', async () => {
    const bundle = Buffer.from(encode(liveCall(mcpChain, { tool: 'search', query: '\ufffd' })));
    const headers = [{ key: 'x-drs-bundle', value: bundle }];
    const body = Buffer.from(toolCall({ arguments: { query: '@' } }));
    body[body.indexOf('@')] = 0xff;
    const ask = (http: object, contextExtensions: object[] = []) =>
      send(framed(writeMessage('CheckRequest', { attributes: { request: { http }, contextExtensions } })));
    expect((await ask({ method: 'POST', path: '/mcp', headers, body })).text).toContain('BINDING_MISMATCH');
    const twice = await ask({
      ...{ method: 'POST', path: '/mcp', headers: [...headers, ...headers], body: Buffer.from(toolCall()) },
    });
    expect(twice.text).toContain('MULTIPLE_BUNDLES');
    const protocols = ['mcp', 'http'].map((name) => ({ key: 'drs_protocol', value: Buffer.from(name) }));
    expect((await ask({ method: 'GET', path: '/' }, protocols)).text).toContain("see the gate's log");
  });

  it('denies what a gateway without a sensible configuration asks, and says so in the log', async () => {
    for (const asked of [question({}, { drs_protocol: 'chain' }), question({}, { drs_protocol: '' }), {}]) {
      expect(await callOnce(envoy, 'Check', asked)).toMatchObject({
        http_response: 'denied_response',
        denied_response: { status: { code: 'ServiceUnavailable' } },
      });
    }
    // It logs one such question in ten seconds, and others may have come before.
    await eventually(async () => {
      await callOnce(envoy, 'Check', question({}, { drs_protocol: 'chain' }));
      expect(service.log).toContainEqual(
        expect.objectContaining({ level: 50, msg: expect.stringContaining('drs_protocol') as string }),
      );
    });
  });

  it('is checked as GRPC_PROTOCOL if the gateway names no protocol', async () => {
    const other = await startServiceHere({ GRPC_PORT: '0', GRPC_PROTOCOL: 'http', RATE_LIMIT_PER_IP: '2' });
    const client = clientOf(AUTHORIZATION, grpcPortOf(other));
    const list = question({
      raw_body: Buffer.from('{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
      headers: {},
    });
    try {
      expect(await callOnce(client, 'Check', list)).toMatchObject({
        denied_response: { status: { code: 'Unauthorized' } },
      });
      expect(await callOnce(envoy, 'Check', list)).toMatchObject({ http_response: 'ok_response' });
      const many = await Promise.all(Array.from({ length: 200 }, () => callOnce(client, 'Check', list)));
      expect(many).toContainEqual(
        expect.objectContaining({
          status: expect.objectContaining({ code: 7, message: 'rate_limited' }) as unknown,
          denied_response: expect.objectContaining({ body: '{"error":"rate_limited"}' }) as unknown,
        }),
      );
    } finally {
      client.close();
      await other.stop();
    }
  });
});

describe('time', () => {
  it('computes no verdict that would come too late', async () => {
    const before = await metricsOf(service);
    // A client of the library does not even ask; this one does, and has no time.
    const bundle = mcpBundle();
    const late = framed(serializeCheck(question({ headers: { 'x-drs-bundle': bundle } })));
    expect(await send(late, { 'grpc-timeout': '1n' })).toMatchObject({
      status: String(status.DEADLINE_EXCEEDED),
    });
    const count = (text: string) => metricOf(text, 'drs_verify_verifications_total{result="valid"}');
    expect(count(await metricsOf(service))).toBe(count(before));
    // Nor has it used the invocation up.
    expect(await callOnce(envoy, 'Check', question({ headers: { 'x-drs-bundle': bundle } }))).toMatchObject({
      http_response: 'ok_response',
    });
  });

  it('gives a message REQUEST_TIMEOUT_SECS to come', async () => {
    const session = dial();
    for (const part of [Buffer.alloc(0), framed(Buffer.alloc(10), 0, 1000)]) {
      const { stream, over } = open(session);
      if (part.length > 0) stream.write(part);
      expect(await over).toMatchObject({ status: String(status.DEADLINE_EXCEEDED) });
    }
    await allGivenBack();
  });
});

describe('an answer', () => {
  it('may take longer than the message', async () => {
    const list = await ListServer.start();
    const asked = list.asked();
    let release = () => {};
    list.respond = (_, response) => (release = () => response.writeHead(500).end());
    const slow = await startServiceHere({ ...LIMITS, STATUS_LIST_BASE_URL: list.url, WORKER_THREADS: '0' });
    const client = clientOf(AUTHORIZATION, grpcPortOf(slow));
    try {
      await asked;
      const chain = liveChain(1, { drs_status_list_index: 7 });
      const bundle = encode(liveCall(chain, { tool: 'search', query: 'tea' }, { cmd: '/mcp/tools/call' }));
      const answer = callOnce(client, 'Check', question({ headers: { 'x-drs-bundle': bundle } }));
      answer.catch(() => {});
      await eventually(async () => expect(metricOf(await metricsOf(slow), 'drs_grpc_open_calls')).toBe(1));
      // Comes later, and has no message.
      const { over } = open(dial(grpcPortOf(slow)));
      expect(await over).toMatchObject({ status: String(status.DEADLINE_EXCEEDED) });
      release();
      expect(await answer).toMatchObject({ status: { message: 'REVOCATION_CHECK_FAILED' } });
    } finally {
      client.close();
      await slow.stop();
      await list.close();
    }
  });
});

describe('a message', () => {
  const MAX_BYTES = 1_048_576 + 65_536;
  const header = { key: '', value: null };
  const check = (http: object) => writeMessage('CheckRequest', { attributes: { request: { http } } });
  const refused = expect.stringContaining("see the gate's log") as string;

  it('is refused where it is larger than the largest body and its headers', async () => {
    const { stream, over } = open(dial());
    stream.write(framed(Buffer.alloc(10), 0, MAX_BYTES + 1));
    expect(await over).toMatchObject({ status: String(status.RESOURCE_EXHAUSTED) });
    await allGivenBack();
  });

  it('may be compressed, and is refused where it is unpacked to more', async () => {
    const call = serializeCheck(question());
    const gzip = { 'grpc-encoding': 'gzip' };
    expect((await send(framed(gzipSync(call), 1), gzip)).text).toContain('x-drs-agent');
    const bomb = framed(gzipSync(Buffer.alloc(64 * 1024 * 1024)), 1);
    expect(await send(bomb, gzip)).toMatchObject({ status: String(status.RESOURCE_EXHAUSTED) });
    expect(await send(framed(call, 1), { 'grpc-encoding': 'br' })).toMatchObject({
      status: String(status.UNIMPLEMENTED),
    });
    await allGivenBack();
  });

  it('is one, or none', async () => {
    const message = framed(serializeCheck(question()));
    for (const sent of [Buffer.concat([message, message]), Buffer.alloc(0)])
      expect(await send(sent)).toMatchObject({ status: String(status.UNIMPLEMENTED) });
    await allGivenBack();
  });

  // Half a million empty headers would take 0.1 s of the main thread, and other calls would wait for them.
  it.each([
    ['no protobuf', Buffer.from('GET / HTTP/1.1')],
    ['a length beyond the end', Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f])],
    ['groups without an end', Buffer.alloc(100_000, 0x0b)],
    ['messages nested without an end', Buffer.alloc(100_000, 0x0a)],
    ['more headers than a gateway sends', check({ headers: Array(5000).fill(header) })],
    ['more than 64 KiB besides the body', check({ path: 'x'.repeat(65_536), body: Buffer.alloc(1_000_000) })],
  ])('is denied where it is %s', async (_, bytes) => {
    expect(await send(framed(bytes))).toMatchObject({ status: '0', text: refused });
  });

  it('may have the largest body and 64 KiB of headers', async () => {
    const headers = [{ key: 'x-drs-bundle', value: Buffer.alloc(65_000, 'x') }];
    const message = check({ method: 'POST', path: '/mcp', headers, body: Buffer.alloc(1_048_576, ' ') });
    const { text } = await send(framed(message));
    expect(text).toContain('X-DRS-Code'.toLowerCase());
  });
});

describe('a connection', () => {
  it('has 100 streams', async () => {
    const session = dial();
    await once(session, 'remoteSettings');
    expect(session.remoteSettings.maxConcurrentStreams).toBe(100);
  });

  it('may have metadata of 64 KiB, and no more', async () => {
    const { over } = open(dial(), { 'x-huge': 'x'.repeat(100_000) });
    expect((await over).status).not.toBe('0');
    expect(await callOnce(envoy, 'Check', question())).toMatchObject({ http_response: 'ok_response' });
  });

  it('may be no HTTP/2 at all', async () => {
    const socket = connect(port, '127.0.0.1');
    sessions.push(socket);
    socket.on('error', () => {});
    socket.resume();
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'close');
    const session = dial();
    const { over } = open(session, { ':path': '/no.such/Method' });
    expect(await over).toMatchObject({ status: String(status.UNIMPLEMENTED) });
    const plain = open(session, { 'content-type': 'application/json' });
    expect((await plain.over).http).toBe(415);
  });

  it('outlasts the calls that its gateway cancels, with Node 24', async () => {
    const session = dial();
    const ended = new Promise<string>((resolve) => session.once('goaway', () => resolve('ended')));
    const message = framed(serializeCheck(question()));
    await once(session, 'remoteSettings');
    const seen = () => new Promise<string>((resolve) => session.ping(() => resolve('seen')));
    const cancelSome = async (): Promise<string> => {
      const calls = Array.from({ length: 50 }, () => session.request(CALL).on('error', () => {}));
      if ((await Promise.race([seen(), ended])) === 'ended') return 'ended';
      for (const stream of calls) stream.close(8);
      return Promise.race([seen(), ended]);
    };
    let rounds = 0;
    while (rounds < 40 && (await cancelSome()) === 'seen') rounds++;
    // An older one cannot be told: after 1,000, and then 33 a second.
    if (parseInt(process.versions.node, 10) < 24) {
      expect(await ended).toBe('ended');
      expect(rounds).toBeGreaterThanOrEqual(19);
    } else {
      const { stream, over } = open(session);
      stream.end(message);
      expect([rounds, (await over).status]).toEqual([40, '0']);
    }
    await allGivenBack();
  });

  it('leaves nothing behind where gateways go away', async () => {
    const session = dial();
    const message = framed(serializeCheck(question()));
    for (let round = 0; round < 200; round++) {
      const { stream, over } = open(session);
      over.catch(() => {});
      stream.write(message.subarray(0, (round * 37) % message.length));
      stream.close(8);
    }
    const dying = dial();
    for (let round = 0; round < 100; round++) {
      const { stream, over } = open(dying);
      over.catch(() => {});
      stream.end(message);
    }
    dying.destroy();
    await allGivenBack();
    expect(await callOnce(envoy, 'Check', question())).toMatchObject({ http_response: 'ok_response' });
  });
});

describe('health, and the end', () => {
  it('serves while the service is ready, and not from the signal to stop on', async () => {
    const leaving = await startService({ GRPC_PORT: '0', SHUTDOWN_DELAY_SECS: '2', WORKER_THREADS: '0' });
    const health = clientOf(HEALTH, grpcPortOf(leaving));
    const gate = clientOf(AUTHORIZATION, grpcPortOf(leaving));
    const check = (name: string) => callOnce(health, 'Check', { service: name });
    for (const name of ['', AUTHORIZATION]) expect(await check(name)).toEqual({ status: 'SERVING' });
    expect(await statusOf(check('another'))).toBe(status.NOT_FOUND);
    const ended = leaving.stop();
    await eventually(async () => expect(await check('')).toEqual({ status: 'NOT_SERVING' }));
    // All else is served meanwhile.
    expect(await callOnce(gate, 'Check', question())).toMatchObject({ http_response: 'ok_response' });
    expect(await ended).toBe(0);
    health.close();
    gate.close();
  });

  it('counts calls and decisions', async () => {
    const before = await metricsOf(service);
    for (let number = 0; number < 2; number++) await callOnce(envoy, 'Check', question());
    const { over } = open(dial());
    expect(await over).toMatchObject({ status: String(status.DEADLINE_EXCEEDED) });
    const { stream } = open(dial());
    stream.close(8);
    await eventually(async () => {
      const text = await metricsOf(service);
      const counted = (series: string) => metricOf(text, series) - metricOf(before, series);
      expect(counted('drs_grpc_calls_total{method="check",status="ok"}')).toBe(2);
      expect(counted('drs_grpc_calls_total{method="check",status="deadline_exceeded"}')).toBe(1);
      expect(counted('drs_grpc_call_duration_seconds_count{method="check"}')).toBe(4);
      expect(counted('drs_gate_decisions_total{protocol="mcp",decision="allow",code=""}')).toBe(2);
    });
    await allGivenBack();
  });

  // That it needs them only where it is on is tested in front-end-choice.test.ts.
  it.each(['@grpc/grpc-js', 'protobufjs'])('says that %s is not installed', async (name) => {
    const { code, stderr } = await runToExit({
      NODE_OPTIONS: `--import ${new URL('../support/hide-package.mjs', import.meta.url).href}`,
      HIDDEN_PACKAGE: name,
      GRPC_PORT: '0',
    });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /GRPC_PORT is set, but @grpc\/grpc-js or protobufjs is not installed; `npm install @grpc\/grpc-js@\S+ protobufjs@\S+` adds them/,
      ),
    ]);
  });

  it('says which port is taken', async () => {
    const { code, says } = await failureOf({ GRPC_PORT: String(port) });
    expect(code).toBe(1);
    expect(says).toContain(`cannot listen on 127.0.0.1:${port}`);
    expect(says).toContain('GRPC_PORT');
  });
});

/** What became of a stream. */
interface Over {
  readonly http: number | undefined;
  readonly status: string | undefined;
  readonly text: string;
}

function dial(to = port): ClientHttp2Session {
  const session = connectHttp2(`http://127.0.0.1:${to}`);
  session.on('error', () => {});
  sessions.push(session);
  return session;
}

/** Opens a call to the letter. */
function open(
  session: ClientHttp2Session,
  headers: Record<string, string> = {},
): { stream: ClientHttp2Stream; over: Promise<Over> } {
  const stream = session.request({ ...CALL, ...headers });
  const over = new Promise<Over>((resolve) => {
    let http: number | undefined;
    let code: string | undefined;
    let text = '';
    stream.on('error', () => {});
    stream.on('response', (got) => {
      http = got[':status'];
      code ??= got['grpc-status'] as string | undefined;
    });
    stream.on(
      'trailers',
      (got: Record<string, unknown>) => (code ??= got['grpc-status'] as string | undefined),
    );
    stream.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    // As gateways do: after the status, nothing more is sent.
    stream.on('end', () => stream.close());
    stream.on('close', () => resolve({ http, status: code, text }));
  });
  return { stream, over };
}

async function send(bytes: Buffer, headers: Record<string, string> = {}): Promise<Over> {
  const { stream, over } = open(dial(), headers);
  stream.end(bytes);
  return over;
}

/** No call is open, and no memory of one is counted. */
async function allGivenBack(): Promise<void> {
  await eventually(async () => {
    const text = await metricsOf(service);
    expect(metricOf(text, 'drs_grpc_open_calls')).toBe(0);
    expect(metricOf(text, 'drs_http_body_bytes')).toBe(0);
    expect(metricOf(text, 'drs_verify_pending')).toBe(0);
  });
}
