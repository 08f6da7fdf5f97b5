import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isNetwork } from '../../src/trust/read-web.js';
import { fetchBounded, type FetchOptions } from '../../src/trust/safe-fetch.js';
import { needs } from '../support/programs.js';
import { ListServer } from '../revocation/list-server.js';
import { mayMakeNetwork, runInNetwork } from './network.js';

const fetchIt = (url: string, options: Partial<FetchOptions> = {}) =>
  fetchBounded(new URL(url), {
    accept: 'application/json',
    maxBytes: 100,
    signal: AbortSignal.timeout(5_000),
    addresses: ['127.0.0.1'],
    ...options,
  });

describe('what is fetched', () => {
  let server: ListServer;
  beforeAll(async () => {
    server = await ListServer.start();
  });
  afterAll(() => server.close());

  it('comes with its type, its ETag and its age', async () => {
    server.respond = (_, response) => {
      const headers = { 'content-type': 'text/x', etag: '"1"', 'cache-control': 'public, max-age=60' };
      response.writeHead(200, headers).end('{}');
    };
    const fetched = await fetchIt(server.url);
    expect(fetched).toEqual({
      body: Buffer.from('{}'),
      contentType: 'text/x',
      etag: '"1"',
      maxAgeMs: 60_000,
    });
    expect(server.requests.at(-1)?.headers).toMatchObject({
      accept: 'application/json',
      connection: 'close',
    });
  });

  it.each([
    ['no-cache', null],
    ['s-max-age=7', null],
    ['max-age=x', null],
    ['no-transform,max-age=0', 0],
  ])('with Cache-Control: %s is kept for %s ms', async (control, maxAgeMs) => {
    server.respond = (_, response) => response.writeHead(200, { 'cache-control': control }).end('{}');
    expect(await fetchIt(server.url)).toMatchObject({ maxAgeMs, contentType: '' });
  });

  it('may not have changed, where an ETag says so', async () => {
    server.serve('text/x', '{}', '"1"');
    expect(await fetchIt(server.url, { etag: '"1"' })).toBe('not_modified');
    server.respond = (_, response) => response.writeHead(304).end();
    await expect(fetchIt(server.url)).rejects.toMatchObject({ fault: 'http_status' });
  });

  it.each([301, 302, 307, 308, 404, 500])('is no answer with %d', async (status) => {
    server.respond = (_, response) => response.writeHead(status, { location: '/other' }).end('{}');
    const asked = server.requests.length;
    await expect(fetchIt(server.url)).rejects.toMatchObject({ fault: 'http_status' });
    expect(server.requests).toHaveLength(asked + 1);
  });

  it.each([
    ['that says so', { 'content-length': '101' }],
    ['that does not', {}],
  ])('is no body of more bytes %s', async (_, headers) => {
    server.respond = (_, response) => {
      response.writeHead(200, headers).write('x'.repeat(50));
      response.end('x'.repeat(51));
    };
    await expect(fetchIt(server.url)).rejects.toMatchObject({ fault: 'too_large' });
    server.serve('text/x', 'x'.repeat(100));
    expect(await fetchIt(server.url)).toMatchObject({ contentType: 'text/x' });
  });

  it('is not packed', async () => {
    server.respond = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('x');
    await expect(fetchIt(server.url)).rejects.toMatchObject({ fault: 'malformed' });
  });

  it('ends with the signal, whose reason is thrown', async () => {
    const stop = new AbortController();
    server.respond = (_, response) => {
      response.writeHead(200).write('x');
      stop.abort(new RangeError('too slow'));
    };
    await expect(fetchIt(server.url, { signal: stop.signal })).rejects.toThrow(RangeError);
  });

  it('is unreachable where connections break, or nobody listens', async () => {
    server.reset();
    await expect(fetchIt(server.url)).rejects.toMatchObject({ fault: 'unreachable' });
    await expect(fetchIt('http://127.0.0.1:1/')).rejects.toThrow(
      /^http:\/\/127.0.0.1:1\/ cannot be fetched: /,
    );
  });

  it.each([
    ['http://127.0.0.1:1', []],
    ['http://example.com', ['0.0.0.0/0']],
    ['ftp://127.0.0.1:1', ['127.0.0.1']],
    ['https://127.0.0.1:1', []],
    ['https://[::1]:1', ['127.0.0.1']],
  ])('is not %s where %j is listed', async (url, addresses) => {
    await expect(fetchIt(url, { addresses })).rejects.toMatchObject({
      fault: 'unreachable',
      message: expect.stringContaining('is not fetched: ') as string,
    });
  });

  it('is what a row lists, by the name of this machine, too', async () => {
    server.serve('text/x', '{}');
    const url = server.url.replace('127.0.0.1', 'localhost');
    expect(await fetchIt(url, { addresses: ['127.0.0.0/8'] })).toMatchObject({ contentType: 'text/x' });
    await expect(fetchIt(url, { addresses: ['10.0.0.0/8'] })).rejects.toThrow('its address is');
  });
});

