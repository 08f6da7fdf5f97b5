import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { invoke, makeBundle, makeChain, type TestBundle } from '../support/chain.js';
import { hasProcess, metricOf, startService, type RunningService } from '../support/service.js';

const TOKEN = 'the-admin-token-of-this-test';
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

const metricsUrlOf = ({ log }: RunningService) =>
  String(log.find(({ msg }) => msg === 'listening')?.['metricsUrl']);
const linesOf = ({ log }: RunningService, msg: string) => log.filter((line) => line['msg'] === msg);

function forged(bundle: TestBundle): TestBundle {
  const at = bundle.invocation.lastIndexOf('.') + 1;
  const first = bundle.invocation[at] === 'A' ? 'B' : 'A';
  return { ...bundle, invocation: bundle.invocation.slice(0, at) + first + bundle.invocation.slice(at + 1) };
}

describe('a refusal', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({
      ...{
        LOG_REFUSALS: 'all',
        DRS_ADMIN_TOKEN: TOKEN,
        LOG_LEVEL: 'trace',
        METRICS_ADDR: '127.0.0.1:0',
        WORKER_THREADS: '0',
      },
    });
  });
  afterAll(() => service.stop());

  it('is found by the id that the caller has sent', async () => {
    const chain = makeChain(2);
    const answer = await service.post('/verify', forged(invoke(chain)), {
      'X-Request-Id': 'caller/42',
      traceparent: `00-${TRACE}-${PARENT}-01`,
    });
    expect(answer.headers.get('x-request-id')).toBe('caller/42');
    await eventually(() =>
      expect(linesOf(service, 'refused')).toContainEqual(
        expect.objectContaining({
          level: 30,
          block: 'C',
          code: 'INVALID_INVOCATION_SIGNATURE',
          requestId: 'caller/42',
          traceId: TRACE,
          rootPrincipal: chain.parties[0]?.did,
          agent: chain.parties[2]?.did,
          jti: 'inv:0b1c2d3e',
          tool: 'search',
        }),
      ),
    );
  });

  it('is found by the id that it was given, where the caller has sent none', async () => {
    const answer = await service.post('/verify', forged(makeBundle(1)));
    const id = answer.headers.get('x-request-id');
    expect(id).toMatch(/^[\da-f]{12}-\w+$/);
    await eventually(() =>
      expect(linesOf(service, 'refused')).toContainEqual(expect.objectContaining({ requestId: id })),
    );
  });

  it.each([
    ['white space', 'a b'],
    ['too long', 'x'.repeat(129)],
    ['made to break a log', '{"level":60}'],
  ])('does not take over an id that is %s', async (_, id) => {
    const answer = await service.post('/verify', forged(makeBundle(1)), {
      'X-Request-Id': id,
    });
    expect(answer.headers.get('x-request-id')).toMatch(/^[\da-f]{12}-\w+$/);
  });

  it('leaves answers that need no id as they are', async () => {
    expect((await service.post('/verify', makeBundle(1))).headers.has('x-request-id')).toBe(false);
    const valid = await service.post('/verify', makeBundle(1), { 'X-Request-Id': 'mine' });
    expect(valid.headers.get('x-request-id')).toBe('mine');
    const health = await fetch(`${service.url}/healthz`, { headers: { 'X-Request-Id': 'h-1' } });
    expect(health.headers.get('x-request-id')).toBe('h-1');
  });

  it('carries the id also where the client is still sending', async () => {
    const answer = await service.post('/verify', 'x'.repeat(1_100_000), { 'X-Request-Id': 'large' });
    expect([answer.status, answer.headers.get('x-request-id')]).toEqual([413, 'large']);
  });

  it('tells nothing of what is secret, whatever is refused', async () => {
    const secret = 'pl4nted-s3cret';
    const chain = makeChain(2);
    const secretArgs = { args: { tool: 'search', query: secret, nested: { api_key: secret } } };
    const planted = invoke(chain, secretArgs);
    const signatures = [planted.invocation, ...planted.receipts].map((jwt) => jwt.split('.')[2] as string);
    const bodies = [
      forged(planted),
      { ...planted, invocation: planted.invocation.replace('.', `.${secret}`) },
      { ...planted, receipts: [...planted.receipts].reverse() },
      { ...planted, bundle_version: secret },
      { ...planted, receipts: [secret] },
      invoke(chain, { args: { tool: 'delete', query: secret } }),
      invoke(chain, { args: { tool: { secret }, query: secret } }),
      { ...planted, body: { query: secret } },
      `{"bundle_version":"${secret}`,
    ];
    for (const body of bodies)
      await service.post('/verify', body, {
        Authorization: `Bearer ${secret}`,
        Cookie: secret,
        'X-DRS-Bundle': secret,
      });
    for (const token of [TOKEN, secret])
      await service.post('/admin/revoke', `{"status_list_index":"${secret}"}`, {
        Authorization: `Bearer ${token}`,
      });
    await service.post('/verify', forged(makeBundle(1)), { 'X-Request-Id': 'the-last' });
    await eventually(() =>
      expect(linesOf(service, 'refused')).toContainEqual(expect.objectContaining({ requestId: 'the-last' })),
    );
    const text = JSON.stringify(service.log);
    expect(text).not.toContain(secret);
    expect(text).not.toContain(TOKEN);
    for (const signature of signatures) expect(text).not.toContain(signature.slice(0, 12));
    expect(text).not.toContain(planted.invocation.slice(0, 100));
  });

  it('cuts what a caller can make long, and shows no control characters', async () => {
    const chain = makeChain(1);
    const tool = `\u001b[2J\u202e${'x'.repeat(5000)}`;
    await service.post('/verify', invoke(chain, { args: { tool } }), { 'X-Request-Id': 'long' });
    await eventually(() => {
      const line = service.log.find(({ requestId, msg }) => requestId === 'long' && msg === 'refused');
      expect(line?.['tool']).toMatch(/^\?\[2J\?x{195,}…$/);
      expect(String(line?.['tool']).length).toBeLessThan(210);
    });
  });

  it('of an admin call is where it was, though metrics have an address of their own', async () => {
    expect((await service.post('/admin/revoke', '{}')).status).toBe(401);
  });
});

