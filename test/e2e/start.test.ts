import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { cannotListen } from '../../src/service/http/front-end.js';
import { problemsOf } from '../service/problems-of.js';
import { eventually } from '../support/eventually.js';
import { startOnPort } from '../support/ports.mjs';
import { failureOf } from '../support/service-in-process.js';
import { runToExit, startService } from '../support/service.js';

// The front end plays no part here, so once is enough.
if (process.env['TEST_FRONT_END'] !== 'node') {
  describe('the configuration', () => {
    it('names every problem of the configuration in one message, never a secret, and exits with 2', async () => {
      const { code, stderr, stdout } = await runToExit({
        PORT: '70000',
        MAX_BODY_BYTES: '1MB',
        WORKER_THREADS: '-1',
        TRUSTED_ROOTS: 'did:web:example.org,did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw',
        STATUS_LIST_BASE_URL: 'ftp://example.org',
        LOG_LEVEL: 'loud',
        CLOCK_SKEW_SECS: '1.5',
        DRS_ADMIN_TOKEN: 'hush-hush',
        TRUSTED_ROOT: 'did:key:z6Mk',
        SERVER_IDENTITY: ' ',
      });
      expect(code).toBe(2);
      for (const says of [
        /PORT is "70000": .*65535/,
        /MAX_BODY_BYTES is "1MB": .*number/,
        /WORKER_THREADS is "-1": .*0 to 256/,
        /TRUSTED_ROOTS is .*did:web:example\.org/,
        /STATUS_LIST_BASE_URL is "ftp:/,
        /LOG_LEVEL is "loud": .*"info"/,
        /CLOCK_SKEW_SECS is "1.5": .*whole number of seconds/,
        /TRUSTED_ROOT is not a variable/,
        /SERVER_IDENTITY is empty/,
      ]) {
        expect(stderr).toMatch(says);
      }
      expect(stderr).not.toContain('hush-hush');
      expect(stdout).toBe('');
    });

    it('logs no secret, and warns of a short token', async () => {
      const service = await startService({
        STATUS_LIST_BASE_URL: 'http://me:pa55@127.0.0.1:9/list?key=k3y',
        DRS_ADMIN_TOKEN: 'hush-hush',
        WORKER_THREADS: '0',
      });
      expect(await service.stop()).toBe(0);
      const text = JSON.stringify(service.log);
      expect(text).toContain('http://127.0.0.1:9/list');
      expect(text).not.toMatch(/pa55|k3y|hush-hush/);
      const warnings = service.log.filter(({ level }) => level === 40).map(({ msg }) => String(msg));
      expect(warnings).toContainEqual(expect.stringMatching(/^DRS_ADMIN_TOKEN is shorter/));
    });

    it('goes on without WebAssembly, where no list can be fetched, and says so', async () => {
      const service = await startService({
        NODE_OPTIONS: '--jitless',
        STATUS_LIST_BASE_URL: 'http://127.0.0.1:9/list',
        WORKER_THREADS: '0',
      });
      const fetched = () => service.log.map(({ msg }) => String(msg)).join('\n');
      await eventually(() => expect(fetched()).toMatch(/cannot be fetched: Node has no WebAssembly/));
      expect((await fetch(`${service.url}/readyz`)).status).toBe(503);
      expect((await fetch(`${service.url}/healthz`)).status).toBe(200);
      expect(await service.stop()).toBe(0);
    });

    it('does not start with a name that is one slip away from one of its own', () => {
      expect(problemsOf({ TRUSTED_ROOT: 'did:key:z6Mk' })).toEqual([
        expect.stringContaining('TRUSTED_ROOT is not a variable'),
      ]);
    });

    it.each(['TRUSTED_ROOTS', 'SERVER_IDENTITY', 'STATUS_LIST_ISSUER'])(
      'does not start with an empty list, which would trust anybody: %s',
      (name) => {
        expect(problemsOf({ [name]: ' ' })).toEqual([expect.stringContaining(`${name} is empty`)]);
      },
    );
  });
}

describe('starting', () => {
  it('refuses a port that another program has', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const failure = await failureOf({ PORT: String(port) });
    const says = expect.stringContaining(`cannot listen on 127.0.0.1:${port}`) as string;
    expect(failure).toEqual({ code: 1, says });
    other.close();
  });

  it('says of a low port who may listen on it', () => {
    const messageOf = (port: number) => cannotListen({ host: '127.0.0.1', port, isShared: false }).message;
    expect(messageOf(80)).toContain('ports below 1024 are for root, or for whoever has CAP_NET_BIND_SERVICE');
    expect(messageOf(1024)).not.toContain('root');
  });

  it('logs once why it cannot', async () => {
    const { code, stdout, stderr } = await runToExit({ DECISION_LOG: '/no/folder/log' });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/DECISION_LOG.*ENOENT/)]);
    const message = /^drs-verify cannot start: (.+)$/m.exec(stderr)?.[1];
    const { err } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as { err: Error };
    expect(err.message).toBe(message);
    expect(err.cause).toMatchObject({ message: expect.stringContaining('ENOENT') as unknown });
  });

  it('counts an empty variable as unset, and refuses a port that another drs-verify has', async () => {
    // A port that the system chose, uWebSockets.js never shares.
    const unset = { MAX_BODY_BYTES: '', STATUS_LIST_BASE_URL: ' ', WORKER_THREADS: '0' };
    const first = await startOnPort((port) => startService({ PORT: String(port), ...unset }));
    const { code, stderr } = await runToExit({ PORT: String(first.port) });
    expect([code, stderr]).toEqual([1, expect.stringContaining('another process has the port')]);
    expect((await fetch(`${first.url}/healthz`)).status).toBe(200);
    expect(await first.stop('SIGINT')).toBe(0);
  });
});