describe('a network', () => {
  it.each([
    ...['10.0.0.0/8', '10.1.2.3', '0.0.0.0/0', '10.0.0.0/32', '255.249.199.99/9', '100.1.20.0'],
    ...['fd00::/8', '::1', '::ffff:10.0.0.1', '::/128', '::/0', '1:2:3:4:5:6:7:8/100'],
  ])('is %s', (one) => expect(isNetwork(one)).toBe(true));
  it.each([
    ...[
      '',
      '10',
      '1.2.3',
      '1.2.3.',
      '1.2.3.4.',
      '1.2.3.4.5',
      '256.0.0.1',
      '10.0.0.300',
      '01.2.3.4',
      ' 1.2.3.4',
      '1.2.3.4 ',
    ],
    ...[
      '10.0.0.0/33',
      '10.0.0.0/',
      '10.0.0.0/08',
      '10.0.0.0/-1',
      '10.0.0.0/x',
      '10.0.0.0/1x',
      '10.0.0.0/8/8',
    ],
    ...[
      'fd00::/129',
      'fd00::/1000',
      ':',
      ':::',
      '1:2',
      'FD00::1',
      '[::1]',
      'fe80::1%lo',
      '::1/x',
      'localhost',
      'a:b',
    ],
  ])('is not %j', (one) => expect(isNetwork(one)).toBe(false));
});

