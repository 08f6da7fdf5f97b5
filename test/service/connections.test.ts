import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { endianness } from 'node:os';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Connections, divideConnections, divideForGuard } from '../../src/service/load/connections.js';
import { censusOf, countIn, Holders, type Census } from '../../src/service/load/holders.js';
import { eventually } from '../support/eventually.js';
import { connectRaw } from '../support/raw-http.js';

const log = pino({ level: 'silent' });
let logged: unknown[] = [];
const recording = pino({ base: null, timestamp: false }, { write: (line) => logged.push(JSON.parse(line)) });
afterEach(() => {
  logged = [];
  vi.restoreAllMocks();
});
const neverAsked = (): string => {
  throw new Error('asked');
};

describe('the connections of a listener', () => {
  it('are counted up to the limit, and asked for their address only where few are free', () => {
    const connections = new Connections(8, log);
    connections.listenOn(1);
    const opened = Array.from({ length: 7 }, () => connections.opened(neverAsked));
    expect([...opened.map(Number), connections.open]).toEqual([1, 1, 1, 1, 1, 1, 1, 7]);
    expect(() => connections.opened(neverAsked)).toThrow('asked');
  });

  it('have no shares over a Unix socket, whose clients have no addresses', () => {
    const connections = new Connections(8, log);
    connections.listenOn(0);
    const opened = Array.from({ length: 9 }, () => connections.opened(neverAsked));
    expect(opened.filter(Boolean)).toHaveLength(8);
    expect([connections.open, connections.accepted, connections.refused]).toEqual([9, 9, 1]);
    for (const _ of opened) connections.closed();
    expect(connections.open).toBe(0);
  });

  it('are refused to a client that has its share, and to all above the limit; logged once in ten seconds', () => {
    let now = 5000;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const connections = new Connections(8, recording);
    connections.listenOn(1);
    for (let open = 0; open < 7; open++) connections.opened(neverAsked);
    const openAndClose = (client: string) => {
      const isOpen = connections.opened(() => client);
      connections.closed();
      return isOpen;
    };
    // Nobody knows whose connection has ended, so these count until the table of the kernel is looked at again.
    expect(Array.from({ length: 8 }, () => openAndClose('192.0.2.1'))).toEqual([
      ...Array<boolean>(7).fill(true),
      false,
    ]);
    expect(openAndClose('192.0.2.2')).toBe(true);
    now += 9999;
    expect(connections.opened(() => '192.0.2.1')).toBe(true);
    expect(openAndClose('192.0.2.2')).toBe(false);
    now++;
    expect(openAndClose('192.0.2.2')).toBe(false);
    const line = (open: number, refused: number, reason: string) => ({
      level: 40,
      open,
      limit: 8,
      refused,
      msg: `${reason}; raise MAX_CONNECTIONS, or the limit of open files`,
    });
    expect(logged).toEqual([
      line(8, 1, 'one client holds most of the connections: its further ones are closed at once'),
      line(9, 3, 'too many connections: further ones are closed at once'),
    ]);
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

describe('who holds connections', () => {
  it('is looked up at most once a second, and counted in between', () => {
    let [looks, now] = [0, 1000];
    const look = (): Census => {
      looks++;
      // A second process has as many connections on the same port.
      return {
        total: 20,
        byClient: new Map([
          ['192.0.2.1', 16],
          ['192.0.2.2', 4],
        ]),
      };
    };
    const holders = new Holders(look, () => now);
    expect([holders.heldBy('192.0.2.1', 10), holders.heldBy('192.0.2.2', 10)]).toEqual([8, 2]);
    holders.add('192.0.2.2');
    holders.add('192.0.2.3');
    now += 999;
    const held = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'].map((each) => holders.heldBy(each, 10));
    expect([...held, looks]).toEqual([8, 3, 1, 0, 1]);
    now++;
    expect([holders.heldBy('192.0.2.2', 10), looks]).toEqual([2, 2]);
  });

  it('is looked up for a twentieth of the time, where that takes long', () => {
    let [looks, now] = [0, 1000];
    const holders = new Holders(
      () => {
        looks++;
        now += 100;
        return null;
      },
      () => now,
    );
    const looksAfter = (ms: number) => {
      now += ms;
      holders.heldBy('192.0.2.1', 10);
      return looks;
    };
    expect([looksAfter(0), looksAfter(1999), looksAfter(1)]).toEqual([1, 1, 2]);
  });

  it('is nobody where the system does not tell', () => {
    expect(new Holders(() => null).heldBy('192.0.2.1', 10)).toBe(0);
  });

  it.runIf(endianness() === 'LE')('is read from the table of the kernel', () => {
    const line = (local: string, remote: string, state: string) =>
      `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000\n`;
    const census = { total: 0, byClient: new Map<string, number>() };
    const text = [
      '  sl  local_address rem_address   st tx_queue rx_queue\n',
      line('0100007F:1F90', '00000000:0000', '0A'),
      line('0100007F:1F90', '0200007F:C001', '01'),
      line('0100007F:1F90', '0200007F:C002', '08'),
      line('0100007F:1F90', '0200007F:C003', '06'),
      line('0100007F:1F91', '0200007F:C004', '01'),
      line('0200007F:C005', '0100007F:1F90', '01'),
    ].join('');
    countIn(text, 8080, census);
    const http = { total: 0, byClient: new Map<string, number>() };
    countIn(line('0100007F:0050', '0200007F:C001', '01'), 80, http);
    expect(http.total).toBe(1);
    const six = '00000000000000000000000001000000:1F90';
    countIn(line(six, '0000000000000000FFFF00000200007F:C006', '01'), 8080, census);
    countIn(line(six, 'B80D0120010000000000000007000000:C007', '01'), 8080, census);
    expect([census.total, [...census.byClient]]).toEqual([
      4,
      [
        ['127.0.0.2', 3],
        ['2001:db8:0:1', 1],
      ],
    ]);
  });

  describe.runIf(process.platform === 'linux')('of a real port', () => {
    const server = net.createServer();
    afterEach(() => server.close());

    it('is counted by client', async () => {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const from = ['127.0.0.2', '127.0.0.2', '127.0.0.3'];
      const connections = await Promise.all(from.map((each) => connectRaw(port, each)));
      const census = censusOf(port);
      expect([census?.total, census?.byClient.get('127.0.0.2'), census?.byClient.get('127.0.0.3')]).toEqual([
        3, 2, 1,
      ]);
      for (const { socket } of connections) socket.destroy();
    });
  });
});
