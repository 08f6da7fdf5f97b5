import { readdirSync, readFileSync } from 'node:fs';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Connections, divideConnections, divideForGuard } from '../../src/service/load/connections.js';
import { eventually } from '../support/eventually.js';

const log = pino({ level: 'silent' });
let logged: unknown[] = [];
const recording = pino({ base: null, timestamp: false }, { write: (line) => logged.push(JSON.parse(line)) });
afterEach(() => {
  logged = [];
  vi.restoreAllMocks();
});

describe('the connections of a listener', () => {
  it('are counted, and refused above the limit, which is logged once in ten seconds', () => {
    let now = 5000;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const connections = new Connections(8, recording);
    expect(Array.from({ length: 9 }, () => connections.opened())).toEqual([
      ...Array<boolean>(8).fill(true),
      false,
    ]);
    now += 9999;
    expect(connections.opened()).toBe(false);
    now++;
    expect(connections.opened()).toBe(false);
    expect([connections.open, connections.accepted, connections.refused]).toEqual([11, 11, 3]);
    const msg =
      'too many connections: further ones are closed at once; raise MAX_CONNECTIONS, or the limit of open files';
    expect(logged).toEqual([
      { level: 40, open: 9, limit: 8, refused: 1, msg },
      { level: 40, open: 11, limit: 8, refused: 3, msg },
    ]);
    for (let ended = 0; ended < 4; ended++) connections.closed();
    expect([connections.open, connections.opened(), connections.opened()]).toEqual([7, true, false]);
  });

  it.runIf(process.platform === 'linux')('are no more than files may be open', () =>
    // Another thread may open a file meanwhile.
    eventually(() => {
      logged = [];
      const [, soft] = /open files +(\d+)/.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
      const possible = Number(soft) - readdirSync('/proc/self/fd').length - 32;
      const limits = [possible, possible + 1, undefined].map(
        (maxConnections) => divideConnections({ maxConnections }, recording).http.limit,
      );
      expect(limits).toEqual([possible, possible, possible]);
      const msg =
        'the limit of open files allows fewer connections than MAX_CONNECTIONS; raise it (ulimit -n, LimitNOFILE)';
      expect(logged).toEqual([{ level: 40, maxConnections: possible + 1, possible, msg }]);
    }),
  );

  it('are divided: gRPC has a quarter, METRICS_ADDR its own', async () => {
    const limitsOf = (wanted: Parameters<typeof divideConnections>[0]) => {
      const { http, grpc, metrics } = divideConnections(wanted, log);
      return [http.limit, grpc?.limit, metrics?.limit];
    };
    expect(limitsOf({ maxConnections: 50 })).toEqual([50, undefined, undefined]);
    expect(limitsOf({ maxConnections: 50, grpcPort: 0 })).toEqual([38, 12, undefined]);
    expect(limitsOf({ maxConnections: 1, grpcPort: 0 })).toEqual([1, 1, undefined]);
    expect(limitsOf({ maxConnections: 50, metricsAddr: '127.0.0.1:0' })).toEqual([50, undefined, 64]);
    // Another thread may open a file meanwhile.
    await eventually(() => {
      const [all = 0] = limitsOf({});
      expect(limitsOf({ metricsAddr: '127.0.0.1:0' })[0]).toBe(all - 64);
    });
  });

  it('are half of what there is in a guard, which needs the other half for the tool server', () =>
    eventually(() => {
      const { http, upstream } = divideForGuard({}, log);
      const half = Math.floor(divideConnections({}, log).http.limit / 2);
      expect([http.limit, upstream]).toEqual([upstream, half]);
      expect(divideForGuard({ maxConnections: 3 }, log)).toMatchObject({ http: { limit: 3 }, upstream });
    }));
});