describe(
  'a service that samples its refusals, writes decisions between them, and has an SDK for traces',
  { shuffle: false },
  () => {
    let service: RunningService;
    beforeAll(async () => {
      service = await startService({
        ...{ DRS_ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'debug' },
        // In mutation runs, standard output is that of the tests.
        ...(hasProcess ? { DECISION_LOG: '-' } : {}),
        NODE_OPTIONS: `--import ${new URL('../support/register-tracing.mjs', import.meta.url).href}`,
      });
    });
    afterAll(() => service.stop());

    // First, since it counts what was refused.
    it('tells how many were left out', async () => {
      const bundle = JSON.stringify(forged(makeBundle(1)));
      const count = 100;
      await Promise.all(Array.from({ length: count }, () => service.post('/verify', bundle)));
      await eventually(() => {
        const leftOut = linesOf(service, 'refused: as many more, left out of the log');
        const logged = linesOf(service, 'refused').length;
        expect(leftOut.length).toBeGreaterThan(0);
        expect(logged + leftOut.reduce((sum, line) => sum + Number(line['leftOut']), 0)).toBe(count);
        expect(logged).toBeGreaterThanOrEqual(10);
      });
    });

    it('logs each admin call with outcome and address, and limits those without the token', async () => {
      const revoke = (token: string, body: unknown = { status_list_index: 7, reason: 'key lost' }) =>
        service.post('/admin/revoke', body as object, {
          Authorization: `Bearer ${token}`,
          'X-Request-Id': 'admin-1',
        });
      expect((await revoke(TOKEN)).status).toBe(200);
      expect((await revoke(TOKEN, 'no JSON')).status).toBe(400);
      for (const reason of [7, 'x'.repeat(201)])
        expect((await revoke(TOKEN, { status_list_index: 8, reason })).status).toBe(400);
      const statuses = [];
      for (let attempt = 0; attempt < 12; attempt++) statuses.push((await revoke('guess')).status);
      expect(statuses.slice(0, 10)).toEqual(Array(10).fill(401));
      expect(statuses.at(-1)).toBe(429);
      // Guesses of others, even from the same address, do not delay a revocation.
      expect((await revoke(TOKEN)).status).toBe(200);
      await eventually(() => {
        const lines = linesOf(service, 'admin');
        const call = { address: '127.0.0.1', requestId: 'admin-1' };
        const token = createHash('sha256').update(TOKEN).digest('hex').slice(0, 8);
        const done = { outcome: 'done', statusListIndex: 7, reason: 'key lost', token };
        expect(lines[0]).toMatchObject({ ...call, ...done });
        expect(lines[1]).toMatchObject({ ...call, outcome: 'malformed', level: 40 });
        expect(lines[4]).toMatchObject({ ...call, outcome: 'unauthorized', level: 40 });
        expect(lines.filter(({ outcome }) => outcome === 'done')).toHaveLength(2);
      });
      const text = await (await fetch(`${service.url}/metrics`)).text();
      expect(metricOf(text, 'drs_admin_calls_total{outcome="done"}')).toBe(2);
      expect(metricOf(text, 'drs_admin_calls_total{outcome="unauthorized"}')).toBeGreaterThanOrEqual(10);
      expect(metricOf(text, 'drs_admin_calls_total{outcome="rate_limited"}')).toBeGreaterThanOrEqual(1);
    });

    it.runIf(hasProcess)('has a line for each verdict, between those of the log', async () => {
      const bundle = JSON.stringify(makeBundle(7));
      await Promise.all(Array.from({ length: 300 }, () => service.post('/verify', bundle)));
      const decided = (...verdicts: unknown[]) => service.log.filter(({ valid }) => verdicts.includes(valid));
      await eventually(() =>
        expect(decided(true).filter(({ delegates }) => (delegates as unknown[]).length === 7)).toHaveLength(
          300,
        ),
      );
      await eventually(async () => {
        const text = await (await fetch(`${service.url}/metrics`)).text();
        const written = metricOf(text, 'drs_decision_log_lines_total{outcome="written"}');
        expect(written).toBe(decided(true, false).length);
        expect(metricOf(text, 'drs_decision_log_lines_total{outcome="dropped"}')).toBe(0);
      });
    });

    it.runIf(hasProcess)('continues traces', async () => {
      await service.post('/verify', forged(makeBundle(1)), { traceparent: `00-${TRACE}-${PARENT}-01` });
      await service.post('/verify', makeBundle(1), { traceparent: `00-${'0'.repeat(32)}-${PARENT}-01` });
      await eventually(() => {
        const spans = linesOf(service, 'span');
        const [first, second] = spans.slice(spans.findIndex(({ traceId }) => traceId === TRACE));
        expect(first).toMatchObject({
          name: 'drs verify',
          traceId: TRACE,
          parent: PARENT,
          attributes: {
            'http.route': 'verify',
            'http.response.status_code': 200,
            'drs.code': 'INVALID_INVOCATION_SIGNATURE',
          },
        });
        // A trace id of zeros is not valid, so a new trace begins.
        expect(second?.['traceId']).toMatch(/[1-9a-f]/);
        expect(second).not.toHaveProperty('parent');
      });
    });
  },
);

