import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { connectRaw, type RawConnection } from '../support/raw-http.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

const MIB = 1024 * 1024;

/** The highest resident memory of a process so far, in bytes. */
const peakOf = (pid: number) =>
  1024 * Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);

const json = (text: string) => {
  const count = Math.floor((MIB - 2) / (text.length + 1));
  return `[${Array<string>(count).fill(text).join(',')}]`;
};
const headOf = (body: string) => `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`;

/** Opens connections, and sends a request without its last bytes on each. */
async function sendAllBut(service: RunningService, body: string, count: number, left: number) {
  const text = headOf(body) + body;
  const connections: RawConnection[] = [];
  for (let at = 0; at < count; at += 50) {
    const some = await Promise.all(Array.from({ length: 50 }, () => connectRaw(service.port)));
    for (const { socket } of some) socket.write(text.slice(0, text.length - left));
    connections.push(...some);
  }
  return connections;
}

async function metricsOf(service: RunningService): Promise<string> {
  return (await fetch(`${service.url}/metrics`)).text();
}

/** Asks for the health of a service until it is told to stop; every answer must be 200. */
function watchHealth(service: RunningService) {
  const watch = { isOver: false };
  const watched = (async () => {
    while (!watch.isOver) {
      const { status } = await fetch(`${service.url}/healthz`);
      expect(status).toBe(200);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  // It may fail long before anybody asks.
  watched.catch(() => undefined);
  return {
    stop: async () => {
      watch.isOver = true;
      await watched;
    },
  };
}

describe.runIf(process.platform === 'linux')('the memory of the service', () => {
  let service: RunningService;
  beforeAll(async () => {
    // No body here may end because it is slow.
    service = await startService({ REQUEST_TIMEOUT_SECS: '600' });
  });
  afterAll(async () => expect(await service.stop()).toBe(0));

  // Before the others, since it has the lowest limit and the peak is that of the process' whole life.
  it('stays bounded when 1,000 bodies of 1 MB are sent by half, and others are still checked', async () => {
    const connections = await sendAllBut(service, json('[]'), 1000, MIB / 2);
    await eventually(async () => {
      const metrics = await metricsOf(service);
      expect(metricOf(metrics, 'drs_verify_rejections_total{reason="overloaded"}')).toBeGreaterThan(800);
    });
    const held = metricOf(await metricsOf(service), 'drs_http_body_bytes');
    // Half of the budget is reserved for clients that send quickly, and half of the rest for other clients.
    expect(held).toBeGreaterThan(30 * MIB);
    expect(held).toBeLessThanOrEqual(32 * MIB);
    expect((await service.post('/verify', makeBundle(2))).status).toBe(200);
    const peak = peakOf(service.child.pid as number);
    expect(peak).toBeLessThan(512 * MIB);
    for (const { socket } of connections) socket.destroy();
    await eventually(async () => expect(metricOf(await metricsOf(service), 'drs_http_body_bytes')).toBe(0));
  }, 120_000);

  it.each([
    ['empty arrays', json('[]'), '413'],
    ['objects, which take most when they are parsed', json('{"31":1}'), '413'],
    ['as many texts as are parsed', json(`"${'a'.repeat(32)}"`), '200'],
  ])(
    'stays under 1 GiB when 500 bodies of 1 MB are completed at once: %s',
    async (_, body, status) => {
      const health = watchHealth(service);
      const connections = await sendAllBut(service, body, 500, 1);
      for (const { socket } of connections) socket.write(']');
      const answers = await Promise.all(connections.map(({ until }) => until('}')));
      await health.stop();
      const statuses = answers.map((answer) => answer.slice(9, 12));
      // How many of them are read depends on the machine. One that comes alone is.
      expect(statuses.filter((each) => each !== status && each !== '503')).toEqual([]);
      expect(statuses).toContain('503');
      await eventually(async () => {
        const alone = await fetch(`${service.url}/verify`, { method: 'POST', body });
        expect(`${alone.status} ${await alone.text()}`).toMatch(
          RegExp(`^${status} (?:.*MALFORMED_BUNDLE|.*12288)`, 's'),
        );
      });
      for (const answer of answers)
        expect(answer).toMatch(
          /MALFORMED_BUNDLE|holds more than 12288|Retry-After: 1.*"error":"overloaded"/s,
        );
      for (const { socket } of connections) socket.destroy();
      const peak = peakOf(service.child.pid as number);
      expect(peak).toBeLessThan(1024 * MIB);
      await eventually(async () => expect(metricOf(await metricsOf(service), 'drs_http_body_bytes')).toBe(0));
      expect((await service.post('/verify', makeBundle(2))).status).toBe(200);
    },
    120_000,
  );
});
