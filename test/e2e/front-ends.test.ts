import { execFile, spawn, spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { firstLine } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { isInstalled } from '../support/needed-programs.mjs';
import { needs } from '../support/programs.js';
import { connectRaw, sendRaw } from '../support/raw-http.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

// The behaviour of the two front ends where they differ, or where only one of them could be wrong. The other HTTP
// suites also run over both.
let indices = 700;
const isNode = FRONT_END === 'node';
const run = promisify(execFile);
const post = (body: string, headers = '') =>
  `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`;

function canMakeNamespace(): boolean {
  const link = 'ip link set lo mtu 1500 gso_max_segs 1 up';
  return spawnSync('unshare', ['-rn', 'sh', '-c', link], { stdio: 'ignore' }).status === 0;
}

let service: RunningService;
beforeAll(async () => {
  service = await startService({
    MAX_BODY_BYTES: '65536',
    DRS_ADMIN_TOKEN: 's3cret-token',
  });
});
afterAll(async () => {
  expect(await service.stop()).toBe(0);
});
const openRequests = async () =>
  metricOf(await (await fetch(`${service.url}/metrics`)).text(), 'drs_http_open_requests');

describe(`what is no request, over ${FRONT_END}`, () => {
  const get = (headers: string) => `GET /healthz HTTP/1.1\r\n${headers}\r\n`;
  // Where uWebSockets.js says nothing, it closes the connection, at once or when it has waited for long enough.
  it.each<[what: string, request: string, status: number, says: RegExp, ofUws: number | null]>([
    ['no Host', get('X: x\r\n'), 400, /Host is missing/, 400],
    ['a length that is no number', post('{}', 'Content-Length: x\r\n'), 400, /Content-Length/, 400],
    ['a length and a coding', post('0\r\n\r\n', 'Transfer-Encoding: chunked\r\n'), 400, /not HTTP/, 400],
    ['headers of 70 KiB', get(`Host: x\r\nX: ${'x'.repeat(70 * 1024)}\r\n`), 431, /Header overflow/, null],
    ['101 headers', get('Host: x\r\n' + 'X: x\r\n'.repeat(100)), 431, /more than 100 headers/, null],
    ['a name with a space', get('Host: x\r\nX x: x\r\n'), 400, /not HTTP/, null],
    // What a gate reads as one header could be another one behind it.
    ['a name with _', get('Host: x\r\nSCRIPT_NAME: /a\r\n'), 400, /"SCRIPT_NAME" has other characters/, null],
    ['a name with a dot', get('Host: x\r\nX.y: x\r\n'), 400, /"X.y" has other characters/, null],
    ['a later version', 'GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n', 400, /not HTTP/, 505],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, /not HTTP/, 505],
    ['garbage', '\0\x01\x02\r\n\r\n', 400, /not HTTP/, null],
    ['TLS', '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n', 400, /not HTTP/, null],
  ])('is refused: %s', async (_, request, status, says, ofUws) => {
    if (!isNode && ofUws === null) return;
    const answer = await sendRaw(service.port, request);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${isNode ? status : ofUws} `));
    expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
    if (!isNode) return;
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    expect(head).toMatch(/\r\nContent-Type: application\/json\r\n/);
    expect(head).toMatch(/\r\nConnection: close$/);
    expect((JSON.parse(body) as { error: string }).error).toMatch(says);
  });

  it.each(['post', 'get', 'Head'])('is refused, or no call: the method %s', async (method) => {
    const head = `${method} /gate/mcp HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(service.port, head)).toMatch(isNode ? /^HTTP\/1\.1 400 / : /^HTTP\/1\.1 405 /);
  });

  it('is refused in a body, too, and the request is over', async () => {
    const answer = await sendRaw(
      service.port,
      'POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
    );
    if (isNode)
      expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n.*\{"error":"the request is not HTTP/s);
    await eventually(async () => expect(await openRequests()).toBe(1));
  });

  it('gets no answer that could be taken for that to a request before', async () => {
    const answer = await sendRaw(service.port, `${post(JSON.stringify(makeBundle(16)))}GARBAGE\r\n\r\n`);
    // uWebSockets.js answers at once, and closes: never a verdict.
    if (answer !== '') expect(answer).toMatch(isNode ? /^HTTP\/1\.1 200 / : /^HTTP\/1\.1 (200|400|505) /);
    await eventually(async () => expect(await openRequests()).toBe(1));
  });
});

