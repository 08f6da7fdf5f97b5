import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { invoke, makeBundle, makeChain, sha256 } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { connectRaw, sendRaw, type RawConnection } from '../support/raw-http.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { hasProcess, metricOf, startService, type RunningService } from '../support/service.js';

const json = (response: Response) => response.json() as Promise<Record<string, unknown>>;

/** Resolves when a connection has ended. A reset counts too: closing with unread data causes one. */
const ended = (socket: net.Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()));

/** A raw connection, to send bytes that no HTTP client sends. */
async function connect(
  port: number,
): Promise<{ socket: net.Socket; received: () => string; until: (text: string) => Promise<string> }> {
  const socket = net.connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString('latin1')));
  socket.on('error', () => undefined);
  return {
    socket,
    received: () => text,
    until: async (end) => {
      await expect.poll(() => text, { interval: 5 }).toContain(end);
      return text;
    },
  };
}

const kindsOf = (answers: string) =>
  [...answers.matchAll(/"chain_depth":(\d+)|"code":"(\w+)"/g)].map(([, depth, code]) => depth ?? code);

const request = (body: string, extra = '') =>
  `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${extra}\r\n${body}`;

describe('the HTTP interface', () => {
  let service: RunningService;
  beforeAll(async () => {
    // A client that is refused while it sends may go on for as long as REQUEST_TIMEOUT_SECS.
    service = await startService({
      ...{ DRS_ADMIN_TOKEN: 's3cret-token', MAX_BODY_BYTES: '65536', REQUEST_TIMEOUT_SECS: '5' },
    });
  });
  afterAll(() => service.stop());

  it('answers health and readiness, also to HEAD', async () => {
    const health = await fetch(`${service.url}/healthz`);
    expect([health.status, await json(health)]).toEqual([200, { status: 'ok' }]);
    const ready = await fetch(`${service.url}/readyz`);
    expect([ready.status, await json(ready)]).toEqual([200, { status: 'ready' }]);
    const head = await fetch(`${service.url}/healthz`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  it('answers HEAD also where the next request comes behind it', async () => {
    const request = (method: string, more = '') => `${method} /healthz HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
    const received = await sendRaw(service.port, request('HEAD') + request('GET', 'Connection: close\r\n'));
    expect(received.match(/^HTTP\/1\.1 200 OK\r\n/gm)).toHaveLength(2);
    expect(received.match(/^content-length: 15\r$/gim)).toHaveLength(2);
  });

  it.each(['/', '//verify', '/verify/', '/VERIFY', '/verify/x', '/admin', '/%76erify', '/inspect'])(
    'does not know %s',
    async (path) => {
      const { socket, until } = await connect(service.port);
      socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`);
      const answer = await until('}');
      expect(answer).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/);
      expect(answer).toMatch(/content-type: application\/json/i);
      expect(answer).toContain('{"error":"unknown path');
      socket.destroy();
    },
  );

  it.each([
    ['POST', '/verify'],
    ['POST', '/v1/gate'],
    ['POST', '/v1/refund'],
    ['POST', '/admin/revoke'],
    ['GET', '/admin/revocations'],
  ])('refuses a query that %s %s does not have', async (method, path) => {
    const headers = { Authorization: 'Bearer s3cret-token' };
    const ask = (query: string) => fetch(service.url + path + query, { method, headers });
    const refused = await ask('?dry_run=1');
    expect([refused.status, await json(refused)]).toEqual([
      400,
      { error: 'the request has a query, expected none' },
    ]);
    // A `?` with nothing behind it is none.
    expect(await (await ask('?')).text()).not.toContain('query');
  });

  it.each(['/healthz', '/readyz', '/metrics', '/openapi.json'])(
    'says the same at %s with a query',
    async (path) => {
      expect((await fetch(`${service.url}${path}?x=1`)).status).toBe(200);
    },
  );

  it.each([
    ['GET', '/verify', 'POST'],
    ['PUT', '/admin/revoke', 'POST'],
    ['POST', '/healthz', 'GET, HEAD'],
    ['DELETE', '/metrics', 'GET, HEAD'],
  ])('refuses %s %s', async (method, path, allow) => {
    const response = await fetch(service.url + path, { method });
    expect([response.status, response.headers.get('allow')]).toEqual([405, allow]);
    expect((await json(response))['error']).toContain(allow);
  });

  it.each([
    ['no JSON', 'hello', /Unexpected token/],
    ['nothing', '', /the body is empty, expected JSON/],
    ['half a document', '{"bundle_version":', /JSON/],
    ['a byte order mark', '\ufeff{}', /Unexpected token/],
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22]), /UTF-8/],
    ['a compressed body', gzipSync('{}'), /expected JSON .*not compressed/],
  ])('answers 400 to %s', async (_, body, says) => {
    const response = await service.post('/verify', body);
    expect(response.status).toBe(400);
    expect((await json(response))['error']).toMatch(says);
  });

  it('survives nesting that no stack holds', async () => {
    for (const text of [
      '['.repeat(12_000) + ']'.repeat(12_000),
      `{"a":`.repeat(6000) + '1' + '}'.repeat(6000),
    ]) {
      expect((await service.post('/verify', text)).status).toBe(200);
      const body = JSON.stringify({ ...makeBundle(1), body: 0 }).replace('"body":0', `"body":${text}`);
      expect(await json(await service.post('/verify', body))).toMatchObject({
        valid: true,
        binding: 'mismatch',
      });
      const version = JSON.stringify({ ...makeBundle(1), bundle_version: 0 }).replace(':0', `:${text}`);
      expect(await json(await service.post('/verify', version))).toMatchObject({
        valid: false,
        error: { code: 'MALFORMED_BUNDLE' },
      });
    }
  });

  // At once: the connections close after some time.
  describe.concurrent('a body that is too large', () => {
    it('is refused by its announced length, and its connection closes', async () => {
      const { socket, until } = await connect(service.port);
      const closed = ended(socket);
      socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n');
      expect(await until('}')).toMatch(/^HTTP\/1\.1 413 .*MAX_BODY_BYTES \(65536\)/s);
      await closed;
    });

    it('is refused in chunks as soon as it is too large, and its connection closes', async () => {
      const { socket, until } = await connect(service.port);
      const closed = ended(socket);
      socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
      const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
      for (let sent = 0; sent < 5; sent++) socket.write(chunk);
      expect(await until('}')).toMatch(/^HTTP\/1\.1 413 /);
      await closed;
    });
  });

  it('takes a body of exactly the limit', async () => {
    const bundle = { ...makeBundle(1), pad: '' };
    const pad = 'x'.repeat(65_536 - Buffer.byteLength(JSON.stringify(bundle)));
    expect(await json(await service.post('/verify', { ...bundle, pad }))).toMatchObject({ valid: true });
    expect((await service.post('/verify', { ...bundle, pad: `${pad}x` })).status).toBe(413);
  });

  it('reads a body in pieces of any size', async () => {
    const text = request(
      JSON.stringify({
        ...makeBundle(3),
        body: { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 },
        note: 'é',
      }),
    );
    const bytes = Buffer.from(text);
    const { socket, until } = await connect(service.port);
    socket.setNoDelay(true);
    for (let at = 0; at < bytes.length; at += 97) {
      socket.write(bytes.subarray(at, at + 97));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await until('"binding":"match"}')).toMatch(/^HTTP\/1\.1 200 OK/);
    socket.destroy();
  });

  it('answers pipelined requests in order, and never mixes them up', async () => {
    const bodies = [makeBundle(1), {}, makeBundle(2), []].map((bundle) => JSON.stringify(bundle));
    const expected = ['1', 'MALFORMED_BUNDLE', '2', 'MALFORMED_BUNDLE'];
    // The receipts are known by then, so that each request takes one signature.
    for (const body of bodies) await (await service.post('/verify', body)).text();
    const requests = bodies
      .map((body, at) => request(body, at === 3 ? 'Connection: close\r\n' : ''))
      .join('');
    let kinds: (string | undefined)[];
    do {
      kinds = kindsOf(await sendRaw(service.port, requests));
      expect(kinds).toEqual(expected.slice(0, kinds.length));
      // Where an answer was not ready at once, uWebSockets.js has closed the connection (docs/operations.md).
    } while (kinds.length < expected.length);
  });

  it.runIf(hasProcess)(
    'ends a connection rather than answering pipelined requests out of order',
    async () => {
      // uWebSockets.js closes a connection whose next request comes while an answer is pending (docs/operations.md).
      const { socket, received } = await connect(service.port);
      let isClosed = false;
      const closed = ended(socket).then(() => (isClosed = true));
      const bundles = Array.from({ length: 12 }, (_, index) => makeBundle(1 + (index % 8)));
      socket.write(bundles.map((bundle) => request(JSON.stringify(bundle))).join(''));
      // node:http answers all of them, and then waits for another.
      await expect
        .poll(() => isClosed || kindsOf(received()).length === bundles.length, { interval: 5 })
        .toBe(true);
      socket.destroy();
      await closed;
      const depths = bundles.map(({ receipts }) => String(receipts.length));
      const answered = kindsOf(received());
      expect(answered).toEqual(depths.slice(0, answered.length));
    },
  );

  it('survives clients that go away at any moment', async () => {
    const read = async (series: string) =>
      metricOf(await (await fetch(`${service.url}/metrics`)).text(), series);
    const connections = 'drs_http_connections_total{listener="http"}';
    const before = await read(connections);
    const text = request(JSON.stringify(makeBundle(8)));
    for (let round = 0; round < 60; round++) {
      const { socket } = await connect(service.port);
      socket.write(text.slice(0, round % 3 === 0 ? text.length : Math.floor((text.length * round) / 60)));
      if (round % 2 === 0) socket.resetAndDestroy();
      else socket.destroy();
    }
    expect(await json(await service.post('/verify', makeBundle(1)))).toMatchObject({ valid: true });
    // The last clients may still wait to be accepted, and their bytes may still be on their way.
    await expect.poll(() => read(connections)).toBeGreaterThanOrEqual(before + 60);
    await expect.poll(() => read('drs_http_open_requests')).toBe(1);
    await expect.poll(() => read('drs_verify_pending')).toBe(0);
  });

  const canStop = hasProcess && process.platform === 'linux';
  it.runIf(canStop)('checks nothing for clients who have gone before it has accepted them', async () => {
    const own = await startService({ FRONT_END: 'node', WORKER_THREADS: '0' });
    // On a busy machine, those behind the first eight may be refused instead.
    const read = async () => {
      const text = await (await fetch(`${own.url}/metrics`)).text();
      const gone = metricOf(text, 'drs_http_requests_aborted_total{endpoint="verify"}');
      const refused = metricOf(text, 'drs_http_requests_total{endpoint="verify",status="503"}');
      return {
        unserved: gone + refused,
        valid: metricOf(text, 'drs_verify_verifications_total{result="valid"}'),
      };
    };
    expect(await read()).toEqual({ unserved: 0, valid: 0 });
    own.child.kill('SIGSTOP');
    // Where it has waited for a processor, it does not stand still yet, and SIGCONT would take the signal back.
    await expect.poll(() => readFileSync(`/proc/${own.child.pid}/stat`, 'latin1')).toMatch(/\) T /);
    const text = request(JSON.stringify(makeBundle(1)));
    for (let client = 0; client < 20; client++) {
      const { socket } = await connect(own.port);
      // The kernel has both before the service looks.
      await new Promise((sent) => socket.end(text, () => sent(undefined)));
      socket.destroy();
    }
    own.child.kill('SIGCONT');
    await expect.poll(read).toEqual({ unserved: 20, valid: 0 });
    await own.stop();
  });

  it('tells Prometheus what happened, from 100 µs to 10 s', async () => {
    const series = [
      'drs_verify_verifications_total{result="valid"}',
      'drs_binding_checks_total{result="match"}',
      'drs_http_request_duration_seconds_count{endpoint="verify"}',
    ];
    const read = async () => {
      const text = await (await fetch(`${service.url}/metrics`)).text();
      return series.map((name) => metricOf(text, name));
    };
    const before = await read();
    const chain = makeChain(2);
    await (
      await service.post('/verify', {
        ...invoke(chain),
        body: { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 },
      })
    ).text();
    expect(await read()).toEqual(before.map((value) => value + 1));
    const response = await fetch(`${service.url}/metrics`);
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const text = await response.text();
    // The last ones are where the time of an overloaded service is.
    for (const bound of ['0.0001', '0.5', '1', '2.5', '5', '10'])
      expect(text).toContain(`drs_http_request_duration_seconds_bucket{le="${bound}",endpoint="verify"}`);
  });

  describe('POST /admin/revoke', () => {
    const revoke = (body: string | object, token: string | null = 'Bearer s3cret-token') =>
      service.post('/admin/revoke', body, token === null ? {} : { Authorization: token });

    it.each([
      null,
      'Bearer wrong',
      'Bearer s3cret-toke',
      'Bearer s3cret-token2',
      's3cret-token',
      'Basic s3cret-token',
      'Bearer',
    ])('refuses the authorization %j', async (token) => {
      const response = await revoke({ status_list_index: 1 }, token);
      expect([response.status, await json(response)]).toEqual([401, { error: 'unauthorized' }]);
    });

    it('checks the token before the body', async () => {
      expect((await revoke('x'.repeat(2000), null)).status).toBe(401);
      expect((await revoke('x'.repeat(2000))).status).toBe(413);
    });

    it.each([
      ...['', 'x', '[]', '{}', '{"status_list_index":"1"}'],
      '{"status_list_index":1,"status_list_index":2}',
      `{"receipt":"sha256:${'a'.repeat(64)}","exp":2}`,
      '{"did":"did:key:z1"}',
    ])('refuses the body %j', async (body) => {
      const response = await revoke(body);
      expect(response.status).toBe(400);
      expect((await json(response))['error']).toMatch(/body|status_list_index/);
    });

    it('revokes for the next verification', async () => {
      const bundle = invoke(makeChain(2, { 0: { drs_status_list_index: 4242 } }));
      expect(await json(await service.post('/verify', bundle))).toMatchObject({ valid: true });
      expect(await json(await revoke({ status_list_index: 4242 }, 'bearer s3cret-token'))).toEqual({
        revoked: true,
        status_list_index: 4242,
      });
      expect(await json(await service.post('/verify', bundle))).toMatchObject({
        valid: false,
        error: { code: 'RECEIPT_REVOKED' },
      });
    });

    it('revokes a receipt and a key, for chains that are in the cache, and tells callers nothing of why', async () => {
      const chain = makeChain(3);
      const bundle = () => invoke(chain, { jti: `inv:${Math.random()}` });
      const verdict = async () => json(await service.post('/verify', bundle()));
      for (let call = 0; call < 3; call++) expect(await verdict()).toMatchObject({ valid: true });
      expect((await revoke({ status_list_index: 4343 })).status).toBe(200);
      const receipt = sha256(chain.receipts[2] ?? '');
      const asked = { receipt, exp: 4_000_000_000, reason: 'wrong limit' };
      for (let call = 0; call < 2; call++) {
        const answer = await revoke(asked);
        expect([answer.status, await json(answer)]).toEqual([200, { revoked: true, receipt }]);
      }
      expect(await verdict()).toMatchObject({ error: { code: 'RECEIPT_REVOKED' } });
      const did = chain.parties[1]?.did;
      expect(await json(await revoke({ did, reason: 'laptop stolen' }))).toEqual({ revoked: true, did });
      const { error } = await verdict();
      expect(error).toMatchObject({ code: 'KEY_REVOKED' });
      expect(JSON.stringify(error)).not.toContain('stolen');

      const list = await fetch(`${service.url}/admin/revocations`, {
        headers: { Authorization: 'Bearer s3cret-token' },
      });
      expect([list.status, list.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
      const lines = (await list.text()).trimEnd().split('\n');
      const at = expect.stringMatching(/^20\d\d-.*Z$/) as string;
      // Behind what other tests have revoked.
      expect(lines.slice(-3).map((line) => JSON.parse(line) as object)).toEqual([
        { status_list_index: 4343, at },
        { ...asked, at },
        { did, reason: 'laptop stolen', at },
      ]);
      if (!hasProcess) return;
      await eventually(() => {
        const admin = service.log.filter(({ msg }) => msg === 'admin');
        expect(admin).toContainEqual(expect.objectContaining({ outcome: 'done', ...asked }));
        expect(admin).toContainEqual(
          expect.objectContaining({ outcome: 'done', did, reason: 'laptop stolen' }),
        );
        expect(admin.at(-1)).toMatchObject({ outcome: 'listed' });
      });
    });
  });

  it('lists revocations to nobody without the token', async () => {
    const list = (headers: Record<string, string>) => fetch(`${service.url}/admin/revocations`, { headers });
    expect((await list({})).status).toBe(401);
    expect((await list({ Authorization: 'Bearer wrong' })).status).toBe(401);
    const token = 'Authorization: Bearer s3cret-token\r\nConnection: close\r\n';
    const head = `HEAD /admin/revocations HTTP/1.1\r\nHost: x\r\n${token}\r\n`;
    // Nothing behind the headers.
    expect(await sendRaw(service.port, head)).toMatch(/^HTTP\/1\.1 200 OK\r\n(?:[^\r]+\r\n)+\r\n$/);
    const withBody = `GET /admin/revocations HTTP/1.1\r\nHost: x\r\n${token}Content-Length: 2\r\n\r\n{}`;
    expect(await sendRaw(service.port, withBody)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe.runIf(hasProcess)('a list that is longer than the network holds, and MAX_PENDING', () => {
  const COUNT = 40_000;
  let service: RunningService;
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-list-'));
  beforeAll(async () => {
    const file = path.join(folder, 'revoked.txt');
    const reason = 'x'.repeat(200);
    writeFileSync(
      file,
      Array.from({ length: COUNT }, (_, at) => `{"status_list_index":${at},"reason":"${reason}"}\n`).join(''),
    );
    service = await startService({
      DRS_ADMIN_TOKEN: 's3cret-token',
      REVOCATION_STORE_PATH: file,
      REVOCATION_MAX_ENTRIES: String(COUNT),
      MAX_PENDING: '2',
      RECEIPT_CACHE_BYTES: '0',
    });
  });
  afterAll(async () => {
    await service.stop();
    rmSync(folder, { recursive: true });
  });
  const ask =
    'GET /admin/revocations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret-token\r\nConnection: close\r\n\r\n';

  it('waits for a client that does not read, serves others meanwhile, and is whole', async () => {
    const clients = await Promise.all(Array.from({ length: 8 }, () => connectRaw(service.port)));
    for (const { socket } of clients) socket.pause().write(ask);
    const { socket, closed } = clients[0] as RawConnection;
    await eventually(() => expect(service.log.filter(({ outcome }) => outcome === 'listed')).toHaveLength(8));
    expect(await json(await service.post('/verify', makeBundle(2)))).toMatchObject({ valid: true });
    // Enough turns of the event loop to make all of eight lists, if nothing waited. (uWebSockets.js cuts off a client that reads
    // nothing for ten seconds; on a busy machine, more turns take as long, and so do these with `fetch`.)
    const other = await connectRaw(service.port);
    for (let turn = 0; turn < 400; turn++) {
      other.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(other.socket, 'data');
    }
    other.socket.destroy();
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metricOf(metrics, 'drs_http_open_requests')).toBeGreaterThanOrEqual(8);
    socket.resume();
    const text = await closed;
    expect(text.match(/\{"status_list_index":\d+,"reason":"x{200}"\}/g)).toHaveLength(COUNT);
    expect(text.trimEnd().endsWith('\r\n0')).toBe(true);
    // Those that go away without having read end nothing else.
    for (const client of clients) client.socket.destroy();
    expect(await json(await service.post('/verify', makeBundle(2)))).toMatchObject({ valid: true });
  });

  it('takes no more when it is full, and says what to do', async () => {
    const revoke = (index: number) =>
      service.post('/admin/revoke', { status_list_index: index }, { Authorization: 'Bearer s3cret-token' });
    const full = await revoke(COUNT);
    expect([full.status, await json(full)]).toEqual([
      503,
      {
        error:
          `the revocation could not be recorded and is not in force: the revocation store has ${COUNT} entries, as many as ` +
          'REVOCATION_MAX_ENTRIES allows; raise it, or revoke in the status list',
      },
    ]);
    await eventually(() =>
      expect(service.log.at(-1)).toMatchObject({ outcome: 'failed', statusListIndex: COUNT }),
    );
    const bundle = invoke(makeChain(2, { 0: { drs_status_list_index: COUNT } }));
    expect(await json(await service.post('/verify', bundle))).toMatchObject({ valid: true });
    // What it has is revoked, and may be said again.
    expect((await revoke(7)).status).toBe(200);
  });

  it('turns away what is more than MAX_PENDING, and stays healthy', async () => {
    const bundle = makeBundle(16);
    const answers: Response[] = [];
    const isRefused = ({ status }: Response) => status === 503;
    // Again if they came so slowly that each was answered before the next: on a single core, the sender has it, too.
    while (!answers.some(isRefused))
      answers.push(
        ...(await Promise.all(Array.from({ length: 100 }, () => service.post('/verify', bundle)))),
      );
    const refused = answers.filter(isRefused);
    for (const response of refused) {
      expect([response.headers.get('retry-after'), await json(response)]).toEqual([
        '1',
        { error: 'overloaded' },
      ]);
    }
    const checked = answers.filter(({ status }) => status === 200);
    expect(checked.length).toBe(answers.length - refused.length);
    expect(checked.length).toBeGreaterThan(0);
    for (const response of checked) expect(await json(response)).toMatchObject({ valid: true });
    for (const path of ['/healthz', '/readyz']) expect((await fetch(service.url + path)).status).toBe(200);
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metricOf(metrics, 'drs_verify_rejections_total{reason="overloaded"}')).toBe(refused.length);
  });
});

describe('limits', () => {
  describe('for each client', () => {
    let service: RunningService;
    beforeAll(async () => {
      service = await startServiceHere({ RATE_LIMIT_PER_IP: '5' });
    });
    afterAll(() => service.stop());

    it('limits it, and tells when to come again', async () => {
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => service.post('/verify', makeBundle(1))),
      );
      const refused = answers.filter(({ status }) => status === 429);
      expect(refused.length).toBeGreaterThan(10);
      expect(await json(refused[0] as Response)).toEqual({ error: 'rate_limited' });
      expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      for (const path of ['/healthz', '/readyz', '/metrics'])
        expect((await fetch(service.url + path)).status).toBe(200);
      await expect.poll(async () => (await service.post('/verify', makeBundle(1))).status).toBe(200);
    });

    // Counted apart from /verify.
    it('says that the admin endpoint is not configured', async () => {
      const response = await service.post('/admin/revoke', 'x'.repeat(2000), { Authorization: 'Bearer x' });
      expect(response.status).toBe(503);
      expect((await json(response))['error']).toMatch(/not configured.*DRS_ADMIN_TOKEN must be set/);
    });
  });
});
