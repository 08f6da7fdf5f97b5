import { request } from 'undici';
import { expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startService } from '../support/service-in-process.js';
import type { RunningService } from '../support/service.js';

const TOKEN = 'the-admin-token-of-this-test';

/** The statuses of calls, each with these headers about its origin. */
async function statusesOf(service: RunningService, path: string, headers: readonly (readonly string[])[]) {
  const statuses = [];
  for (const forwarded of headers) {
    const { statusCode, body } = await request(service.url + path, {
      method: 'POST',
      headers: [
        ...forwarded.flatMap((value) => ['X-Forwarded-For', value]),
        ...['Authorization', 'Bearer guess', 'Forwarded', 'for=203.0.113.99'],
      ],
      body: '{}',
    });
    await body.dump();
    statuses.push(statusCode);
  }
  return statuses;
}
const addressesIn = ({ log }: RunningService) =>
  log.filter(({ msg }) => msg === 'admin').map(({ address }) => address);
const many = (times: number, headers: readonly string[]) => Array<readonly string[]>(times).fill(headers);

it('limits guesses of the admin token by the address that the trusted proxy has seen', async () => {
  const service = await startService({ TRUST_PROXY: '1', DRS_ADMIN_TOKEN: TOKEN, WORKER_THREADS: '0' });
  const guess = (headers: readonly (readonly string[])[]) => statusesOf(service, '/admin/revoke', headers);
  try {
    // One client that invents another address each time. The proxy replaces the header, or appends to it.
    const first = await guess(
      Array.from({ length: 11 }, (_, at) =>
        at % 2 ? [`192.0.2.${at}`, '198.51.100.7'] : [`192.0.2.${at}, 198.51.100.7`],
      ),
    );
    expect(first).toEqual([...Array<number>(10).fill(401), 429]);
    // Other clients are not limited. An IPv6 /64 is one client.
    expect(await guess([['198.51.100.8'], ...many(9, ['2001:db8::1'])])).toEqual(Array(10).fill(401));
    expect(await guess([['2001:db8::ffff:2'], ['[2001:db8::3]:443'], ['2001:db8:0:1::1']])).toEqual([
      401, 429, 401,
    ]);
    await eventually(() => {
      const addresses = addressesIn(service);
      expect(addresses.slice(0, 2)).toEqual(['198.51.100.7', '198.51.100.7']);
    });
  } finally {
    await service.stop();
  }
});

it('believes nobody by default, and nobody but the listed proxies', async () => {
  for (const env of [{}, { TRUST_PROXY: '10.0.0.0/8,unix' }] as Record<string, string>[]) {
    const service = await startService({ ...env, DRS_ADMIN_TOKEN: TOKEN, RATE_LIMIT_PER_IP: '3' });
    const spoofed = Array.from({ length: 12 }, (_, at) => [`192.0.2.${at}`]);
    expect(await statusesOf(service, '/verify', spoofed)).toContain(429);
    await statusesOf(service, '/admin/revoke', [['192.0.2.1"}'], ['x'.repeat(30_000)]]);
    await eventually(() => expect(addressesIn(service)).toEqual(['127.0.0.1', '127.0.0.1']));
    await service.stop();
  }
});

it('counts the clients of a listed proxy apart', async () => {
  const service = await startService({ TRUST_PROXY: '127.0.0.0/8', RATE_LIMIT_PER_IP: '3' });
  const clients = Array.from({ length: 12 }, (_, at) => [`192.0.2.${at}`]);
  expect(await statusesOf(service, '/verify', clients)).toEqual(Array(12).fill(200));
  const one = await statusesOf(service, '/verify', many(12, ['203.0.113.5, 192.0.2.77']));
  expect(one).toContain(429);
  await service.stop();
});