describe(`HTTP, over ${FRONT_END}`, () => {
  it('asks for a body that waits to be asked for, also where it is too large', async () => {
    const body = JSON.stringify(makeBundle(2));
    for (const [sent, answer] of [
      [body, '"valid":true'],
      [body.padEnd(65_537), 'MAX_BODY_BYTES (65536)'],
    ] as const) {
      const { socket, until } = await connectRaw(service.port);
      socket.write(
        `POST /verify HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${sent.length}\r\n\r\n`,
      );
      await until('HTTP/1.1 100 Continue\r\n\r\n');
      socket.write(sent);
      await until(answer);
      socket.destroy();
    }
  });

  it('closes what pipelines more than a few requests before it reads answers', async () => {
    const { socket, closed } = await connectRaw(service.port);
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1000));
    expect(((await closed).match(/HTTP\/1\.1 200/g) ?? []).length).toBeLessThanOrEqual(16);
    await eventually(async () => expect(await openRequests()).toBe(1));
  });

  it('says once that it closes where the request asks for that, and else not at all', async () => {
    const asks = (method: string, path: string, connection: string) =>
      `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret-token\r\nContent-Length: 0\r\n${connection}\r\n`;
    for (const [method, path] of [
      ['GET', '/healthz'],
      ['HEAD', '/healthz'],
      ['POST', '/verify'],
      ['GET', '/unknown'],
      ['GET', '/openapi.json'],
      // In pieces.
      ['GET', '/admin/revocations'],
    ] as const) {
      const answer = await sendRaw(service.port, asks(method, path, 'Connection: Close\r\n'));
      expect([path, answer.match(/^connection: .*$/gim)]).toEqual([path, ['Connection: close']]);
      const kept = await connectRaw(service.port);
      kept.socket.write(asks(method, path, ''));
      expect(await kept.until('\r\n\r\n')).not.toMatch(/^connection: close/im);
      kept.socket.destroy();
    }
  });

  it.each([
    'GET http://x/healthz',
    'POST http://x/verify',
    'POST http://x/gate/http/a',
    'POST verify',
    'OPTIONS *',
  ])('refuses every target that does not begin with /: %s', async (line) => {
    const head = `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}`;
    // uWebSockets.js takes such a target for a version that it does not know. llhttp refuses some that are no URI.
    expect(await sendRaw(service.port, head)).toMatch(isNode ? /^HTTP\/1\.1 40[04] / : /^HTTP\/1\.1 505 /);
  });

  const REVOKE = (index: number, head: string) => {
    const body = JSON.stringify({ status_list_index: index });
    return `POST /admin/revoke HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret-token\r\nContent-Length: ${body.length}\r\n${head}\r\n${body}`;
  };
  const revoked = async () =>
    (
      await fetch(`${service.url}/admin/revocations`, { headers: { Authorization: 'Bearer s3cret-token' } })
    ).text();

  it.each([
    ['says close', (at: number) => REVOKE(at, 'Connection: close\r\n'), /^HTTP\/1\.1 200 /],
    [
      'says Close beside others',
      (at: number) => REVOKE(at, 'Connection: keep-alive, Close\r\n'),
      /^HTTP\/1\.1 200 /,
    ],
    [
      'says close in a second header',
      (at: number) => REVOKE(at, 'Connection: keep-alive\r\nConnection:\tclose\r\n'),
      /^HTTP\/1\.1 200 /,
    ],
    [
      'says close, and has no body',
      () => 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: a, close\r\n\r\n',
      /^HTTP\/1\.1 200 /,
    ],
    ['is HEAD', () => 'HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', /^HTTP\/1\.1 200 /],
    [
      'is unclear about its end',
      () => 'POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n',
      /^HTTP\/1\.1 400 /,
    ],
    [
      'has too large a body',
      () =>
        `POST /admin/revoke HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret-token\r\nContent-Length: 1025\r\n\r\n${' '.repeat(1025)}`,
      /^HTTP\/1\.1 413 /,
    ],
  ])('is the last of its connection, and carried out, where a request %s', async (_, request, status) => {
    const [own, next] = [++indices, ++indices];
    const answer = await sendRaw(service.port, request(own));
    expect(answer).toMatch(status);
    expect(answer.match(/^connection: .*$/gim)).toEqual(['Connection: close']);
    // What comes with it, and what comes when the answer may be on its way.
    const behind = `${request(own)}${REVOKE(next, '')}`;
    expect((await sendRaw(service.port, behind)).match(/HTTP\/1\.1 /g)?.length ?? 0).toBeLessThanOrEqual(1);
    await sendRaw(service.port, request(own), REVOKE(next, ''));
    const list = await revoked();
    if (request(own).includes(`:${own}}`)) expect(list).toContain(`"status_list_index":${own},`);
    expect(list).not.toContain(`"status_list_index":${next},`);
  });

  it('sends a list in pieces, with Connection: close at its head alone, where it is the last answer', async () => {
    const { socket, until } = await connectRaw(service.port);
    await fetch(`${service.url}/healthz`);
    await sendRaw(service.port, REVOKE(++indices, 'Connection: close\r\n'));
    socket.write(
      'GET /admin/revocations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret-token\r\nConnection: keep-alive, close\r\n\r\n',
    );
    const [head = '', pieces = ''] = (await until('\r\n0\r\n\r\n')).split(/\r\n\r\n(.*)/s);
    expect(head.match(/^connection: .*$/gim)).toEqual(['Connection: close']);
    expect(pieces).not.toMatch(/connection/i);
    socket.destroy();
  });

  it('reads header values as UTF-8', async () => {
    const text = 'POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xéx, chunked\r\n\r\n0\r\n\r\n';
    const { socket, until } = await connectRaw(service.port);
    socket.write(text);
    expect(Buffer.from(await until('"}'), 'latin1').toString()).toContain('is \\"xéx, chunked\\"');
    socket.destroy();
  });

  // V8 keeps this letter in one byte. Given a string of such letters, the binary of uWebSockets.js for Node 24 sends Latin-1.
  it.each([
    ['an answer', {}],
    ['an answer that closes', { Connection: 'close' }],
    ['an answer in pieces', { 'Content-Type': 'application/x-ndjson' }],
  ])('sends UTF-8: %s', async (_, headers) => {
    const { body } = await request(`${service.url}/verify`, {
      ...{ method: 'POST', headers: { 'Content-Type': 'application/json', ...headers } },
      body: JSON.stringify({ ...makeBundle(1), bundle_version: 'é' }),
    });
    expect(Buffer.from(await body.arrayBuffer()).toString()).toContain('é');
  });

  it('forgets a request whose client has ended its side', async () => {
    for (let round = 0; round < 20; round++) {
      const { socket, closed } = await connectRaw(service.port);
      socket.end(post(JSON.stringify(makeBundle(3))));
      expect(await closed).toMatch(/^$|^HTTP\/1\.1 200 /);
    }
    await eventually(async () => expect(await openRequests()).toBe(1));
  });

  it('closes connections on which nothing comes, after 8 s or more', async () => {
    const started = performance.now();
    const silent = await connectRaw(service.port);
    const half = await connectRaw(service.port);
    half.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nX-');
    const idle = await connectRaw(service.port);
    idle.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect(await silent.closed).toBe('');
    expect(await half.closed).toMatch(isNode ? /^HTTP\/1\.1 408 .*timeout/s : /^$/);
    expect(await idle.closed).toMatch(/^HTTP\/1\.1 200 OK.*"ok"\}$/s);
    expect(performance.now() - started).toBeGreaterThan(7000);
  });
});

