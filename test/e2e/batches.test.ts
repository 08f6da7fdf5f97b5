import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FRESH, invoke, makeBundle, makeChain } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { connectRaw } from '../support/raw-http.js';
import { hasProcess, metricOf, startService, type RunningService } from '../support/service.js';

const VERIFIED = 'drs_http_requests_total{endpoint="verify",status="200"}';
const NDJSON = { 'Content-Type': 'application/x-ndjson' };

let service: RunningService;
beforeAll(async () => {
  service = await startService({ ...FRESH, ...(hasProcess ? { DECISION_LOG: '-' } : {}) });
});
afterAll(() => service.stop());

const metrics = async () => (await fetch(`${service.url}/metrics`)).text();

/** The answers to the lines of a batch. */
async function ask(path: string, lines: readonly (string | Buffer)[], headers = {}): Promise<unknown[]> {
  const body = Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')]));
  const response = await service.post(path, body, { ...NDJSON, ...headers });
  const text = await response.text();
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  expect(text.endsWith('\n')).toBe(true);
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
}

/** What a line must be answered with: what a single request is. */
async function askAlone(path: string, line: string | Buffer): Promise<unknown> {
  const response = await service.post(path, Buffer.from(line));
  const answer = (await response.json()) as object;
  return response.status === 200 ? answer : { ...answer, status: response.status };
}

/** A request to `/v1/gate` about a call. */
function gateRequest(bundle: object): string {
  const carried = Buffer.from(JSON.stringify(bundle)).toString('base64url');
  const body = { estimated_cost_usd: 0.05, query: 'tea', tool: 'search' };
  return JSON.stringify({ protocol: 'http', path: '/call', headers: { 'X-DRS-Bundle': carried }, body });
}

describe(`batches over ${FRONT_END}`, () => {
  it('have the verdicts of single requests, and each line the status of its own', async () => {
    const chain = makeChain(2);
    const valid = JSON.stringify({ ...invoke(chain), body: { tool: 'other' }, details: true });
    const lines = [
      valid,
      'no JSON',
      '',
      '[]',
      `${valid} \r`,
      Buffer.from([0xff]),
      JSON.stringify(invoke(chain, { iat: 0 })),
      'x'.repeat(1024 * 1024 + 1),
      `[${'[],'.repeat(20_000)}[]]`,
      // One that is parsed in a turn of its own.
      JSON.stringify({ ...makeBundle(1), more: 'x'.repeat(70_000) }),
    ];
    const alone = await Promise.all(lines.map((line) => askAlone('/verify', line)));
    expect(await ask('/verify', lines)).toEqual(alone);
    expect(alone.map((answer) => (answer as { status?: number }).status ?? 200)).toEqual([
      ...[200, 400, 400, 200, 200, 400, 200, 413, 413, 200],
    ]);
  });

  it('are counted, logged and named by line', async () => {
    const series = (status: number) => `drs_http_requests_total{endpoint="verify",status="${status}"}`;
    const before = await metrics();
    const lines = [JSON.stringify(makeBundle(1)), '{', JSON.stringify(makeBundle(1)), '{}'];
    await ask('/verify', lines, { 'X-Request-Id': 'request-7' });
    const after = await metrics();
    const risen = (name: string) => metricOf(after, name) - metricOf(before, name);
    expect([risen(series(200)), risen(series(400))]).toEqual([3, 1]);
    expect(risen('drs_verify_verifications_total{result="valid"}')).toBe(2);
    expect(risen('drs_verify_rejections_total{reason="malformed"}')).toBe(1);
    if (!hasProcess) return;
    const ids = () =>
      service.log.flatMap(({ requestId: id, valid }) =>
        valid !== undefined && String(id).startsWith('request-7') ? [id] : [],
      );
    await eventually(() => expect(ids().toSorted()).toEqual(['request-7-1', 'request-7-3', 'request-7-4']));
  });

  it('have the decisions of single questions to /v1/gate, where a call counts once', async () => {
    const chain = makeChain(1);
    const used = gateRequest(invoke(chain, { jti: 'inv:used' }));
    const other = gateRequest(invoke(chain, { jti: 'inv:other' }));
    const alone = await askAlone('/v1/gate', used);
    const [first, wrong, ...repeated] = await ask('/v1/gate', [other, '{"protocol":"x"}', other, used]);
    expect(alone).toMatchObject({ allow: true, gated: true, status: 200 });
    expect(first).toMatchObject({ allow: true, gated: true, status: 200 });
    expect(wrong).toEqual({ error: 'UNKNOWN_PROTOCOL', detail: expect.anything() as unknown, status: 400 });
    const denials = [await askAlone('/v1/gate', other), await askAlone('/v1/gate', used)];
    expect(denials).toMatchObject([{ allow: false }, { allow: false }]);
    expect(repeated).toEqual(denials);
  });

  it('are sent as the client takes them, and count until then; the connection stays', async () => {
    const policy = { note: 'x'.repeat(700_000) };
    const line = JSON.stringify(invoke(makeChain(1, { 0: { policy } })));
    const body = `${line}\n`.repeat(15);
    const head = `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: ${body.length}\r\n\r\n`;
    const held = async () => metricOf(await metrics(), 'drs_http_body_bytes');
    const before = metricOf(await metrics(), VERIFIED);
    const { socket, received } = await connectRaw(service.port);
    socket.pause();
    socket.write(head + body);
    // All lines are judged, and the request is answered. More than the kernel takes waits for the client.
    await eventually(async () => {
      const text = await metrics();
      expect(metricOf(text, VERIFIED) - before).toBe(15);
      expect(metricOf(text, 'drs_http_open_requests')).toBe(2);
    });
    expect(await held()).toBeGreaterThan(body.length);
    socket.resume();
    await eventually(async () => expect(await held()).toBe(0));
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await eventually(() => expect(received().slice(-200)).toContain('"status":"ok"'));
    expect(received().match(/^\{"valid":true/gm)).toHaveLength(15);
    socket.destroy();
  });
});
