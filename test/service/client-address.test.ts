import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clientAddressOf, readProxyTrust, type ProxyTrust } from '../../src/service/http/client-address.js';

const trusting = (text: string): ProxyTrust => {
  const trust = readProxyTrust(text);
  if ('problem' in trust) throw new Error(trust.problem);
  return trust;
};
const of = (trust: string | null, peer: string, forwardedFor: string | null) =>
  clientAddressOf(trust === null ? null : trusting(trust), peer, forwardedFor);

describe('the address of a client', () => {
  it('is that of the connection where no proxy is trusted', () => {
    expect(of(null, '192.0.2.1', '198.51.100.7')).toBe('192.0.2.1');
  });

  it('is what the outermost of so many proxies has seen', () => {
    expect(of('1', '10.0.0.1', '198.51.100.7')).toBe('198.51.100.7');
    expect(of('1', '10.0.0.1', 'spoofed, 203.0.113.5,198.51.100.7')).toBe('198.51.100.7');
    expect(of('2', '10.0.0.1', '203.0.113.5, 198.51.100.7, 10.0.0.2')).toBe('198.51.100.7');
    expect(of('1', 'unix', '198.51.100.7')).toBe('198.51.100.7');
    // A client that came through fewer proxies.
    expect(of('3', '10.0.0.1', '198.51.100.77')).toBe('198.51.100.77');
    expect(of('3', '10.0.0.1', null)).toBe('10.0.0.1');
  });

  it('is the last one that is no proxy', () => {
    const trust = '10.0.0.0/8,fd00::/8,2001:db8::5';
    expect(of(trust, '192.0.2.1', '198.51.100.7')).toBe('192.0.2.1');
    expect(of(trust, '10.0.0.1', '203.0.113.5, 198.51.100.7, 10.9.9.9')).toBe('198.51.100.7');
    expect(of(trust, 'fd12::1', '198.51.100.7,2001:db8::5')).toBe('198.51.100.7');
    expect(of(trust, '::ffff:10.0.0.1', '198.51.100.7')).toBe('198.51.100.7');
    expect(of(trust, '0000:0000:0000:0000:0000:ffff:0a00:0001', '198.51.100.7')).toBe('198.51.100.7');
    expect(of(trust, '10.0.0.1', '10.0.0.7, 10.0.0.8')).toBe('10.0.0.7');
    expect(of(trust, 'unix', '198.51.100.7')).toBe('unix');
    expect(of(trust, 'unknown', '198.51.100.7')).toBe('unknown');
    expect(of(`${trust},unix`, 'unix', '198.51.100.7')).toBe('198.51.100.7');
  });

  it.each([
    ['198.51.100.7:4711', '198.51.100.7'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['  2001:db8::1\t', '2001:db8::1'],
    ...[
      ...[
        '',
        ' ',
        'unknown',
        '_hidden',
        'for=198.51.100.7',
        '198.51.100',
        '198.51.100.7:x',
        '1.2.3.4:123456',
      ],
      ...['x[2001:db8::1]:80', '[2001:db8::1]:80x', '198.51.100.7:80:81', 'x:198.51.100.7:80', 'x:80'],
      ...['[198.51.100.7]', '[2001:db8::1', '2001:db8::1]:80', 'fe80::1%eth0', '198.51.100.7\n{"level":60}'],
      ...['\u001b[2J', '0x7f.1', '010.0.0.1', 'a'.repeat(5000), '2001:db8::1%'.padEnd(5000, 'z')],
    ].map((odd) => [odd, '10.0.0.1']),
  ])('is read from %j as %s', (entry, address) => {
    expect(of('1', '10.0.0.1', `203.0.113.5,${entry}`)).toBe(address);
    expect(of('10.0.0.0/8', '10.0.0.1', `203.0.113.5,${entry}`)).toBe(address);
  });

  it('is sought in the end of a long header only', () => {
    const long = `${'198.51.100.7,'.repeat(5000)}10.0.0.2`;
    expect(of('1', '10.0.0.1', long)).toBe('10.0.0.2');
    expect(of('10.0.0.0/8', '10.0.0.1', long)).toBe('198.51.100.7');
    expect(of('10.0.0.0/8', '10.0.0.1', '10.0.0.3,'.repeat(5000).slice(0, -1))).toBe('10.0.0.3');
  });

  const address = fc.oneof(fc.ipV4(), fc.ipV6());
  const junk = fc.oneof(
    fc.string(),
    address,
    fc.constantFrom(',', ', ,', 'unknown', '"', '[', '10.0.0.1,10.0.0.2'),
  );

  it('can be chosen by no header of a client, where the proxies append', () => {
    fc.assert(
      fc.property(
        fc.array(junk, { maxLength: 5 }),
        address,
        fc.array(fc.ipV4(), { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        fc.constantFrom(',', ', '),
        (sent, client, proxies, ownHeader, separator) => {
          // The client calls the first proxy, which calls the second, and so on; the last one is our peer.
          const headers = [...sent];
          for (const seen of [client, ...proxies.slice(0, -1)]) {
            const last = headers.pop();
            if (last === undefined) headers.push(seen);
            else if (ownHeader) headers.push(last, seen);
            else headers.push(`${last}${separator}${seen}`);
          }
          const peer = proxies.at(-1) ?? '';
          expect(of(String(proxies.length), peer, headers.join(','))).toBe(client);
          const list = [...new Set(proxies)].join(',');
          if (!proxies.includes(client)) expect(of(list, peer, headers.join(','))).toBe(client);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('is never other text than the peer or an address', () => {
    fc.assert(
      fc.property(
        fc.array(junk),
        fc.constantFrom('1', '3', '16', '10.0.0.0/8', '::/1,0.0.0.0/1'),
        (sent, trust) => {
          expect(of(trust, '10.0.0.1', sent.join(','))).toMatch(/^[\da-f.:]{2,45}$/i);
        },
      ),
    );
  });
});

it.each([
  ['10.0.0.0/16', '10.0.0.1', '10.1.0.1'],
  [' 10.0.0.0/8 , 192.168.0.0/16 ', '192.168.1.1', '192.169.0.1'],
  ['2001:db8::/48', '2001:db8::1', '2001:db8:1::1'],
  ['2001:db8::5', '2001:db8::5', '2001:db8::6'],
  ['unix', 'unix', '10.0.0.1'],
  [Array(100).fill('10.0.0.1').join(), '10.0.0.1', '10.0.0.2'],
])('TRUST_PROXY=%s trusts %s, and not %s', (text, proxy, other) => {
  expect(of(text, proxy, '198.51.100.7')).toBe('198.51.100.7');
  expect(of(text, other, '198.51.100.7')).toBe(other);
});

it.each([
  ['a%10.0.0.1', /is not a network/],
  ['a/10.0.0.1', /is not a network/],
  ['0', /expected 1 to 16 proxies/],
  ['17', /expected 1 to 16 proxies/],
  ['true', /"true" is not a network/],
  ['10.0.0.0/33', /is not a network/],
  ['10.0.0.0/8,', /"" is not a network/],
  ['fd00::/129', /is not a network/],
  ['fe80::1%eth0', /is not a network/],
  ['10.0.0.0/0', /every address/],
  ['::/0', /every address/],
  ['localhost', /is not a network/],
  [Array(101).fill('10.0.0.1').join(), /at most 100/],
])('TRUST_PROXY=%s is refused', (text, says) => {
  expect(readProxyTrust(text)).toEqual({ problem: expect.stringMatching(says) as string });
});