describe(`a bundle in body and header, over ${FRONT_END}`, () => {
  const bundle = makeBundle(16);
  const body = JSON.stringify(bundle);
  const header = Buffer.from(JSON.stringify({ ...bundle, pad: 'x'.repeat(20_000) })).toString('base64url');

  const CURL = ['curl', '-sS', '-H', `X-DRS-Bundle: ${header}`, '--data-binary', body];
  const PYTHON = `
import http.client, sys
port, header, body = sys.argv[1:]
c = http.client.HTTPConnection('127.0.0.1', int(port))
c.request('POST', '/verify', body=body, headers={'X-DRS-Bundle': header})
print(c.getresponse().read().decode())
`;
  const UNDICI = `
const [url, header, body] = process.argv.slice(1);
const response = await fetch(url, { method: 'POST', body, headers: { 'X-DRS-Bundle': header } });
console.log(await response.text());
`;
  const clients = (port: number): [string, string[]][] => [
    ['curl', [...CURL, `http://127.0.0.1:${port}/verify`]],
    ['http.client', ['python3', '-c', PYTHON, String(port), header, body]],
    [
      'undici',
      [
        process.execPath,
        '--input-type=module',
        '-e',
        UNDICI,
        `http://127.0.0.1:${port}/verify`,
        header,
        body,
      ],
    ],
  ];
  const expectVerdicts = async (port: number, within: readonly string[] = []) => {
    for (const [client, command] of clients(port)) {
      const [program, ...args] = [...within, ...command] as [string, ...string[]];
      const { stdout } = await run(program, args);
      expect([client, stdout]).toEqual([client, expect.stringMatching(/^\{"valid":true/)]);
    }
  };

  it('is taken from curl, http.client and undici', needs('curl', 'python3'), async () => {
    expect(header.length).toBeGreaterThan(30_000);
    await expectVerdicts(service.port);
  });

  // Packets of a namespace of its own, where this process may make one.
  if (!isInstalled('ip') || canMakeNamespace()) {
    it('is taken over a link with an MTU of 1,500', needs('ip', 'curl', 'python3'), async () => {
      const script = `ip link set lo mtu 1500 gso_max_segs 1 up && echo up && exec sleep 600`;
      const namespace = spawn('unshare', ['-rn', 'sh', '-c', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      try {
        await firstLine(namespace.stdout);
        const within = ['nsenter', '-t', String(namespace.pid), '-U', '-n', '--preserve-credentials'];
        const inside = await startService({ WORKER_THREADS: '0' }, { within });
        try {
          await expectVerdicts(inside.port, within);
        } finally {
          await inside.stop();
        }
      } finally {
        namespace.kill();
      }
    });
  }

  it('is taken in segments of an Ethernet', async () => {
    const { socket, until } = await connectRaw(service.port);
    socket.setNoDelay(true);
    const text = post(body, `X-DRS-Bundle: ${header}\r\n`);
    for (let at = 0; at < text.length; at += 1448) {
      socket.write(text.slice(at, at + 1448));
      await sleep(1);
    }
    expect(await until('"valid":true')).toMatch(/^HTTP\/1\.1 200 /);
    socket.destroy();
  });
});
