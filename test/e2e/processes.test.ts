import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FRESH, invoke, makeBundle, makeChain } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { connectRaw, type RawConnection } from '../support/raw-http.js';
import { metricOf, runToExit, startService, type RunningService } from '../support/service.js';
import { RedisServer } from '../usage/redis-server.js';
import { needs } from '../support/programs.js';

const [MAJOR = 0, MINOR = 0] = process.versions.node.split('.').map(Number);
/** Whether `node:http` can share a port. */
const hasReusePort = MAJOR > 23 || (MAJOR === 23 && MINOR >= 1) || (MAJOR === 22 && MINOR >= 12);
const canShare = process.platform === 'linux' && (FRONT_END === 'uws' || hasReusePort);

/** The processes that a supervisor runs. */
function childrenOf({ child }: RunningService): number[] {
  const text = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'latin1');
  return text.trim().split(' ').filter(Boolean).map(Number);
}

function isRunning(pid: number): boolean {
  try {
    // Z is a process that has ended, but was not yet reaped by its parent.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return false;
  }
}

const noneRuns = (pids: readonly number[]) =>
  eventually(() => expect(pids.filter((pid) => isRunning(pid))).toEqual([]));
const messagesOf = ({ log }: Pick<RunningService, 'log'>) => log.map(({ msg }) => String(msg)).join('\n');
const metricsOf = async ({ url }: RunningService) => (await fetch(`${url}/metrics`)).text();
/** Sends the beginning of a request, which a process of the service then has. Returns the rest of its body, too. */
async function holdRequest(service: RunningService) {
  const connection = await connectRaw(service.port);
  const body = JSON.stringify(makeBundle(1));
  const head = `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`;
  connection.socket.write(head + body.slice(0, 9));
  await eventually(async () => {
    const open = (await metricsOf(service)).matchAll(/^drs_http_open_requests{process="."} (\d+)$/gm);
    // The other one is the question for the metrics.
    expect([...open].reduce((sum, [, count]) => sum + Number(count), 0)).toBe(2);
  });
  return { ...connection, rest: body.slice(9) };
}
/** Between two scrapes: each costs all processes some milliseconds. */
const SCRAPE_MS = 300;
const startTwo = (env: Record<string, string> = {}) =>
  startService({ PROCESSES: '2', GATE_REPLAY: 'off', WORKER_THREADS: '0', ...env });

it.skipIf(hasReusePort)('several processes are refused where they cannot share a port', async () => {
  const { code, stderr } = await runToExit({ PROCESSES: '2', GATE_REPLAY: 'off', FRONT_END: 'node' });
  expect([code, stderr]).toEqual([1, expect.stringMatching('cannot share a port over node:http')]);
});

