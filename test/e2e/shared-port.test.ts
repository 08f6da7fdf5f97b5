import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FRESH, makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { startOnPort } from '../support/ports.mjs';
import { needs } from '../support/programs.js';
import { connectRaw } from '../support/raw-http.js';
import { metricOf, runToExit, startService, type RunningService } from '../support/service.js';
import { RedisServer } from '../usage/redis-server.js';

const [MAJOR = 0, MINOR = 0] = process.versions.node.split('.').map(Number);
/** Whether `node:http` can share a port. */
const hasReusePort = MAJOR > 23 || (MAJOR === 23 && MINOR >= 1) || (MAJOR === 22 && MINOR >= 12);
const canShare = process.platform === 'linux' && (FRONT_END === 'uws' || hasReusePort);
const TOKEN = 'a-token-of-sixteen-and-more';

if (!hasReusePort)
  it('SHARE_PORT is refused where node:http cannot share a port', async () => {
    const { code, stderr } = await runToExit({ SHARE_PORT: '1', GATE_REPLAY: 'off', FRONT_END: 'node' });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/node:http cannot share a port with Node .*FRONT_END=uws/),
    ]);
  });

describe.runIf(canShare)('two instances on one port', { ...needs('redis-server'), shuffle: false }, () => {
  let redis: RedisServer;
  let env: Record<string, string>;
  const instances: RunningService[] = [];
  beforeAll(async () => {
    redis = await RedisServer.start('--appendonly', 'yes');
    env = {
      ...FRESH,
      SHARE_PORT: '1',
      METRICS_ADDR: '127.0.0.1:0',
      REVOCATION_STORE: 'redis',
      REPLAY_PROTECTION: 'redis',
      GATE_REPLAY: 'redis',
      REDIS_URL: redis.url,
      REDIS_TIMEOUT_MS: '20000',
      DRS_ADMIN_TOKEN: TOKEN,
      WORKER_THREADS: '0',
    };
    const first = await startOnPort((port) => startService({ ...env, PORT: String(port) }));
    instances.push(first, await startService({ ...env, PORT: String(first.port) }));
  });
  afterAll(async () => {
    for (const { child } of instances) child.kill('SIGKILL');
    await redis.stop();
  });

  /** On a connection of its own, which the kernel gives to either. */
  const verify = async (bundle: object): Promise<string> => {
    const [service] = instances as [RunningService];
    const response = await service.post('/verify', bundle, { Connection: 'close' });
    const { valid, error } = (await response.json()) as { valid: boolean; error?: { code: string } };
    return valid ? 'valid' : String(error?.code);
  };
  const metricsOf = async ({ log }: Pick<RunningService, 'log'>): Promise<string> => {
    const { metricsUrl } = log.find(({ msg }) => msg === 'listening') ?? {};
    return (await fetch(String(metricsUrl))).text();
  };
  /** How many verdicts of one kind each instance has given. */
  const countsOf = (result: string) =>
    Promise.all(
      instances.map(async (service) =>
        metricOf(await metricsOf(service), `drs_verify_verifications_total{result="${result}"}`),
      ),
    );
  /** Asks until both instances have given a verdict of this kind. */
  const askBoth = (result: string, ask: () => Promise<void>) =>
    eventually(async () => {
      await ask();
      for (const count of await countsOf(result)) expect(count).toBeGreaterThan(0);
    });

  it('both answer', async () => {
    await askBoth('valid', async () => expect(await verify(makeBundle(1))).toBe('valid'));
  });

  it('refuse a third one without SHARE_PORT', async () => {
    const [{ port }] = instances as [RunningService];
    const third = await runToExit({ ...env, SHARE_PORT: '0', PORT: String(port) });
    expect([third.code, third.stderr]).toEqual([1, expect.stringContaining('another process has the port')]);
  });

  it('one that is asked to stop gets no new connections, and answers what is in flight', async () => {
    const [first, second] = instances as [RunningService, RunningService];
    const body = JSON.stringify(makeBundle(1));
    const openAt = async ({ log }: RunningService) =>
      metricOf(await metricsOf({ log }), 'drs_http_open_requests');
    // Until the second has one of them; a question for its metrics is open, too.
    const held = await eventually(async () => {
      const connection = await connectRaw(first.port);
      connection.socket.write(
        `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 9)}`,
      );
      await eventually(async () => expect((await openAt(first)) + (await openAt(second))).toBe(3));
      if ((await openAt(second)) === 2) return connection;
      connection.socket.destroy();
      await eventually(async () => expect(await openAt(first)).toBe(1));
      throw new Error('the first has it');
    });
    const stopped = second.stop();
    await eventually(() =>
      expect(second.log.map(({ msg }) => msg)).toContain(
        'shutting down: what is in flight is answered first',
      ),
    );
    // It leaves the port in the turn of its event loop after that line: before it answers twice.
    for (let time = 0; time < 2; time++) await metricsOf(second);
    for (let time = 0; time < 12; time++) expect(await verify(makeBundle(1))).toBe('valid');
    held.socket.write(body.slice(9));
    expect(await held.closed).toContain('"valid":true');
    expect(await stopped).toBe(0);
    instances.length = 1;
  });
});

it.runIf(canShare)('an instance that shares is refused on the port of one that does not', async () => {
  const alone = await startOnPort((port) => startService({ PORT: String(port), WORKER_THREADS: '0' }));
  const env = { SHARE_PORT: '1', GATE_REPLAY: 'off', PORT: String(alone.port) };
  const { code, stderr } = await runToExit(env);
  expect([code, stderr]).toEqual([1, expect.stringContaining('another process has the port')]);
  expect(await alone.stop()).toBe(0);
});
