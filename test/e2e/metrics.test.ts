import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FRESH, invoke, makeBundle, makeChain } from '../support/chain.js';
import { needs } from '../support/programs.js';
import { startService } from '../support/service-in-process.js';
import { metricOf, type RunningService } from '../support/service.js';
import { ListServer } from '../revocation/list-server.js';
import { credentialWith, LIST_ID } from '../revocation/lists.js';

const TOKEN = 'a-token-of-16-letters';
const scrape = async ({ url }: RunningService) => (await fetch(`${url}/metrics`)).text();

describe('the metrics', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({
      ...FRESH,
      DRS_ADMIN_TOKEN: TOKEN,
      REPLAY_PROTECTION: 'memory',
      WORKER_THREADS: '1',
    });
  });
  afterAll(() => service.stop());

  it('count answers by endpoint and status', async () => {
    const before = await scrape(service);
    await service.post('/verify', makeBundle(1));
    await service.post('/verify', 'no JSON');
    await service.post('/nothing', '');
    await service.post('/admin/revoke', '{}');
    const text = await scrape(service);
    const counted = (series: string) => metricOf(text, series) - metricOf(before, series);
    expect(counted('drs_http_requests_total{endpoint="verify",status="200"}')).toBe(1);
    expect(counted('drs_http_requests_total{endpoint="verify",status="400"}')).toBe(1);
    expect(counted('drs_http_requests_total{endpoint="other",status="404"}')).toBe(1);
    expect(counted('drs_http_requests_total{endpoint="revoke",status="401"}')).toBe(1);
  });

  it('count clients that go away', async () => {
    const socket = net.connect(service.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write('POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{');
    await eventually(async () => expect(metricOf(await scrape(service), 'drs_http_open_requests')).toBe(2));
    const before = metricOf(await scrape(service), 'drs_http_connections_total{listener="http"}');
    socket.destroy();
    await eventually(async () => {
      const text = await scrape(service);
      expect(metricOf(text, 'drs_http_requests_aborted_total{endpoint="verify"}')).toBe(1);
      expect(metricOf(text, 'drs_http_open_requests')).toBe(1);
    });
    expect(before).toBeGreaterThanOrEqual(2);
  });

  it('time verdicts by the number of receipts, and by whether they were known', async () => {
    const before = await scrape(service);
    for (const depth of [1, 2, 8, 9]) {
      const chain = makeChain(depth);
      for (let call = 0; call < 3; call++)
        await service.post('/verify', invoke(chain, { jti: `inv:${depth}-${call}` }));
      // Known receipts, and a refusal.
      await service.post('/verify', invoke(chain, { tool_server: 7 }));
      await service.post('/verify', invoke(chain, { cmd: '/other' }));
    }
    await service.post('/verify', { bundle_version: '4.0', receipts: [] });
    const text = await scrape(service);
    const risen = (depth: string, cache: string) => {
      const series = `drs_verify_duration_seconds_count{depth="${depth}",cache="${cache}"}`;
      return metricOf(text, series) - (before.includes(series) ? metricOf(before, series) : 0);
    };
    const found = ['1', '2-4', '5-8', '9+'].map((depth) => [
      depth,
      risen(depth, 'cold'),
      risen(depth, 'warm'),
    ]);
    expect(found).toEqual(['1', '2-4', '5-8', '9+'].map((depth) => [depth, 1, 3]));
    // Malformed invocations, and a bundle without receipts.
    expect(risen('unknown', 'cold')).toBe(5);
  });

  it('count what replay protection says', async () => {
    const bundle = makeBundle(1);
    const chain = makeChain(1);
    await service.post('/verify', bundle);
    await service.post('/verify', bundle);
    await service.post('/verify', invoke(chain, { iat: 1 }));
    const text = await scrape(service);
    expect(metricOf(text, 'drs_replay_checks_total{scope="verify",result="replayed"}')).toBe(1);
    expect(metricOf(text, 'drs_replay_checks_total{scope="verify",result="stale"}')).toBe(1);
    expect(metricOf(text, 'drs_replay_checks_total{scope="verify",result="unavailable"}')).toBe(0);
    const accepted = metricOf(text, 'drs_replay_checks_total{scope="verify",result="accepted"}');
    expect(accepted).toBeGreaterThanOrEqual(1);
    expect(metricOf(text, 'drs_replay_check_duration_seconds_count{scope="verify"}')).toBe(accepted + 2);
    expect(metricOf(text, 'drs_replay_entries{scope="verify"}')).toBe(accepted);
  });

  it('show the workers, their batches and how long both take', async () => {
    // The main thread verifies a few itself. The others go to the worker.
    await Promise.all(Array.from({ length: 40 }, () => service.post('/verify', makeBundle(8))));
    // A batch whose last checks the main thread took back returns after the answers.
    const [text, batches] = await eventually(async () => {
      const now = await scrape(service);
      const sent = metricOf(now, 'drs_signature_batches_total');
      expect(metricOf(now, 'drs_signature_batch_duration_seconds_count')).toBe(sent);
      return [now, sent] as const;
    });
    expect(metricOf(text, 'drs_signature_workers')).toBe(1);
    expect(batches).toBeGreaterThan(0);
    expect(metricOf(text, 'drs_signature_batch_checks_count')).toBe(batches);
    expect(metricOf(text, 'drs_signature_batch_duration_seconds_sum')).toBeGreaterThan(0);
    expect(metricOf(text, 'drs_signature_queue_duration_seconds_count')).toBeGreaterThan(0);
    expect(metricOf(text, 'drs_signature_worker_deaths_total')).toBe(0);
  });

  it('say what was built and how it is configured', async () => {
    const text = await scrape(service);
    expect(text).toMatch(
      /^drs_build_info\{version="\d+\.\d+\.\d+.*",commit="([0-9a-f]{40}(-dirty)?|unknown)",node="v\d+.*"\} 1$/m,
    );
    expect(text).toMatch(
      /^drs_config_info\{admin="on",gate_mode="enforce",replay_protection="memory",.*\} 1$/m,
    );
    expect(metricOf(text, 'drs_config_limit{variable="MAX_PENDING"}')).toBe(4096);
    expect(text).not.toContain(TOKEN);
  });

  it('are what promtool accepts, as far as they are ours', needs('promtool'), async () => {
    const child = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    child.stdin.end(await scrape(service));
    await once(child, 'close');
    expect(said).not.toMatch(/error/i);
    expect(said.split('\n').filter((line) => line.startsWith('drs_'))).toEqual([]);
  });
});

it('shows whether the status list can be fetched', async () => {
  const list = await ListServer.start();
  list.serve('application/json', JSON.stringify(credentialWith([])));
  const service = await startService({
    STATUS_LIST_BASE_URL: list.url,
    STATUS_LIST_ID: LIST_ID,
    STATUS_CACHE_TTL_SECS: '1',
  });
  const isUp = async () => metricOf(await scrape(service), 'drs_dependency_up{dependency="status_list"}');
  try {
    await eventually(async () => expect(await isUp()).toBe(1));
    await list.close();
    const revocable = invoke(makeChain(1, { 0: { drs_status_list_index: 7 } }));
    await eventually(async () => {
      await service.post('/verify', revocable);
      expect(await isUp()).toBe(0);
    });
  } finally {
    await service.stop();
  }
});