describe.runIf(canShare)('processes on one port', { shuffle: false }, () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startTwo();
  });
  // The last test stops it.
  afterAll(() => void service.child.kill('SIGKILL'));

  const allUp = () =>
    eventually(async () => {
      const metrics = await metricsOf(service);
      for (const name of ['0', '1']) expect(metricOf(metrics, `drs_process_up{process="${name}"}`)).toBe(1);
    }, SCRAPE_MS);

  it('share out connections, and show the metrics of all in one scrape', async () => {
    await eventually(async () => {
      const { socket, until } = await connectRaw(service.port);
      const body = JSON.stringify(makeBundle(1));
      socket.write(`POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
      expect(await until('}')).toContain('"valid":true');
      socket.destroy();
      const metrics = await metricsOf(service);
      for (const name of ['0', '1']) {
        const series = `drs_verify_verifications_total{result="valid",process="${name}"}`;
        expect(metricOf(metrics, series)).toBeGreaterThan(0);
      }
      // Prometheus refuses a scrape that contains a metric twice.
      const names = [...metrics.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
      expect(new Set(names).size).toBe(names.length);
    });
  });

  it('go on when one is killed, and it is started again', async () => {
    const before = childrenOf(service);
    expect(before).toHaveLength(2);
    process.kill(before[1] as number, 'SIGKILL');
    await eventually(async () => {
      const metrics = await metricsOf(service);
      expect(metrics).toMatch(/^drs_process_deaths_total{process="."} 1$/m);
    }, SCRAPE_MS);
    await allUp();
    const after = childrenOf(service);
    expect(after).toHaveLength(2);
    expect(after.filter((pid) => before.includes(pid))).toHaveLength(1);
    expect(messagesOf(service)).toContain('a process ended with SIGKILL: it is started again');
  });

  it('go on when one stands still, and it is killed and started again', async () => {
    const [, stuck = 0] = childrenOf(service);
    process.kill(stuck, 'SIGSTOP');
    await eventually(() => expect(messagesOf(service)).toContain('a process stands still: it is killed'));
    await noneRuns([stuck]);
    await allUp();
    expect(childrenOf(service)).toHaveLength(2);
  });

  it('are replaced on SIGHUP, and answer on every connection that was open; twice if told to while they are', async () => {
    const before = childrenOf(service);
    const connections = await Promise.all(Array.from({ length: 30 }, () => connectRaw(service.port)));
    const answersOn = ({ received }: RawConnection) => received().split('"status":"ready"').length - 1;
    const isClosing = ({ received }: RawConnection) => /Connection: close/i.test(received());
    const askAll = async () => {
      const asked = connections
        .filter((connection) => !isClosing(connection))
        .map((connection) => ({ connection, before: answersOn(connection) }));
      for (const { connection } of asked) connection.socket.write('GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n');
      for (const { connection, before: answers } of asked)
        await eventually(() => expect(answersOn(connection)).toBe(answers + 1));
    };
    await askAll();
    service.child.kill('SIGHUP');
    // The first old process has left the port. Each of its connections gets one more answer, which closes it. Until then
    // none is idle for seconds, for which it would be closed, too.
    await eventually(async () => {
      await askAll();
      expect(messagesOf(service)).toContain('shutting down: what is in flight');
    });
    service.child.kill('SIGHUP');
    await askAll();
    // The connections of processes that are not replaced yet stay open.
    expect(connections.some(isClosing)).toBe(true);
    for (const { socket } of connections) socket.destroy();
    const rolls = () => service.log.filter(({ msg }) => msg === 'rolled: all processes are new');
    await eventually(() => expect(rolls()).toHaveLength(2));
    await noneRuns(before);
    expect(childrenOf(service)).toHaveLength(2);
    await allUp();
  });

  it('change their log level on SIGUSR2', async () => {
    service.child.kill('SIGUSR2');
    const changed = () => service.log.filter(({ msg }) => msg === 'SIGUSR2 changed the log level');
    await eventually(() =>
      expect(
        changed()
          .map(({ process }) => process)
          .sort(),
      ).toEqual(['0', '1']),
    );
  });

  it('refuse a second service on their port', async () => {
    const PORT = String(service.port);
    const second = await runToExit({ PORT, PROCESSES: '2', GATE_REPLAY: 'off' });
    expect([second.code, second.stderr]).toEqual([
      1,
      expect.stringContaining('another process has the port'),
    ]);
  });

  it('stops all processes on SIGTERM, which may reach them as well, and answers what is in flight', async () => {
    const before = service.log.length;
    const pids = childrenOf(service);
    const held = await holdRequest(service);
    // A signal to the whole group, as systemd and a terminal send it.
    for (const pid of pids) process.kill(pid, 'SIGTERM');
    for (const pid of pids) process.kill(pid, 'SIGTERM');
    const stopped = service.stop();
    await eventually(() =>
      expect(messagesOf({ log: service.log.slice(before) })).toContain('shutting down: what is in flight'),
    );
    held.socket.write(held.rest);
    expect(await held.closed).toContain('"valid":true');
    expect(await stopped).toBe(0);
    await noneRuns(pids);
  });
});

// Each has a service of its own.
describe.runIf(canShare).concurrent('the supervisor', () => {
  it('ends all processes at once on a second signal', async () => {
    const service = await startTwo({ SHUTDOWN_DELAY_SECS: '3600' });
    const pids = childrenOf(service);
    service.child.kill('SIGTERM');
    await eventually(() => expect(messagesOf(service)).toContain('shutting down all processes'));
    expect(await service.stop('SIGINT')).toBe(1);
    await noneRuns(pids);
  });

  it('gives all one address for their metrics, and stops at once with 0 while one starts', async () => {
    const service = await startTwo({ METRICS_ADDR: '127.0.0.1:0' });
    const url = String(service.log.find(({ msg }) => msg === 'listening')?.['metricsUrl']);
    for (let time = 0; time < 8; time++) {
      const response = await fetch(url, { headers: { Connection: 'close' } });
      expect(await response.text()).toMatch(
        /^drs_process_up{process="0"} 1\ndrs_process_up{process="1"} 1$/m,
      );
    }
    const { code, stderr } = await runToExit({
      METRICS_ADDR: new URL(url).host,
      PROCESSES: '2',
      GATE_REPLAY: 'off',
    });
    expect([code, stderr]).toEqual([1, expect.stringContaining('another process has the port')]);
    // The new process has not even begun to listen to its supervisor.
    service.child.kill('SIGHUP');
    await eventually(() => expect(messagesOf(service)).toContain('rolling: each process'));
    // It says so before it starts the process.
    await eventually(() => expect(childrenOf(service)).toHaveLength(3));
    const pids = childrenOf(service);
    expect(await service.stop()).toBe(0);
    await noneRuns(pids);
    expect(messagesOf(service)).not.toContain('shutting down took too long');
  });

  it('end when their supervisor is killed, and answer what is in flight', async () => {
    const service = await startTwo();
    const pids = childrenOf(service);
    expect(pids).toHaveLength(2);
    const held = await holdRequest(service);
    service.child.kill('SIGKILL');
    await eventually(() => expect(messagesOf(service)).toContain('the supervisor is gone: shutting down'));
    held.socket.write(held.rest);
    expect(await held.closed).toContain('"valid":true');
    await noneRuns(pids);
  });

  it('does not start where a process cannot, with the exit code of that process', async () => {
    const env = { PROCESSES: '2', GATE_REPLAY: 'redis', REDIS_URL: 'redis://127.0.0.1:1' };
    const { code, stderr } = await runToExit(env);
    expect([code, stderr.match(/cannot connect to Redis/g)?.length]).toEqual([1, 1]);
  });
});

describe.runIf(canShare)(
  'two processes that share Redis',
  { ...needs('redis-server'), shuffle: false },
  () => {
    const TOKEN = 'a-token-of-sixteen-and-more';
    let redis: RedisServer;
    let service: RunningService;
    beforeAll(async () => {
      redis = await RedisServer.start('--appendonly', 'yes');
      service = await startTwo({
        ...FRESH,
        REVOCATION_STORE: 'redis',
        REPLAY_PROTECTION: 'redis',
        GATE_REPLAY: 'redis',
        REDIS_URL: redis.url,
        REDIS_TIMEOUT_MS: '20000',
        DRS_ADMIN_TOKEN: TOKEN,
      });
    });
    // The last test ends both.
    afterAll(async () => {
      service.child.kill('SIGKILL');
      await redis.stop();
    });

    /** On a connection of its own, so that each process has its turn. */
    const verify = async (bundle: object): Promise<string> => {
      const response = await service.post('/verify', bundle, { Connection: 'close' });
      const { valid, error } = (await response.json()) as { valid: boolean; error?: { code: string } };
      return valid ? 'valid' : String(error?.code);
    };

    it('accept an invocation once in all', async () => {
      const bundle = makeBundle(1);
      const outcomes: string[] = [];
      for (let time = 0; time < 12; time++) outcomes.push(await verify(bundle));
      expect(outcomes.sort()).toEqual([...Array<string>(11).fill('REPLAY_DETECTED'), 'valid']);
    });

    it('all refuse what one has acknowledged as revoked, also those that start later', async () => {
      const chain = makeChain(1, { 0: { drs_status_list_index: 7 } });
      const headers = { Authorization: `Bearer ${TOKEN}` };
      expect((await service.post('/admin/revoke', { status_list_index: 7 }, headers)).status).toBe(200);
      process.kill(childrenOf(service)[0] as number, 'SIGKILL');
      const check = async () => {
        for (let time = 0; time < 12; time++)
          expect(await verify(invoke(chain, { jti: `inv:${Math.random()}` }))).toBe('RECEIPT_REVOKED');
      };
      await check().catch((error: unknown) => {
        // A connection that the killed process had.
        if ((error as Error).name === 'AssertionError') throw error;
      });
      await eventually(
        async () => expect(await metricsOf(service)).not.toMatch(/^drs_process_up{.*} 0$/m),
        SCRAPE_MS,
      );
      await check();
    });

    it('start again what dies while Redis is away, once Redis is back', async () => {
      await redis.kill();
      process.kill(childrenOf(service)[0] as number, 'SIGKILL');
      await eventually(() => expect(messagesOf(service)).toContain('a process does not start again'));
      await redis.restart();
      await eventually(async () => {
        const metrics = await metricsOf(service);
        expect(metrics).not.toMatch(/^drs_process_up{.*} 0$/m);
        expect(metrics).not.toMatch(/^drs_dependency_up{.*} 0$/m);
      }, SCRAPE_MS);
    });

    it('give up where none serves and none can be started', async () => {
      await redis.stop();
      const exited = once(service.child, 'exit');
      const [first = 0, second = 0] = childrenOf(service);
      const failed = () => service.log.filter(({ msg }) => msg === 'a process does not start again').length;
      const before = failed();
      process.kill(first, 'SIGKILL');
      // One serves: the other is tried again.
      await eventually(() => expect(failed()).toBeGreaterThanOrEqual(before + 2));
      process.kill(second, 'SIGKILL');
      expect(await exited).toEqual([1, null]);
      expect(messagesOf(service)).toContain('no process serves, and none can be started: giving up');
    });
  },
);