/** By the address, or the host of a URL: how somebody could spell a machine inside. Names are those of the child's name server. */
const INSIDE = [
  ...[
    '127.0.0.1',
    '127.1',
    '127.255.255.254',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '127.0.0.1.',
  ],
  ...['１２７.0.0.1', '0', '0.0.0.0', '10.1.2.3', '012.1.2.3', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
  ...[
    '100.64.0.1',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '168.63.129.16',
    '192.0.0.192',
    '198.18.0.1',
  ],
  ...[
    '192.88.99.1',
    '203.0.113.9',
    '255.255.255.255',
    '[::]',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
  ],
  ...[
    '[::ffff:7f00:1]',
    '[::ffff:93.184.215.14]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b:1::a00:1]',
  ],
  ...[
    '[2002:7f00:1::]',
    '[2002:a01:203::1]',
    '[2001:0:7f00:1::]',
    '[2001:db8::1]',
    '[fe80::1]',
    '[fd00:ec2::254]',
  ],
  ...[
    '[fc00::1]',
    '[100::1]',
    '[5f00::1]',
    'localhost',

    'LOCALHOST',
    '127-0-0-1.names.test',
    '10-1-2-3.names.test',
  ],
  ...[
    '169-254-169-254.names.test',
    '__1.names.test',
    '__ffff_7f00_1.names.test',
    '64_ff9b__a00_1.names.test',
    '2002_7f00_1__1.names.test',
  ],
  ...['fd00__1.names.test', '10-1-2-3--__1--fd00__1.names.test'],
];
const PUBLIC = [
  ...[
    '93.184.215.14',
    '0x5db8d70e',
    '[2606:4700::1111]',
    '93-184-215-14.names.test',
    '2606_4700__1111.names.test',
  ],
  ...[
    '93-184-215-14--127-0-0-1.names.test',
    '172.15.255.255',
    '172.32.0.1',
    '100.128.0.1',
    '223.255.255.255',
  ],
];

interface Row {
  readonly url: string;
  readonly addresses?: readonly string[];
  readonly isNaive?: boolean;
}

if (mayMakeNetwork) {
  describe('a server at an address', needs('ip', 'unshare', 'openssl'), () => {
    async function outcomesOf(rows: readonly Row[]) {
      type Outcome = { readonly outcome: string; readonly met: readonly string[] };
      const outcomes = await runInNetwork<Outcome[]>('ssrf-child.mjs', { rows });
      return outcomes.map(({ outcome, met }, at) => ({ url: rows[at]?.url, outcome, met }));
    }

    it('inside is not connected to, however it is spelled', { timeout: 60_000 }, async () => {
      expect(INSIDE.length).toBeGreaterThanOrEqual(40);
      const rows = INSIDE.map((host) => ({ url: `https://${host}/` }));
      for (const { outcome, met, url } of await outcomesOf(rows)) {
        expect(outcome, url).toMatch(/^unreachable: FetchError: .* is not fetched: its address is /);
        expect(met, url).toEqual([]);
      }
    });

    it('outside is connected to, whatever its certificate says', { timeout: 60_000 }, async () => {
      for (const { url, met } of await outcomesOf(PUBLIC.map((host) => ({ url: `https://${host}/` }))))
        expect(met, url).toHaveLength(1);
    });

    it('is the one that was looked at, although the name server says another one the next time', async () => {
      const name = 'rebind--93-184-215-14--127-0-0-1.names.test';
      const listed = ['127.0.0.1', '10.0.0.0/8'];
      const to = (place: string) => `/to/${encodeURIComponent(place)}`;
      const found = await outcomesOf([
        // Who looks first, and then fetches, is led inside.
        { url: `https://${name.replace('14', '15')}/`, isNaive: true },
        { url: `https://${name}/` },
        { url: `https://${name}/` },
        { url: 'https://93-184-215-14--127-0-0-1.names.test/' },
        { url: 'https://127-0-0-1.names.test/', addresses: listed },
        { url: 'https://10-1-2-3.names.test/', addresses: listed },
        { url: 'https://10-1-2-3.names.test/', addresses: ['10.1.2.4', '10.1.2.0/31'] },
        { url: `https://93-184-215-14.names.test${to('https://127.0.0.1/')}` },
        { url: `https://93-184-215-14.names.test${to('http://169.254.169.254/latest/meta-data')}` },
        { url: `https://93-184-215-14.names.test${to('//127-0-0-1.names.test/')}`, addresses: listed },
        { url: 'http://127.0.0.1/', addresses: listed },
        { url: 'http://localhost/', addresses: listed },
        { url: 'http://127-0-0-1.names.test/', addresses: listed },
        { url: 'http://93.184.215.14/', addresses: ['93.184.215.14'] },
        { url: 'https://nobody.names.test/' },
      ]);
      const inside = '::ffff:127.0.0.1';
      const outside = '::ffff:93.184.215.14';
      expect(found.map(({ outcome, met }) => [outcome.replace(/:.*/s, ''), ...met])).toEqual([
        ['fetched', inside],
        ['fetched', outside],
        ['unreachable'],
        ['fetched', outside],
        ['fetched', inside],
        ['fetched', '::ffff:10.1.2.3'],
        ['unreachable'],
        ['http_status', outside],
        ['http_status', outside],
        ['http_status', outside],
        ['fetched', inside],
        ['fetched', inside],
        ['unreachable'],
        ['unreachable'],
        ['unreachable'],
      ]);
    });
  });
}