describe(
  'a service with a file of decisions, no log of refusals, and an internal address',
  { shuffle: false },
  () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-decisions-'));
    const file = path.join(folder, 'decisions.jsonl');
    let service: RunningService;
    beforeAll(async () => {
      service = await startService({
        ...{ DECISION_LOG: file, LOG_REFUSALS: 'off', DRS_ADMIN_TOKEN: TOKEN },
        ...{ METRICS_ADDR: '127.0.0.1:0', ADMIN_ON_METRICS_ADDR: '1', WORKER_THREADS: '0' },
      });
    });
    afterAll(async () => {
      await service.stop();
      rmSync(folder, { recursive: true });
    });
    const read = (name: string) =>
      readFileSync(name, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    // By undici itself: docs/openapi.yaml describes the service on one address, where none of these is a 404.
    const statusOf = async (url: string, body?: string) => {
      const headers = { Authorization: `Bearer ${TOKEN}` };
      const answer = await request(url, body === undefined ? {} : { method: 'POST', headers, body });
      await answer.body.dump();
      return answer.statusCode;
    };
    const index = '{"status_list_index":7}';

    it('serves metrics, health and, if wanted, admin on an address of their own', async () => {
      const metricsUrl = metricsUrlOf(service);
      const internal = new URL(metricsUrl).origin;
      expect(internal).not.toBe(service.url);
      expect(await statusOf(metricsUrl)).toBe(200);
      expect(await statusOf(`${internal}/readyz`)).toBe(200);
      expect(await statusOf(`${internal}/admin/revoke`, index)).toBe(200);
      expect(await statusOf(`${internal}/verify`, '{}')).toBe(404);
      expect(await statusOf(`${service.url}/metrics`)).toBe(404);
      expect(await statusOf(`${service.url}/readyz`)).toBe(200);
      expect(await statusOf(`${service.url}/admin/revoke`, index)).toBe(404);
    });

    it.runIf(hasProcess)('has a line for each verdict', async () => {
      await service.post('/verify', makeBundle(2), { 'X-Request-Id': 'd-1' });
      await service.post('/verify', forged(makeBundle(1)), { traceparent: `00-${TRACE}-${PARENT}-01` });
      await eventually(() =>
        expect(read(file)).toMatchObject([
          { requestId: 'd-1', valid: true, instance: `${hostname()}/${service.child.pid}` },
          { valid: false, block: 'C', code: 'INVALID_INVOCATION_SIGNATURE', traceId: TRACE },
        ]),
      );
      const time = String(read(file)[0]?.['time']);
      expect(new Date(time).toISOString()).toBe(time);
      expect(Math.abs(Date.now() - Date.parse(time))).toBeLessThan(120_000);
      expect(statSync(file).mode & 0o7777 & 0o027).toBe(0);
    });

    it('logs no refusal', async () => {
      // An admin call is logged behind what was refused before.
      expect(await statusOf(`${new URL(metricsUrlOf(service)).origin}/admin/revoke`, 'no JSON')).toBe(400);
      await eventually(() =>
        expect(linesOf(service, 'admin').map(({ outcome }) => outcome)).toContain('malformed'),
      );
      expect(linesOf(service, 'refused')).toEqual([]);
    });

    it.runIf(hasProcess)(
      'goes on in a new file after SIGHUP, which is whole when the service stops',
      async () => {
        renameSync(file, `${file}.1`);
        service.child.kill('SIGHUP');
        // The file is there a moment before lines go to it.
        await eventually(() =>
          expect(service.log.map(({ msg }) => String(msg)).join('\n')).toContain(
            'the decision log was reopened',
          ),
        );
        expect(statSync(file).size).toBe(0);
        for (let request = 0; request < 50; request++) await service.post('/verify', makeBundle(1));
        expect(await service.stop()).toBe(0);
        expect(read(file)).toHaveLength(50);
        expect(read(`${file}.1`)).toHaveLength(2);
        expect(linesOf(service, 'refused')).toEqual([]);
      },
    );
  },
);

