import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { problemsOf } from '../service/problems-of.js';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { failureOf, startService as startServiceHere } from '../support/service-in-process.js';
import { runToExit, startService, type Environment } from '../support/service.js';
import { needs } from '../support/programs.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-unix-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function started(socketPath: string, env: Environment = {}) {
  const service = await startService({ LISTEN: `unix:${socketPath}`, WORKER_THREADS: '0', ...env });
  const client = new Client('http://drs', { socketPath });
  const ask = async (target: string, body?: object, headers: Record<string, string> = {}) => {
    const { statusCode, body: answer } = await client.request({
      path: target,
      method: body === undefined ? 'GET' : 'POST',
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: statusCode, text: await answer.text() };
  };
  return { service, ask, client };
}

describe('a service on a Unix socket', { shuffle: false }, () => {
  // As long as the system allows.
  const socketPath = path.join(folder, 'x'.repeat(107 - folder.length - 1));
  let running: Awaited<ReturnType<typeof started>>;
  beforeAll(async () => {
    running = await started(socketPath, { PORT: '1', HOST: '0.0.0.0' });
  });
  afterAll(() => running.service.stop('SIGKILL'));

  it('serves on a Unix socket, which is there for owner and group', async () => {
    expect(Buffer.byteLength(socketPath)).toBe(107);
    const { service, ask } = running;
    expect(service.log.find(({ msg }) => msg === 'listening')).toMatchObject({
      url: `unix:${socketPath}`,
      host: null,
      port: null,
    });
    expect(statSync(socketPath).mode & 0o777).toBe(0o660);
    expect(JSON.parse((await ask('/verify', makeBundle(2))).text)).toMatchObject({ valid: true });
    const foreign = await ask('/verify', makeBundle(1), { Origin: 'https://elsewhere.example' });
    expect(foreign.status).toBe(403);
  });

  it('answers curl, as docs/operations.md has it', needs('curl'), () => {
    const health = execFileSync('curl', ['-fsS', '--unix-socket', socketPath, 'http://drs/healthz'], {
      encoding: 'utf8',
    });
    expect(health).toBe('{"status":"ok"}');
  });

  it('takes the place of a socket that nobody listens on, but not of one that somebody does', async () => {
    const { code, stderr } = await runToExit({ LISTEN: `unix:${socketPath}` });
    expect([code, stderr]).toEqual([1, expect.stringContaining('another process listens there')]);
    await running.client.close();
    // If it is killed, it leaves its file behind.
    await running.service.stop('SIGKILL');
    expect(existsSync(socketPath)).toBe(true);
    running = await started(socketPath, {
      LISTEN_MODE: '600',
      RATE_LIMIT_PER_IP: '2',
      DRS_ADMIN_TOKEN: 'the-admin-token-of-this-test',
    });
    expect((await running.ask('/healthz')).status).toBe(200);
  });

  it('gives the socket the permissions that LISTEN_MODE says', () => {
    expect(statSync(socketPath).mode & 0o777).toBe(0o600);
  });

  it('counts all who call over it as one client, and calls them unix in the log', async () => {
    const { service, ask } = running;
    const statuses = [];
    // More of them where a call takes so long that another one is allowed meanwhile.
    do statuses.push((await ask('/verify', {})).status);
    while (!statuses.includes(429) && statuses.length < 1000);
    expect(statuses.slice(0, 2)).toEqual([200, 200]);
    expect(statuses).toContain(429);
    await ask('/admin/revoke', { status_list_index: 1 }, { Authorization: 'Bearer guess' });
    await eventually(() =>
      expect(service.log.find(({ msg }) => msg === 'admin')).toMatchObject({ address: 'unix' }),
    );
  });

  it('serves on a Unix socket that is gone when it stops', async () => {
    await running.client.close();
    expect(await running.service.stop()).toBe(0);
    expect(readdirSync(folder)).not.toContain(path.basename(socketPath));
  });
});

it('leaves METRICS_ADDR on TCP, where callers have addresses', async () => {
  const socketPath = path.join(folder, 'both.sock');
  const { service, client } = await started(socketPath, {
    ...{ METRICS_ADDR: '127.0.0.1:0', ADMIN_ON_METRICS_ADDR: '1' },
    DRS_ADMIN_TOKEN: 'the-admin-token-of-this-test',
  });
  const { url, metricsUrl } = service.log.find(({ msg }) => msg === 'listening') ?? {};
  expect([url, metricsUrl]).toEqual([`unix:${socketPath}`, expect.stringMatching(/^http:.*\/metrics$/)]);
  await fetch(new URL('/admin/revoke', String(metricsUrl)), { method: 'POST', body: '{}' });
  await eventually(() =>
    expect(service.log.find(({ msg }) => msg === 'admin')).toMatchObject({ address: '127.0.0.1' }),
  );
  await client.close();
  await service.stop();
});

it('removes no socket that is not its own', async () => {
  const socketPath = path.join(folder, 'other.sock');
  const service = await startServiceHere({ LISTEN: `unix:${socketPath}` });
  rmSync(socketPath);
  const other = createServer().listen(socketPath);
  await once(other, 'listening');
  await service.stop();
  // `node:http` removes whatever has the name.
  if (service.log.some(({ frontEnd }) => frontEnd === 'uws')) expect(existsSync(socketPath)).toBe(true);
  other.close();
});

it('does not start where it cannot listen', async () => {
  const file = path.join(folder, 'file');
  writeFileSync(file, 'precious');
  const long = `unix:/${'x'.repeat(107)}`;
  for (const [listen, says] of [
    ['unix:x.sock', /expected unix: and an absolute path/],
    ['/run/x.sock', /LISTEN is "\/run\/x\.sock": expected unix: and an absolute path/],
    ['unix:/tmp/', /expected unix: and an absolute path/],
    [long, /the path has 108 bytes, expected at most 107/],
  ] as const)
    expect(problemsOf({ LISTEN: listen })).toEqual([expect.stringMatching(says)]);
  expect(problemsOf({ LISTEN: 'unix:/tmp/x', LISTEN_MODE: '888' })).toEqual([
    expect.stringMatching(/LISTEN_MODE is "888": expected three octal digits/),
  ]);
  for (const [listen, says] of [
    [`unix:${file}`, /there is a file that is not a socket/],
    [`unix:${folder}/no/such.sock`, /its folder does not exist/],
  ] as const)
    expect(await failureOf({ LISTEN: listen })).toEqual({
      code: 1,
      says: expect.stringMatching(says) as string,
    });
  expect(statSync(file).size).toBe(8);
});
