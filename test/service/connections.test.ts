import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { endianness } from 'node:os';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { Connections, divideConnections, divideForGuard } from '../../src/service/load/connections.js';
import { censusOf, countIn, Holders, type Census } from '../../src/service/load/holders.js';
import { connectRaw } from '../support/raw-http.js';

const log = pino({ level: 'silent' });
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

  it('are divided: gRPC has a quarter, METRICS_ADDR its own', () => {
    const limitsOf = (wanted: Parameters<typeof divideConnections>[0]) => {
      const { http, grpc, metrics } = divideConnections(wanted, log);
      return [http.limit, grpc?.limit, metrics?.limit];
    };
    expect(limitsOf({ maxConnections: 50 })).toEqual([50, undefined, undefined]);
    expect(limitsOf({ maxConnections: 50, grpcPort: 0 })).toEqual([38, 12, undefined]);
    expect(limitsOf({ maxConnections: 1, grpcPort: 0 })).toEqual([1, 1, undefined]);
    expect(limitsOf({ maxConnections: 50, metricsAddr: '127.0.0.1:0' })).toEqual([50, undefined, 64]);
    const [all = 0] = limitsOf({});
    expect(limitsOf({ metricsAddr: '127.0.0.1:0' })[0]).toBe(all - 64);
  });

  it('are half of what there is in a guard, which needs the other half for the tool server', () => {
    const { http, upstream } = divideForGuard({}, log);
    expect([http.limit, upstream]).toEqual([upstream, Math.floor(divideConnections({}, log).http.limit / 2)]);
    expect(divideForGuard({ maxConnections: 3 }, log)).toMatchObject({ http: { limit: 3 }, upstream });
  });
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
