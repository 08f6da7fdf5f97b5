import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

const metricsOf = async ({ url }: RunningService) => (await fetch(`${url}/metrics`)).text();
const rejections = (text: string, endpoint: string, reason: string) =>
  metricOf(text, `drs_gate_rejections_total{endpoint="${endpoint}",reason="${reason}"}`);

/** Asks the gate in each of its ways. Tells the status that the caller would get. */
const WAYS = {
  '/gate/mcp': async (service: RunningService, bundle: string) =>
    (await service.post('/gate/mcp', toolCall(), { 'X-DRS-Bundle': bundle })).status,
  '/v1/gate': async (service: RunningService, bundle: string) => {
    const asked = { protocol: 'mcp', headers: { 'X-DRS-Bundle': bundle }, body_text: toolCall() };
    const response = await service.post('/v1/gate', asked);
    const { status } = (await response.json()) as { status?: number };
    return status ?? response.status;
  },
  gRPC: async (service: RunningService, bundle: string) => {
    const client = clientOf(AUTHORIZATION, grpcPortOf(service));
    const http = {
      method: 'POST',
      path: '/mcp',
      host: 'tools.example',
      protocol: 'HTTP/1.1',
      headers: { ':method': 'POST', 'x-drs-bundle': bundle },
      raw_body: Buffer.from(toolCall()),
    };
    const answer = await callOnce(client, 'Check', { attributes: { request: { http } } });
    client.close();
    const { denied_response: denied } = answer as { denied_response?: { status: { code: string | number } } };
    return denied === undefined ? 200 : STATUSES[denied.status.code];
  },
};
/** The names of Envoy's `StatusCode`. */
const STATUSES: Readonly<Record<string, number>> = {
  Conflict: 409,
  TooManyRequests: 429,
  ServiceUnavailable: 503,
};

describe.each([
  ['/gate/mcp', 'gate'],
  ['/v1/gate', 'gate'],
  ['gRPC', 'grpc'],
] as const)('what the gate answers without a check, asked by %s', (way, endpoint) => {
  it('is counted where it is overloaded', async () => {
    const service = await startService({ GRPC_PORT: '0', MAX_PENDING: '2', RECEIPT_CACHE_BYTES: '0' });
    try {
      const bundles = Array.from({ length: 100 }, () => mcpBundle());
      const statuses = await Promise.all(bundles.map((bundle) => WAYS[way](service, bundle)));
      const refused = statuses.filter((status) => status === 503).length;
      expect(refused).toBeGreaterThan(0);
      expect(new Set(statuses)).toEqual(new Set([200, 503]));
      const text = await metricsOf(service);
      expect(rejections(text, endpoint, 'overloaded')).toBe(refused);
      expect(metricOf(text, 'drs_gate_nonce_checks_total{result="accepted"}')).toBe(100 - refused);
    } finally {
      await service.stop();
    }
  });

  it('is counted where a rate limit is exceeded', async () => {
    const service = await startService({ GRPC_PORT: '0', RATE_LIMIT_GLOBAL: '1' });
    try {
      const bundles = Array.from({ length: 20 }, () => mcpBundle());
      const statuses = await Promise.all(bundles.map((bundle) => WAYS[way](service, bundle)));
      const limited = statuses.filter((status) => status === 429).length;
      expect(limited).toBeGreaterThan(0);
      expect(rejections(await metricsOf(service), endpoint, 'rate_limited')).toBe(limited);
    } finally {
      await service.stop();
    }
  });
});

describe('the metrics of the gate', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({ MAX_BODY_BYTES: '20000', REQUEST_TIMEOUT_SECS: '1' });
  });
  afterAll(() => service.stop());

  it('count what replay protection says, and how long it took', async () => {
    const bundle = mcpBundle();
    expect(await WAYS['/gate/mcp'](service, bundle)).toBe(200);
    expect(await WAYS['/v1/gate'](service, bundle)).toBe(409);
    const text = await metricsOf(service);
    expect(metricOf(text, 'drs_gate_nonce_checks_total{result="accepted"}')).toBe(1);
    expect(metricOf(text, 'drs_gate_nonce_checks_total{result="replayed"}')).toBe(1);
    expect(metricOf(text, 'drs_gate_nonce_check_duration_seconds_count')).toBe(2);
    expect(metricOf(text, 'drs_gate_replay_entries')).toBe(1);
  });

  it('count what could not be read', async () => {
    expect((await service.post('/v1/gate', '{}')).status).toBe(400);
    expect((await service.post('/v1/gate', 'x'.repeat(20_001))).status).toBe(413);
    expect((await service.post('/gate/mcp', 'x'.repeat(20_001))).status).toBe(413);
    const text = await metricsOf(service);
    expect(rejections(text, 'gate', 'malformed')).toBe(1);
    expect(rejections(text, 'gate', 'too_large')).toBe(2);
  });
});
