import type { Client } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { metricOf, startService as startServiceHere } from '../support/service-in-process.js';
import { startService, type RunningService } from '../support/service.js';

const metricsOf = async ({ url }: RunningService) => (await fetch(`${url}/metrics`)).text();
const rejections = (text: string, endpoint: string, reason: string) =>
  metricOf(text, `drs_gate_rejections_total{endpoint="${endpoint}",reason="${reason}"}`);
const checksOf = (text: string, result: string) =>
  metricOf(text, `drs_replay_checks_total{scope="gate",result="${result}"}`);

const clients = new Map<RunningService, Client>();
afterAll(() => {
  for (const client of clients.values()) client.close();
});
/** The client of a service: all calls share its connection. */
function grpcClientOf(service: RunningService): Client {
  const client = clients.get(service) ?? clientOf(AUTHORIZATION, grpcPortOf(service));
  clients.set(service, client);
  return client;
}

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
    const client = grpcClientOf(service);
    const http = {
      method: 'POST',
      path: '/mcp',
      host: 'tools.example',
      protocol: 'HTTP/1.1',
      headers: { ':method': 'POST', 'x-drs-bundle': bundle },
      raw_body: Buffer.from(toolCall()),
    };
    const answer = await callOnce(client, 'Check', { attributes: { request: { http } } });
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

const ENDPOINTS = [
  ['/gate/mcp', 'gate'],
  ['/v1/gate', 'gate'],
  ['gRPC', 'grpc'],
] as const;

// In this order: the first test reads counters from 0 on.
describe('the metrics of the gate', { shuffle: false }, () => {
  let service: RunningService;
  beforeAll(async () => {
    // In a process of its own: in that of the callers, over node:http of Node 26, calls come one after the other.
    service = await startService({
      ...{ MAX_BODY_BYTES: '20000', GRPC_PORT: '0', MAX_PENDING: '2', RECEIPT_CACHE_BYTES: '0' },
    });
  });
  afterAll(() => service.stop());

  it('count what replay protection says, and how long it took', async () => {
    const bundle = mcpBundle();
    expect(await WAYS['/gate/mcp'](service, bundle)).toBe(200);
    expect(await WAYS['/v1/gate'](service, bundle)).toBe(409);
    const text = await metricsOf(service);
    expect(checksOf(text, 'accepted')).toBe(1);
    expect(checksOf(text, 'replayed')).toBe(1);
    expect(metricOf(text, 'drs_replay_check_duration_seconds_count{scope="gate"}')).toBe(2);
    expect(metricOf(text, 'drs_replay_entries{scope="gate"}')).toBe(1);
  });

  it('count what could not be read', async () => {
    expect((await service.post('/v1/gate', '{}')).status).toBe(400);
    expect((await service.post('/v1/gate', 'x'.repeat(20_001))).status).toBe(413);
    const large = await service.post('/gate/mcp', 'x'.repeat(20_001));
    expect([large.status, large.headers.get('connection')]).toEqual([413, 'close']);
    const text = await metricsOf(service);
    expect(rejections(text, 'gate', 'malformed')).toBe(1);
    expect(rejections(text, 'gate', 'too_large')).toBe(2);
  });

  it.each(ENDPOINTS)('count what is refused by %s while it is overloaded', async (way, endpoint) => {
    const before = await metricsOf(service);
    const statuses: (number | undefined)[] = [];
    // A busy machine may deliver them so slowly that none is refused.
    do {
      const bundles = Array.from({ length: 40 }, () => mcpBundle());
      statuses.push(...(await Promise.all(bundles.map((bundle) => WAYS[way](service, bundle)))));
    } while (!statuses.includes(503));
    const refused = statuses.filter((status) => status === 503).length;
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    const after = await metricsOf(service);
    const grown = (valueOf: (text: string) => number) => valueOf(after) - valueOf(before);
    expect(grown((text) => rejections(text, endpoint, 'overloaded'))).toBe(refused);
    expect(grown((text) => checksOf(text, 'accepted'))).toBe(statuses.length - refused);
  });
});

describe('where a rate limit is exceeded', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startServiceHere({ GRPC_PORT: '0', RATE_LIMIT_GLOBAL: '1' });
  });
  afterAll(() => service.stop());

  it.each(ENDPOINTS)('what %s refuses is counted', async (way, endpoint) => {
    const before = rejections(await metricsOf(service), endpoint, 'rate_limited');
    const bundles = Array.from({ length: 20 }, () => mcpBundle());
    const statuses = await Promise.all(bundles.map((bundle) => WAYS[way](service, bundle)));
    const limited = statuses.filter((status) => status === 429).length;
    expect(limited).toBeGreaterThan(0);
    expect(rejections(await metricsOf(service), endpoint, 'rate_limited')).toBe(before + limited);
  });
});