it.runIf(hasProcess && process.platform === 'linux')(
  'a full disk costs lines of the decision log, which are counted, and nothing else',
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-full-'));
    const file = path.join(folder, 'decisions.jsonl');
    // A limit of 1,024 bytes for files does what a full disk does: a write is cut, the next one fails.
    const within = ['bash', '-c', 'ulimit -f 1; exec "$0" "$@"'];
    const service = await startService({ DECISION_LOG: file, WORKER_THREADS: '0' }, { within });
    const counts = async () => {
      const text = await (await fetch(metricsUrlOf(service))).text();
      const of = (outcome: string) => metricOf(text, `drs_decision_log_lines_total{outcome="${outcome}"}`);
      return { written: of('written'), dropped: of('dropped') };
    };
    const verify = async () => expect((await service.post('/verify', makeBundle(1))).status).toBe(200);
    const complaints = () => linesOf(service, 'lines of the decision log were dropped');
    let asked = 0;
    for (; asked < 4; asked++) await verify();
    await eventually(async () => {
      const { written, dropped } = await counts();
      expect(written + dropped).toBe(asked);
      expect(dropped).toBeGreaterThan(0);
    });
    const cut = readFileSync(file, 'utf8');
    expect(cut).toHaveLength(1024);
    await eventually(() => expect(complaints()).toMatchObject([{ level: 50, path: file }]));
    const { written } = await counts();
    // As if somebody made room. It is tried again after a pause.
    truncateSync(file, 100);
    await eventually(async () => {
      await verify();
      expect((await counts()).written).toBeGreaterThan(written);
    }, 200);
    const lines = readFileSync(file, 'utf8').split('\n');
    expect(lines[0]).toBe(cut.slice(0, 100));
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({ valid: true });
    expect(await service.stop()).toBe(0);
    rmSync(folder, { recursive: true });
  },
);
