import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { connectRaw } from '../support/raw-http.js';
import { metricOf, SERVICE_COMMAND, startService, type RunningService } from '../support/service.js';

const messagesOf = ({ log }: RunningService) => log.map(({ msg }) => String(msg));
const statusOf = async (service: RunningService, path: string) => (await fetch(service.url + path)).status;

/** Keeps one request open, of whose body only the first character is sent, so that the service cannot drain. */
async function holdOpen(service: RunningService, body = ' '.repeat(100_000)) {
  const held = await connectRaw(service.port);
  held.socket.write(
    `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body[0] ?? ''}`,
  );
  await eventually(async () => {
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metricOf(metrics, 'drs_http_open_requests')).toBeGreaterThan(1);
  });
  return held;
}

describe('stopping, and what is not stopping', { shuffle: false }, () => {
  let service: RunningService;
  beforeAll(async () => {
    // The delay is longer than these tests take on any machine.
    service = await startService({
      MAX_CONNECTIONS: '5',
      LOG_LEVEL: 'info',
      SHUTDOWN_DELAY_SECS: '3600',
      WORKER_THREADS: '0',
    });
  });
  afterAll(() => void service.child.kill('SIGKILL'));
  const hangUp = async () => {
    const reopened = () =>
      messagesOf(service).filter((said) => said.includes('SIGHUP: the decision log was reopened')).length;
    const before = reopened();
    service.child.kill('SIGHUP');
    await eventually(() => expect(reopened()).toBe(before + 1));
  };

  it.runIf(process.platform === 'linux')(
    'are closed at once above MAX_CONNECTIONS, which is said and counted',
    async () => {
      const metrics = await connectRaw(service.port);
      const others = await Promise.all(Array.from({ length: 20 }, () => connectRaw(service.port)));
      await eventually(() => expect(others.filter(({ socket }) => socket.destroyed)).toHaveLength(16));
      metrics.socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
      const text = (await metrics.until('drs_http_connections_refused_total{listener="http"} 16')).replaceAll(
        '\r',
        '',
      );
      expect(metricOf(text, 'drs_http_connections{listener="http"}')).toBe(5);
      expect(metricOf(text, 'drs_http_max_connections{listener="http"}')).toBe(5);
      await eventually(() =>
        expect(messagesOf(service).filter((said) => said.startsWith('too many connections'))).toHaveLength(1),
      );
      for (const { socket } of [...others, metrics]) socket.destroy();
      await eventually(async () => expect(await statusOf(service, '/healthz')).toBe(200));
    },
  );

  it('is not what SIGHUP asks for', async () => {
    await hangUp();
    expect(await statusOf(service, '/readyz')).toBe(200);
  });

  it('switches between the configured log level and debug on SIGUSR2', async () => {
    const requests = () => service.log.filter(({ msg }) => msg === 'request').length;
    await fetch(`${service.url}/healthz`);
    // What is logged later shows that nothing was logged before.
    await hangUp();
    expect(requests()).toBe(0);
    service.child.kill('SIGUSR2');
    await eventually(() => expect(service.log.at(-1)).toMatchObject({ logLevel: 'debug' }));
    await fetch(`${service.url}/healthz`);
    await eventually(() =>
      expect(service.log.at(-1)).toMatchObject({ msg: 'request', endpoint: 'healthz', status: 200 }),
    );
    service.child.kill('SIGUSR2');
    await eventually(() => expect(service.log.at(-1)).toMatchObject({ logLevel: 'info' }));
    const before = requests();
    await fetch(`${service.url}/healthz`);
    await hangUp();
    expect(requests()).toBe(before);
  });

  it('fails only /readyz for SHUTDOWN_DELAY_SECS, says Connection: close, and ends at once on a second signal', async () => {
    service.child.kill('SIGTERM');
    await eventually(async () => expect(await statusOf(service, '/readyz')).toBe(503));
    const ready = await fetch(`${service.url}/readyz`);
    expect(await ready.json()).toEqual({
      status: 'not_ready',
      reason: 'shutting_down',
      reasons: ['shutting_down'],
    });
    expect(await statusOf(service, '/healthz')).toBe(200);
    const verdict = await service.post('/verify', makeBundle(1));
    expect([verdict.status, verdict.headers.get('connection')]).toEqual([200, 'close']);
    expect(await service.stop('SIGTERM')).toBe(1);
    await eventually(() => expect(messagesOf(service)).toContain('a second signal: ending at once'));
  });
});

describe('stopping', () => {
  it('is unhealthy while it drains, and says Connection: close once, to what is in flight and to what it refuses', async () => {
    const service = await startService();
    const body = JSON.stringify(makeBundle(2));
    // A request whose body is on its way keeps the service draining.
    const { socket, closed } = await holdOpen(service, body);
    const stopped = service.stop();
    await eventually(async () => expect(await statusOf(service, '/healthz')).toBe(503));
    const ready = await fetch(`${service.url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([
      503,
      { status: 'not_ready', reason: 'shutting_down', reasons: ['shutting_down'] },
    ]);
    expect((await service.post('/verify', makeBundle(1))).status).toBe(503);
    const denied = await service.post('/gate/mcp', '{}');
    expect([denied.status, denied.headers.get('x-drs-code')]).toEqual([503, 'VERIFIER_UNAVAILABLE']);
    for (const path of ['/healthz', '/verify', '/nowhere']) {
      const other = await connectRaw(service.port);
      const method = path === '/verify' ? 'POST' : 'GET';
      other.socket.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`);
      expect((await other.closed).match(/connection: close/gi)).toHaveLength(1);
    }
    socket.write(body.slice(1));
    const answer = await closed;
    expect(answer.match(/connection: close/gi)).toHaveLength(1);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n.*"valid":true/s);
    expect(await stopped).toBe(0);
  });

  it('ends by itself after SHUTDOWN_DELAY_SECS, and cuts off what is not answered within SHUTDOWN_GRACE_SECS', async () => {
    const service = await startService({
      SHUTDOWN_DELAY_SECS: '1',
      SHUTDOWN_GRACE_SECS: '1',
      REQUEST_TIMEOUT_SECS: '100',
    });
    const { closed } = await holdOpen(service);
    const started = performance.now();
    expect(await service.stop()).toBe(0);
    // Timers of two processes round differently.
    expect(performance.now() - started).toBeGreaterThan(1950);
    expect(await closed).toBe('');
    expect(messagesOf(service)).toContain('requests were cut off: they took too long to drain');
  });

  // Without workers to end, it exits before a write that is in progress has failed.
  it.each(['none', 'some'])(
    'works where the reader of the log has died: %s written since',
    async (written) => {
      const { PATH = '' } = process.env;
      const child = spawn(process.execPath, SERVICE_COMMAND, {
        env: { PATH, PORT: '0', FRONT_END, LOG_LEVEL: 'debug', WORKER_THREADS: '0' },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const exited = once(child, 'exit');
      const url = await new Promise<string>((resolve, reject) => {
        void exited.then(() => reject(new Error('the service ended before it listened')));
        let text = '';
        child.stdout.on('data', (chunk: Buffer) => {
          const [, found] = /"url":"([^"]+)".*\n/.exec((text += chunk.toString())) ?? [];
          if (found !== undefined) resolve(found);
        });
      });
      child.stdout.destroy();
      child.stderr.destroy();
      if (written === 'some') expect((await fetch(`${url}/healthz`)).status).toBe(200);
      child.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);
    },
  );
});
