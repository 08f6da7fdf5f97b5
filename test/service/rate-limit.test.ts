import { describe, expect, it } from 'vitest';
import { clientOf } from '../../src/service/http/client-address.js';
import { RateLimit } from '../../src/service/load/rate-limit.js';

/** Whether requests of a client are within the limits, at these milliseconds. */
const admitted = (limit: RateLimit, client: string, ...times: number[]) =>
  times.map((now) => limit.admit(client, now) === 0);

describe('a rate limit', () => {
  it('admits the requests of one period at once, and later ones as time passes', () => {
    const limit = new RateLimit(2, 0);
    expect(admitted(limit, 'a', 0, 0, 0, 499, 500, 500, 1000)).toEqual([
      ...[true, true, false],
      ...[false, true, false, true],
    ]);
    // However long it rested.
    expect(admitted(limit, 'a', 100_000, 100_000, 100_000)).toEqual([true, true, false]);
  });

  it('says after how many seconds to try again', () => {
    const limit = new RateLimit(2, 0);
    expect([limit.admit('a', 0), limit.admit('a', 0), limit.admit('a', 0)]).toEqual([0, 0, 0.5]);
    expect([limit.admit('a', 250), limit.admit('a', 500)]).toEqual([0.25, 0]);
    const perMinute = new RateLimit(1, 0, 60);
    expect([perMinute.admit('a', 0), perMinute.admit('a', 15_000)]).toEqual([0, 45]);
  });

  it('counts each client by itself', () => {
    const limit = new RateLimit(1, 0);
    expect(admitted(limit, 'a', 0, 0)).toEqual([true, false]);
    expect(admitted(limit, 'b', 0, 0)).toEqual([true, false]);
  });

  it('counts all together, but not what a client was refused', () => {
    const limit = new RateLimit(1, 3);
    expect(admitted(limit, 'a', 0, 0, 0, 0)).toEqual([true, false, false, false]);
    const others = ['b', 'c', 'd'].map((client) => limit.admit(client, 0) === 0);
    expect(others).toEqual([true, true, false]);
    expect(limit.admit('e', 250)).toBeCloseTo(1 / 12);
    expect(limit.admit('f', 1000)).toBe(0);
  });
});

describe('a client', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['0:0:0:0:0:FFFF:c000:201', '192.0.2.1'],
    ['0000:0000:0000:0000:0000:ffff:c000:0201', '192.0.2.1'],
    ['2001:db8:0:1::1', '2001:db8:0:1'],
    ['2001:0db8:0000:0001:0abc:def0:1234:5678', '2001:db8:0:1'],
    ['2001:db8:0:2::', '2001:db8:0:2'],
    ['::ffff:0:192.0.2.1', '0:0:0:0'],
    ['0:0:0:1:0:ffff:192.0.2.1', '0:0:0:1'],
    ['::1:2:3:4:5:6:7', '0:1:2:3'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4'],
    ['1::2:3:4:5:6:7', '1:0:2:3'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['::ffff:192.0.2.1%eth0', '192.0.2.1'],
    ['::1', '0:0:0:0'],
    // An address of the network 64:ff9b::/96 is not mapped.
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0'],
    ['', ''],
    ['unknown', 'unknown'],
  ])('is an IPv4 address, however it is written, or the first half of an IPv6 address: %s', (text, client) =>
    expect(clientOf(text)).toBe(client),
  );
});
