import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FRONT_END } from '../support/front-end.js';
import { callOnce, clientOf } from '../support/grpc.js';
import { needs } from '../support/programs.js';
import { connectRaw, type RawConnection } from '../support/raw-http.js';
import { startService as startServiceHere } from '../support/service-in-process.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

// Two clients: one takes all it can get, the other wants a little.
const GREEDY = '127.0.0.2';
const MODEST = '127.0.0.1';
const KIB = 1024;
const HEALTH = 'grpc.health.v1.Health';
// What a gRPC client sends first: the preface of HTTP/2 and an empty SETTINGS frame.
const PREFACE = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

let service: RunningService;
let open: { destroy(): void }[] = [];
const closeAll = () => {
  for (const one of open) one.destroy();
  open = [];
};

/** Starts a service for the tests of a block. After each test its connections are closed, and it has noticed. */
function serve(start: () => Promise<RunningService>): void {
  let connectionsBefore = 0;
  const connections = async () => {
    const text = await metricsOf();
    expect(metricOf(text, 'drs_http_body_bytes')).toBe(0);
    return ['http', 'grpc'].reduce(
      (sum, listener) => sum + metricOf(text, `drs_http_connections{listener="${listener}"}`),
      0,
    );
  };
  beforeAll(async () => {
    service = await start();
    connectionsBefore = await connections();
  });
  afterEach(async () => {
    closeAll();
    // Some stay: of what was opened before all tests, and those that `fetch` keeps.
    await eventually(async () => expect(await connections()).toBeLessThanOrEqual(connectionsBefore + 6));
  });
  afterAll(async () => expect(await service.stop()).toBe(0));
}

const portOf = (key: 'metricsPort' | 'grpcPort') =>
  service.log.find(({ msg }) => msg === 'listening')?.[key] as number;
const metricsOf = async () => (await fetch(`http://127.0.0.1:${portOf('metricsPort')}/metrics`)).text();
const statusOf = async (path: string, port = service.port) =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).status;

async function connectMany(count: number, port: number, from: string): Promise<RawConnection[]> {
  const connections = await Promise.all(Array.from({ length: count }, () => connectRaw(port, from)));
  open.push(...connections.map(({ socket }) => socket));
  return connections;
}

/** Resolves when the service has closed at least some of the connections. */
const untilClosed = (connections: readonly RawConnection[], atLeast: number) =>
  eventually(() =>
    expect(connections.filter(({ socket }) => socket.destroyed).length).toBeGreaterThanOrEqual(atLeast),
  );

/** Opens connections that send the preface of HTTP/2 and no more. Resolves when each is accepted or closed. */
async function connectIdleGrpc(count: number, from = GREEDY): Promise<RawConnection[]> {
  const connections = await connectMany(count, portOf('grpcPort'), from);
  for (const { socket } of connections) socket.write(PREFACE);
  await eventually(() => {
    const isDecided = ({ socket, received }: RawConnection) => socket.destroyed || received() !== '';
    expect(connections.filter((one) => !isDecided(one))).toHaveLength(0);
  });
  return connections;
}

const messages = () => service.log.map(({ msg }) => msg).join();
const isServing = async (port = portOf('grpcPort')) => {
  const client = clientOf(HEALTH, port);
  try {
    return await callOnce(client, 'Check', { service: '' });
  } finally {
    client.close();
  }
};

describe('clients that stall in the middle of their bodies', () => {
  const ANNOUNCED = 256 * KIB;
  const SENT = ANNOUNCED / 2 + 1;

  /** Resolves when each connection is refused, or the service holds what it has sent. */
  async function stall(count: number, from: string, headers = ''): Promise<void> {
    const refused = (text: string) => metricOf(text, 'drs_verify_rejections_total{reason="overloaded"}');
    const before = refused(await metricsOf());
    const stalled = await connectMany(count, service.port, from);
    for (const { socket } of stalled)
      socket.write(
        `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${ANNOUNCED}\r\n${headers}\r\n${' '.repeat(SENT)}`,
      );
    await eventually(async () => {
      const text = await metricsOf();
      const waiting = count - (refused(text) - before);
      expect(metricOf(text, 'drs_http_body_bytes')).toBeGreaterThanOrEqual(waiting * SENT);
    });
  }

  /** Sends a body in two pieces, so that it is not complete with the first. */
  async function post(bytes: number, headers = ''): Promise<string> {
    const [{ socket, until }] = (await connectMany(1, service.port, MODEST)) as [RawConnection];
    const body = `{}${' '.repeat(bytes - 2)}`;
    socket.setNoDelay(true);
    socket.write(
      `POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n${headers}\r\n${body.slice(0, 100)}`,
    );
    // An answer to another request: the first piece has arrived.
    await statusOf('/healthz');
    socket.write(body.slice(100));
    return (await until('}')).slice(9, 12);
  }

  serve(() =>
    startServiceHere({
      // No connection here may end because it is slow.
      REQUEST_TIMEOUT_SECS: '600',
      MAX_BODY_MEMORY: String(8192 * KIB),
      TRUST_PROXY: '1',
    }),
  );

  it('leave room for the bodies of others', async () => {
    await stall(40, GREEDY);
    expect([await post(20 * KIB), await post(1024 * KIB)]).toEqual(['200', '200']);
  });

  it('are told apart behind a proxy', async () => {
    await stall(40, MODEST, 'X-Forwarded-For: 192.0.2.1\r\n');
    expect(await post(1024 * KIB, 'X-Forwarded-For: 192.0.2.2\r\n')).toBe('200');
  });
});

