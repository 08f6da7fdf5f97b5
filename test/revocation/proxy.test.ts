import { once } from 'node:events';
import { createServer, request, type IncomingMessage } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openRevocation, type Revocation } from '../../src/revocation/index.js';
import { PROXY_EXCEPTIONS, PROXY_URL, proxyFor } from '../../src/revocation/lists/proxy.js';
import { eventually } from '../support/eventually.js';
import { makeCertificate } from '../support/certificates.js';
import { needs } from '../support/programs.js';
import { ListServer } from './list-server.js';
import { listWith } from './lists.js';
import { Recorder } from './recorder.js';

const VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]);

/** What a proxy was asked for: method, target, and headers that matter. */
const asked: unknown[] = [];
let server: ListServer;
let recorder: Recorder;
let revocation: Revocation | null = null;

beforeEach(async () => {
  asked.length = 0;
  server = await ListServer.start();
  server.serve('application/vc', listWith([7]));
  recorder = new Recorder();
  for (const name of VARIABLES) vi.stubEnv(name, '');
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await revocation?.close();
  revocation = null;
  await server.close();
});

function note({ method, url, headers }: IncomingMessage) {
  asked.push([method, url, headers.host, headers['proxy-authorization'] ?? null]);
}

/** As ordinary proxies are: `http` by the absolute form, and a tunnel to port 443 alone. Every name is the list server. */
async function startProxy(): Promise<{ port: number; close: () => Promise<void> }> {
  const proxy = createServer((incoming, answer) => {
    note(incoming);
    const { pathname } = new URL(incoming.url ?? '', 'http://none');
    const onward = request(new URL(pathname, server.url), { headers: incoming.headers }, (found) => {
      answer.writeHead(found.statusCode ?? 500, found.headers);
      found.pipe(answer);
    });
    onward.end();
  }).on('connect', (incoming: IncomingMessage, socket) => {
    note(incoming);
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const close = async () => {
    proxy.closeAllConnections();
    await promisify(proxy.close.bind(proxy))();
  };
  return { port: (proxy.address() as AddressInfo).port, close };
}

async function open(url: string): Promise<Revocation> {
  revocation = await openRevocation({
    statusList: { url, id: 'any', ttlSecs: 60, maxStaleSecs: 0, maxWaitMs: 2_000 },
    maxEntries: 10,
    log: recorder.log,
    observer: recorder,
  });
  return revocation;
}

describe('a status list behind a proxy', () => {
  it('at http is asked for by its whole URL, with the password of the proxy', async () => {
    const proxy = await startProxy();
    try {
      vi.stubEnv('HTTP_PROXY', `http://me:p%40ss@127.0.0.1:${proxy.port}`);
      const { view } = await open('http://lists.example/drs/1?key=k');
      await recorder.fetched(1);
      const password = `Basic ${Buffer.from('me:p@ss').toString('base64')}`;
      expect(asked).toEqual([['GET', 'http://lists.example/drs/1?key=k', 'lists.example', password]]);
      expect(view.remoteStatusOf(7)).toBe('revoked');
    } finally {
      await proxy.close();
    }
  });

  it('at https is asked for in a tunnel, and a refusal names the variable', async () => {
    const proxy = await startProxy();
    try {
      vi.stubEnv('HTTP_PROXY', 'http://127.0.0.1:1');
      vi.stubEnv('https_proxy', `http://me@127.0.0.1:${proxy.port}`);
      await open('https://lists.example/1');
      const password = `Basic ${Buffer.from('me:').toString('base64')}`;
      await eventually(() =>
        expect(asked).toEqual([['CONNECT', 'lists.example:443', 'lists.example', password]]),
      );
      await eventually(() =>
        expect(recorder.details.map(({ err }) => String(err)).join()).toContain('through https_proxy'),
      );
    } finally {
      await proxy.close();
    }
  });

  it.each(['HTTP_PROXY', 'HTTPS_PROXY'])('on this machine is asked directly, also with %s', async (name) => {
    vi.stubEnv(name, 'http://127.0.0.1:1');
    const { view } = await open(server.url);
    await recorder.fetched(1);
    expect(view.remoteStatusOf(7)).toBe('revoked');
  });
});

it('greets a proxy at https by its own name', needs('openssl'), async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-proxy-'));
  const { certFile, keyFile } = makeCertificate(folder, 'proxy');
  const names: string[] = [];
  const proxy = createTlsServer({
    cert: readFileSync(certFile),
    key: readFileSync(keyFile),
    SNICallback: (name, done) => {
      names.push(name);
      done(null);
    },
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  vi.stubEnv('HTTP_PROXY', `https://localhost:${(proxy.address() as AddressInfo).port}`);
  try {
    await open('http://lists.example/1');
    await eventually(() => expect(names).toEqual(['localhost']));
  } finally {
    await revocation?.close();
    proxy.closeAllConnections();
    await promisify(proxy.close.bind(proxy))();
    rmSync(folder, { recursive: true });
  }
});

describe('the variables of a proxy', () => {
  const through = (url: string, env: Record<string, string>) =>
    proxyFor(new URL(url), env)?.variable ?? 'direct';

  it.each([
    ['http://a.example/', { HTTP_PROXY: 'http://p:1' }, 'HTTP_PROXY'],
    ['http://a.example/', { HTTP_PROXY: 'http://p:1', http_proxy: 'http://q:1' }, 'http_proxy'],
    ['http://a.example/', { HTTP_PROXY: 'http://p:1', http_proxy: ' ' }, 'HTTP_PROXY'],
    ['http://a.example/', { HTTPS_PROXY: 'http://p:1' }, 'direct'],
    ['https://a.example/', { HTTP_PROXY: 'http://p:1' }, 'HTTP_PROXY'],
    ['https://a.example/', { HTTP_PROXY: 'http://p:1', HTTPS_PROXY: 'http://q:1' }, 'HTTPS_PROXY'],
    ['http://a.example/', { HTTP_PROXY: ' ' }, 'direct'],
  ])('%s with %j goes by %s', (url, env, expected) => {
    expect(through(url, env as Record<string, string>)).toBe(expected);
  });

  it.each([
    ['localhost', ''],
    ['a.localhost', ''],
    ['127.8.9.1', ''],
    ['[::1]', ''],
    ['[::ffff:127.0.0.1]', ''],
    ['a.example', '*'],
    ['a.example', 'b.example,a.example'],
    ['a.example', 'b.example a.example'],
    ['a.b.example', '.example'],
    ['a.b.example', '*.B.example'],
    ['b.example', 'example'],
    ['a.example:8080', 'a.example:8080'],
    ['10.1.2.3', '10.0.0.0/8'],
    ['[fd00::5]', 'fd00::/8'],
    ['[fd00::5]:81', '[fd00::5]:81'],
    ['10.1.2.3', '10.1.2.3'],
  ])('%s is asked directly with NO_PROXY=%s', (host, exceptions) => {
    expect(through(`http://${host}/`, { HTTP_PROXY: 'http://p:1', NO_PROXY: exceptions })).toBe('direct');
  });

  it.each([
    ['aa.example', 'a.example'],
    ['a.example.org', 'a.example'],
    ['a.example', 'a.example:8080'],
    ['11.1.2.3', '10.0.0.0/8'],
    ['127.0.0.1.example', ''],
    ['localhost.example', ''],
  ])('%s is asked by the proxy with NO_PROXY=%s', (host, exceptions) => {
    expect(through(`http://${host}/`, { HTTP_PROXY: 'http://p:1', NO_PROXY: exceptions })).toBe('HTTP_PROXY');
  });

  it('are refused by name where they are wrong, also in the library', async () => {
    vi.stubEnv('HTTP_PROXY', 'proxy.corp:3128');
    await expect(open('http://lists.example/1')).rejects.toThrow(
      /^HTTP_PROXY is "proxy\.corp:3128": expected/,
    );
  });

  const isRight = (kind: { check: (value: unknown) => object }, value: string) =>
    !('problem' in kind.check(value));

  it('have a form each', () => {
    for (const url of ['http://p', 'http://p:3128', 'HTTPS://u:p@p.example:3128/', 'http://[::1]:1'])
      expect([url, isRight(PROXY_URL, url)]).toEqual([url, true]);
    for (const url of [
      'p:3128',
      'socks5://p:1',
      'http://',
      'http://p:99999',
      'http://p/x',
      'http://p?x',
      'x y',
    ])
      expect([url, isRight(PROXY_URL, url)]).toEqual([url, false]);
    for (const list of ['*', 'a,b', ' a , b.c:80 ,', '10.0.0.0/8', '::1', '[::1]:80', '_x.example'])
      expect([list, isRight(PROXY_EXCEPTIONS, list)]).toEqual([list, true]);
    for (const list of ['http://a', 'a/8', '10.0.0.0/33', '10.*', '<local>', 'a:b', '[::1', '::1/x'])
      expect([list, isRight(PROXY_EXCEPTIONS, list)]).toEqual([list, false]);
  });
});
