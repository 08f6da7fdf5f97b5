import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { fewer } from '../support/front-end.js';
import { needs } from '../support/programs.js';
import { connectRaw, sendRaw, type RawConnection } from '../support/raw-http.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

const run = promisify(execFile);
const [ROUNDS = 0] = fewer([3], [1]);
const metricsOf = async (service: RunningService) => (await fetch(`${service.url}/metrics`)).text();
const errorOf = async (response: Response) => ((await response.json()) as { error: string }).error;

let service: RunningService;
/** Lets a body take longer than uWebSockets.js itself would wait. */
let patient: RunningService;
let slow: RawConnection;
beforeAll(async () => {
  [service, patient] = await Promise.all([
    startService({
      DRS_ADMIN_TOKEN: 'a-token-for-the-tests',
      MAX_BODY_BYTES: '65536',
      ALLOWED_ORIGINS: 'https://app.example, http://localhost:3000',
      // No connection here may end because of it.
      REQUEST_TIMEOUT_SECS: '600',
      WORKER_THREADS: '0',
    }),
    startService({ REQUEST_TIMEOUT_SECS: '15', WORKER_THREADS: '0' }),
  ]);
  // The last test sees how it ends.
  slow = await connectRaw(patient.port);
  slow.socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{');
});
afterAll(async () => {
  expect(await Promise.all([service.stop(), patient.stop()])).toEqual([0, 0]);
});

describe('a client that sends too much', () => {
  let folder: string;
  let file: string;
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-413-'));
    file = path.join(folder, 'body');
    writeFileSync(file, Buffer.alloc(3 * 1024 * 1024, 'x'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each([
    ['/verify', 2 * 1024 * 1024, /MAX_BODY_BYTES \(65536\)/],
    ['/admin/revoke', 1024 * 1024, /1024 bytes/],
  ])('can read the 413 of %s: 30 posts by fetch at a time', async (where, bytes, says) => {
    const body = new Uint8Array(bytes).fill(0x78);
    const headers = { Authorization: 'Bearer a-token-for-the-tests' };
    for (let round = 0; round < ROUNDS; round++) {
      const answers = await Promise.all(
        Array.from({ length: 30 }, async () => {
          const response = await fetch(service.url + where, { method: 'POST', headers, body });
          return [response.status, await errorOf(response)];
        }),
      );
      for (const answer of answers) expect(answer).toEqual([413, expect.stringMatching(says)]);
    }
  });

  it('can read the 413 where the length is not announced', async () => {
    for (let round = 0; round < 10; round++) {
      const body = new ReadableStream({
        start(controller) {
          for (let chunk = 0; chunk < 32; chunk++) controller.enqueue(Buffer.alloc(65_536, 'x'));
          controller.close();
        },
      });
      const response = await fetch(`${service.url}/verify`, { method: 'POST', body, duplex: 'half' });
      expect([response.status, await errorOf(response)]).toEqual([
        413,
        expect.stringContaining('MAX_BODY_BYTES'),
      ]);
    }
  });

  it('can read an answer that comes before its body: 401 (and 429), 404', async () => {
    const body = new Uint8Array(2 * 1024 * 1024).fill(0x78);
    const statusOf = async (where: string) =>
      (await fetch(service.url + where, { method: 'POST', body })).status;
    for (let round = 0; round < 15; round++) {
      // The first ten in a minute get a 401. Of later ones, one in six seconds gets it, the others a 429.
      expect(round < 10 ? [401] : [401, 429]).toContain(await statusOf('/admin/revoke'));
      expect(await statusOf('/nowhere')).toBe(404);
    }
  });

  it('can read the 413 with curl', needs('curl'), async () => {
    for (const extra of [[], ['-H', 'Expect:'], ['-H', 'Transfer-Encoding: chunked']]) {
      const { stdout } = await run('curl', [
        ...['-sS', '-w', ' %{http_code}', '--data-binary', `@${file}`, ...extra],
        `${service.url}/verify`,
      ]);
      expect(stdout).toMatch(/MAX_BODY_BYTES.* 413$/s);
    }
  });

  it("can read the 413 with Python's http.client", needs('python3'), async () => {
    const script = `
import http.client, sys
for _ in range(8):
    c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))
    c.request('POST', '/verify', body=b'x' * (3 << 20))
    r = c.getresponse()
    print(r.status, b'MAX_BODY_BYTES' in r.read())
`;
    const { stdout } = await run('python3', ['-c', script, String(service.port)]);
    expect(stdout).toBe('413 True\n'.repeat(8));
  });

  it('gets its answer at once where it announces more than 128 MiB, and its connection is closed though it never stops sending', async () => {
    const { socket, until, closed } = await connectRaw(service.port);
    socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n');
    const answer = await until('MAX_BODY_BYTES (65536), or');
    expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\nContent-Type: application\/json\r\n/);
    expect(answer).toMatch(/\r\nConnection: close\r\n/);
    const chunk = Buffer.alloc(65_536, 'x');
    const push = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('drain', push);
    push();
    await closed;
    expect(socket.bytesWritten).toBeLessThan(64 * 1024 * 1024);
  });

  it('is cut off after 128 MiB where it never stops sending and has announced no length', async () => {
    const { socket, closed } = await connectRaw(service.port);
    socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    const chunk = `100000\r\n${'x'.repeat(1024 * 1024)}\r\n`;
    const push = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('drain', push);
    push();
    await closed;
    expect(socket.bytesWritten).toBeGreaterThan(128 * 1024 * 1024);
    expect(socket.bytesWritten).toBeLessThan(256 * 1024 * 1024);
  });

  it('is let go at once where it ends its side in the middle of its body', async () => {
    const { socket } = await connectRaw(service.port);
    socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\nabc');
    socket.end();
    await eventually(() => expect(socket.closed).toBe(true));
  });

  it('keeps its connection where the refused body has come with the request', async () => {
    const { socket, until } = await connectRaw(service.port);
    socket.write('POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc');
    expect(await until('unknown path')).not.toMatch(/connection: close/i);
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await until('"ok"');
    socket.destroy();
  });
});

describe('a body that nobody asked for', () => {
  it.each(['GET', 'HEAD'])('with %s is thrown away, and the answer comes', async (method) => {
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      const { socket, until } = await connectRaw(service.port);
      socket.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc`);
      expect(await until('\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      socket.destroy();
    }
  });
});

describe('headers', () => {
  it('may come in pieces of any size, up to 64 KiB', async () => {
    const { socket, until } = await connectRaw(service.port);
    socket.setNoDelay(true);
    const body = JSON.stringify(makeBundle(2));
    const head =
      `POST /verify HTTP/1.1\r\nHost: x\r\nX-DRS-Bundle: ${'a'.repeat(60 * 1024)}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
    for (let at = 0; at < head.length; at += 1000) {
      socket.write(head.slice(at, at + 1000));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    socket.write(body);
    expect(await until('}')).toMatch(/^HTTP\/1\.1 200 OK.*"valid":true/s);
    socket.destroy();
  });

  it.each([
    [
      'two lengths',
      'Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc',
      /Content-Length comes more than once|Duplicate Content-Length/,
    ],
    [
      'two equal lengths',
      'Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}',
      /Content-Length comes more than once|Duplicate Content-Length/,
    ],
    [
      'another coding',
      'Transfer-Encoding: gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
      /Transfer-Encoding is \\"|invalid `Transfer-Encoding`/,
    ],
    ['two codings', 'Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n', /gzip, chunked/],
    [
      'two coding headers',
      'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
      // Node 26 refuses them itself, and does not say which.
      /chunked,chunked|Invalid `Transfer-Encoding`/,
    ],
  ])('leave no doubt where the body ends: %s', async (_, rest, says) => {
    const answer = await sendRaw(service.port, `POST /verify HTTP/1.1\r\nHost: x\r\n${rest}`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(answer).toMatch(says);
    // Only one answer: nothing after the first length was read as a request.
    expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
  });

  it('may say Transfer-Encoding: chunked', async () => {
    const body = JSON.stringify(makeBundle(1));
    const { socket, until } = await connectRaw(service.port);
    socket.write(
      `POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n` +
        `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    );
    expect(await until('}')).toMatch(/^HTTP\/1\.1 200 OK/);
    socket.destroy();
  });

  // fetch sends no Origin and no Sec-Fetch-Site of its own from Node, and would refuse to send these.
  const post = async (headers: string) => {
    const { socket, until } = await connectRaw(service.port);
    socket.write(`POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n${headers}\r\n{}`);
    const answer = await until('}');
    socket.destroy();
    return Number(answer.slice(9, 12));
  };

  it.each([
    ['Origin: https://evil.example\r\n', 403],
    ['Origin: null\r\n', 403],
    // Of a page whose own name was made to lead here.
    ['Origin: http://x\r\nSec-Fetch-Site: same-origin\r\n', 403],
    ['Origin: https://app.example.evil\r\n', 403],
    ['Origin: https://evil.example\r\nSec-Fetch-Site: same-origin\r\n', 403],
    ['Origin: https://app.example\r\n', 200],
    ['Origin: http://localhost:3000\r\nSec-Fetch-Site: cross-site\r\n', 200],
    ['Sec-Fetch-Site: cross-site\r\n', 403],
    ['Sec-Fetch-Site: same-site\r\n', 403],
    ['Sec-Fetch-Site: same-origin\r\n', 200],
    ['Sec-Fetch-Site: none\r\n', 200],
    ['', 200],
  ])('of web pages: %j gives %i', async (headers, status) => {
    expect(await post(headers)).toBe(status);
  });

  it('of web pages are refused everywhere', async () => {
    for (const target of ['/healthz', '/metrics', '/admin/revoke', '/v1/gate', '/nowhere']) {
      const { socket, until } = await connectRaw(service.port);
      socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n\r\n`);
      expect(await until('}')).toMatch(/^HTTP\/1\.1 403 Forbidden.*ALLOWED_ORIGINS/s);
      socket.destroy();
    }
  });
});

describe('a body that does not arrive', () => {
  const MAX_BODY = 65_536;
  let hasty: RunningService;
  beforeAll(async () => {
    hasty = await startServiceHere({ MAX_BODY_BYTES: String(MAX_BODY), REQUEST_TIMEOUT_SECS: '1' });
  });
  afterAll(() => hasty.stop());

  it('is answered 408 after REQUEST_TIMEOUT_SECS, and nothing of it is kept', async () => {
    const attempts = ['', '{"bundle_version":'].map(async (sent) => {
      const { socket, closed } = await connectRaw(hasty.port);
      socket.write(`POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${MAX_BODY}\r\n\r\n${sent}`);
      expect(await closed).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n.*REQUEST_TIMEOUT_SECS \(1\)"\}/s);
    });
    await Promise.all(attempts);
    const metrics = await metricsOf(hasty);
    expect(metricOf(metrics, 'drs_http_body_bytes')).toBe(0);
    expect(metricOf(metrics, 'drs_verify_rejections_total{reason="timeout"}')).toBe(2);
    expect((await hasty.post('/verify', makeBundle(1))).status).toBe(200);
  });

  it('is cut off after REQUEST_TIMEOUT_SECS where it is refused as too large', async () => {
    const { socket, closed } = await connectRaw(hasty.port);
    socket.write(`POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${MAX_BODY + 1}\r\n\r\nabc`);
    expect(await closed).toMatch(/^HTTP\/1\.1 413 /);
  });
});

describe('a service with low limits', () => {
  let limited: RunningService;
  beforeAll(async () => {
    limited = await startServiceHere({
      RATE_LIMIT_GLOBAL: '5',
      RATE_LIMIT_PER_IP: '5',
      MAX_PENDING: '1',
      MAX_BODY_BYTES: String(16 * 1024 * 1024),
      DRS_ADMIN_TOKEN: 'a-token-for-the-tests',
    });
  });
  afterAll(() => limited.stop());

  it('counts each class of endpoints by itself: unknown paths starve nobody', async () => {
    const unknown = await Promise.all(Array.from({ length: 40 }, () => fetch(`${limited.url}/x`)));
    expect(unknown.filter(({ status }) => status === 429).length).toBeGreaterThan(10);
    expect(unknown.filter(({ status }) => status === 404).length).toBeGreaterThan(0);
    const headers = { Authorization: 'Bearer a-token-for-the-tests' };
    const revoked = await limited.post('/admin/revoke', { status_list_index: 1 }, headers);
    expect(revoked.status).toBe(200);
    expect((await limited.post('/verify', makeBundle(1))).status).toBe(200);
  });
});

describe('a body that arrives slowly', () => {
  it('may take longer than uWebSockets.js itself would wait', async () => {
    expect(await slow.until('"}')).toMatch(/^HTTP\/1\.1 408 .*REQUEST_TIMEOUT_SECS \(15\)/s);
    slow.socket.destroy();
  });
});
