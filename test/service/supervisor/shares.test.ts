import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { addressesOfAll, shareOut } from '../../../src/service/configuration/share-out.js';
import { mergeScrapes } from '../../../src/service/observe/metrics/process-metrics.js';
import { unusedPort } from '../../support/ports.mjs';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const machine = { cores: 16, memoryBytes: 64 * GIB };

describe('what each of several processes gets', () => {
  it('is its share of the quota, not of the cores of the host', () => {
    // Eight processes on 16 cores: 8 workers in all, not 120. With a quota of 4 cores: none.
    expect(shareOut({}, 8, machine)).toMatchObject({ WORKER_THREADS: '1' });
    expect(shareOut({}, 8, { ...machine, cores: 4 })).toMatchObject({
      WORKER_THREADS: '0',
      BUSY_POLL_MICROSECS: '0',
    });
    expect(shareOut({ WORKER_THREADS: '2' }, 8, machine)).not.toHaveProperty('WORKER_THREADS');
    expect(shareOut({ WORKER_THREADS: ' ' }, 8, machine)).toMatchObject({ WORKER_THREADS: '1' });
    // With two cores each, a process may poll.
    expect(shareOut({}, 8, machine)).not.toHaveProperty('BUSY_POLL_MICROSECS');
  });

  it('is its share of the memory', () => {
    const { RECEIPT_CACHE_BYTES, MAX_BODY_MEMORY } = shareOut({}, 4, { cores: 4, memoryBytes: GIB });
    expect(Number(RECEIPT_CACHE_BYTES) + Number(MAX_BODY_MEMORY)).toBeLessThan(GIB / 4 - 130 * MIB);
    expect(() => shareOut({}, 8, { cores: 4, memoryBytes: GIB })).toThrow(
      'PROCESSES is 8, which leaves each 128 MiB of memory, expected at least 162: start at most 6',
    );
    // Just enough: a quarter of what is above the base, each.
    expect(shareOut({}, 2, { cores: 4, memoryBytes: 2 * 162 * MIB })).toMatchObject({
      RECEIPT_CACHE_BYTES: String(8 * MIB),
      MAX_BODY_MEMORY: String(8 * MIB),
    });
    expect(shareOut({}, 2, machine)).toMatchObject({
      RECEIPT_CACHE_BYTES: String(64 * MIB),
      MAX_BODY_MEMORY: String(128 * MIB),
    });
    expect(shareOut({ MAX_BODY_BYTES: '5' }, 2, machine)).not.toHaveProperty('MAX_BODY_MEMORY');
  });

  it('is its part of rate limits, so that all together allow no more than one', () => {
    expect(shareOut({ RATE_LIMIT_PER_IP: '10', RATE_LIMIT_GLOBAL: '100' }, 4, machine)).toMatchObject({
      RATE_LIMIT_PER_IP: '3',
      RATE_LIMIT_GLOBAL: '25',
    });
    expect(shareOut({ RATE_LIMIT_PER_IP: '0' }, 4, machine)).toMatchObject({ RATE_LIMIT_PER_IP: '0' });
    expect(shareOut({}, 4, machine)).not.toHaveProperty('RATE_LIMIT_PER_IP');
  });
});

describe('the addresses of all processes', () => {
  it('are as they are set, with a free port instead of 0', async () => {
    const set = { host: '127.0.0.1', port: 0 };
    expect(await addressesOfAll(set)).toEqual({ PORT: expect.stringMatching(/^[1-9]\d{2,4}$/) as unknown });
    const { METRICS_ADDR = '', ...rest } = await addressesOfAll({ ...set, metricsAddr: 'localhost:0' });
    expect(METRICS_ADDR).toMatch(/^localhost:[1-9]\d{2,4}$/);
    expect(Object.keys(rest)).toEqual(['PORT']);
    // Not one of those that were found: they are free for everybody again.
    const port = await unusedPort();
    expect(await addressesOfAll({ ...set, port })).toEqual({ PORT: `${port}` });
  });

  it('are not those of another service', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const message = `cannot listen on 127.0.0.1:${port}: another process has the port`;
    await expect(addressesOfAll({ host: '127.0.0.1', port })).rejects.toThrow(message);
    const metricsAddr = `127.0.0.1:${port}`;
    await expect(addressesOfAll({ host: '127.0.0.1', port: 0, metricsAddr })).rejects.toThrow(message);
    other.close();
  });
});

describe('the metrics of several processes', () => {
  it('are put together with each metric once', () => {
    const scrapes = ['0', '1'].map(
      (name) =>
        `# HELP a What a is\n# TYPE a counter\na{process="${name}"} 1\n\n# HELP b${name} What\n# TYPE b${name} gauge\nb${name} 2\n`,
    );
    const places = [
      { name: '0', current: {}, deaths: 2 },
      { name: '1', current: null, deaths: 0 },
    ];
    expect(mergeScrapes(places, scrapes)).toBe(`# HELP drs_process_up 1 if the process serves
# TYPE drs_process_up gauge
drs_process_up{process="0"} 1
drs_process_up{process="1"} 0

# HELP drs_process_deaths_total Processes that ended without having been told to
# TYPE drs_process_deaths_total counter
drs_process_deaths_total{process="0"} 2
drs_process_deaths_total{process="1"} 0

# HELP a What a is
# TYPE a counter
a{process="0"} 1
a{process="1"} 1

# HELP b0 What
# TYPE b0 gauge
b0 2

# HELP b1 What
# TYPE b1 gauge
b1 2
`);
  });
});