describe('connections with MAX_CONNECTIONS', () => {
  serve(() => startServiceHere({ MAX_CONNECTIONS: '50', GRPC_PORT: '0', METRICS_ADDR: '127.0.0.1:0' }));

  it('that are idle over gRPC do not lock HTTP out', async () => {
    await connectIdleGrpc(60, MODEST);
    expect(await statusOf('/healthz')).toBe(200);
  });

  it('over HTTP do not lock gRPC out, and leave those on METRICS_ADDR alone', async () => {
    await untilClosed(await connectMany(60, service.port, MODEST), 10);
    expect(await isServing()).toMatchObject({ status: 'SERVING' });
    const port = portOf('metricsPort');
    expect([await statusOf('/healthz', port), await statusOf('/metrics', port)]).toEqual([200, 200]);
  });

  // What docs/operations.md says about the queue of connections that the service has not accepted yet.
  it(
    'wait in a queue of 512 with uWebSockets.js, and of net.core.somaxconn with node:http and gRPC',
    needs('ss'),
    () => {
      const queueOf = (port: number) => {
        const text = execFileSync('ss', ['-Hltn', `sport = :${port}`], { encoding: 'utf8' });
        return Number(text.trim().split(/\s+/)[2]);
      };
      const most = Number(readFileSync('/proc/sys/net/core/somaxconn', 'latin1'));
      expect(queueOf(service.port)).toBe(FRONT_END === 'uws' ? Math.min(512, most) : most);
      expect(queueOf(portOf('grpcPort'))).toBe(most);
    },
  );
});

describe('a limit of open files', () => {
  serve(() =>
    startService(
      { METRICS_ADDR: '127.0.0.1:0', MAX_CONNECTIONS: '1000', WORKER_THREADS: '0' },
      { openFiles: 256 },
    ),
  );

  /** Seconds of processor time a process has taken, in clock ticks. */
  const ticksOf = (pid: number) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? [];
    return Number(fields[11]) + Number(fields[12]);
  };

  it.runIf(process.platform === 'linux')('is never used up', async () => {
    const pid = service.child.pid as number;
    expect(messages()).toContain('the limit of open files allows fewer connections');
    const { maxConnections } = service.log.find(({ msg }) => msg === 'listening') as {
      maxConnections: number;
    };
    expect(maxConnections).toBeLessThan(256);
    const connections = await connectMany(300, service.port, GREEDY);
    const left = () => connections.filter(({ socket }) => !socket.destroyed).length;
    await eventually(() => expect(left()).toBeLessThanOrEqual(maxConnections));
    expect(left()).toBeGreaterThan(0.85 * maxConnections);
    expect(readdirSync(`/proc/${pid}/fd`).length).toBeLessThan(256);
    // An accept loop that spins because there are no free descriptors would use most of this second.
    const before = ticksOf(pid);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(ticksOf(pid) - before).toBeLessThan(50);
    closeAll();
    await eventually(async () => expect(await statusOf('/healthz')).toBe(200));
  });

  it('leaves descriptors for METRICS_ADDR, and that leaves them to the public', async () => {
    const port = portOf('metricsPort');
    await untilClosed(await connectMany(300, service.port, MODEST), 44);
    expect(await statusOf('/metrics', port)).toBe(200);
    closeAll();
    await eventually(async () => expect(await statusOf('/healthz')).toBe(200));
    await untilClosed(await connectMany(300, port, MODEST), 44);
    expect(await statusOf('/healthz')).toBe(200);
  });
});
