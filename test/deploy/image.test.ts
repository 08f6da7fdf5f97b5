import { execFile, execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import {
  installedFor,
  SERVICE_PACKAGES,
  serviceManifest,
  type Locked,
} from '../../scripts/service-packages.mjs';
import { readConfiguration, VARIABLES } from '../../src/service/configuration/configuration.js';
import { liveCall, liveChain } from '../middleware/call.js';
import { ended, hasEnded } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { isInstalled } from '../support/needed-programs.mjs';
import { startOnPort } from '../support/ports.mjs';
import { RedisServer } from '../usage/redis-server.js';
import { buildImage, type Image } from './image.js';
import { needs } from '../support/programs.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');
const COMMIT = 'c0ffee'.padEnd(40, '0');

/** Whether this process may make the namespaces of a container. */
const canIsolate =
  !isInstalled('bwrap') ||
  spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', 'true'], { stdio: 'ignore' }).status === 0;

interface Container {
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  /** Ends it with a signal. Resolves with its exit code. */
  stop(signal: NodeJS.Signals): Promise<number | null>;
}

describe('the image', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-image-'));
  let image: Image;
  let running: ChildProcess | null = null;
  // The build takes seconds of processor time, which can be minutes on a busy machine.
  beforeAll(async () => {
    const given = { DRS_COMMIT: COMMIT };
    image = await buildImage(folder, read('deploy/Dockerfile'), read('.dockerignore'), given);
  }, 900_000);
  afterEach(() => running?.kill('SIGKILL'));
  // It holds all packages several times: Node would take three times as long as this program.
  afterAll(() => execFileSync('rm', ['-rf', folder]));

  const workdir = () => path.join(image.root, image.workdir);
  const execute = (
    [program, ...args]: readonly [string, ...string[]],
    env: Readonly<Record<string, string>>,
  ) => promisify(execFile)(program, args, { cwd: workdir(), env });
  const inside = (env: Readonly<Record<string, string>>) => ({
    PATH: process.env['PATH'] ?? '',
    ...image.env,
    // Ports that nobody else on this machine has.
    ...{ PORT: '0', METRICS_ADDR: '127.0.0.1:0' },
    ...env,
  });

  /** Runs ENTRYPOINT and CMD with ENV, and waits until the service listens. */
  async function start(settings: Readonly<Record<string, string>> = {}): Promise<Container> {
    const [program, ...args] = image.command;
    const env = inside(settings);
    const child = spawn(program, args, { cwd: workdir(), env, stdio: ['ignore', 'pipe', 'pipe'] });
    running = child;
    const exited = once(child, 'exit') as Promise<[number | null]>;
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const port = await new Promise<number>((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const { msg, port: found } = JSON.parse(line) as { msg: string; port: number };
        if (msg === 'listening') resolve(found);
      });
      exited.then(([code]) => reject(new Error(`it ended with ${code}: ${errors}`)), reject);
    });
    return {
      url: `http://127.0.0.1:${port}`,
      env: { ...env, PORT: String(port) },
      stop: async (signal) => {
        child.kill(signal);
        return (await exited)[0];
      },
    };
  }

  /** Whoever runs it asks again: on a busy machine, an answer may come too late. */
  const isHealthy = ({ env }: Container) => eventually(() => execute(image.healthcheck, env));
  const verify = async ({ url }: Container, bundle: string) =>
    (await (await fetch(`${url}/verify`, { method: 'POST', body: bundle })).json()) as {
      valid: boolean;
      error?: { code: string };
    };
  const newBundle = () => JSON.stringify(liveCall(liveChain(2), { tool: 'search' }));

  it('starts, is healthy, serves, and ends in order on SIGTERM', async () => {
    // A port that no other service gets once this one has ended.
    const container = await startOnPort((port) => start({ PORT: String(port) }));
    await isHealthy(container);
    expect(await verify(container, newBundle())).toMatchObject({ valid: true });
    expect(await container.stop('SIGTERM')).toBe(0);
    await expect(execute(image.healthcheck, container.env)).rejects.toMatchObject({ code: 1 });
  });

  // The closest to a container that can be had without an engine: its ports are its own, so they are those of ENV.
  it.runIf(canIsolate)(
    'serves as uid 1000 on a read-only root, with a volume and no network but loopback',
    needs('bwrap'),
    async () => {
      const mounts = [
        ...['--ro-bind', '/usr', '/usr', '--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64'],
        ...['--ro-bind', workdir(), image.workdir, '--ro-bind', process.execPath, '/node/node'],
        ...['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/var/lib/drs', '--chdir', image.workdir],
      ];
      const settings = {
        ...{ PATH: '/node', ...image.env, REVOCATION_STORE_PATH: '/var/lib/drs/revoked.txt' },
        DRS_ADMIN_TOKEN: 'the-admin-token-of-this-test',
      };
      const set = Object.entries(settings).flatMap(([name, value]) => ['--setenv', name, value]);
      const isolated = ['--unshare-all', '--uid', '1000', '--gid', '1000', '--as-pid-1', '--die-with-parent'];
      const told = ['--info-fd', '3'];
      const args = [...isolated, ...told, ...mounts, '--remount-ro', '/', '--clearenv', ...set];
      const child = spawn('bwrap', [...args, ...image.command], {
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      });
      running = child;
      let errors = '';
      child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
      const { 'child-pid': pid } = (await json(child.stdio[3] as Readable)) as { 'child-pid': number };
      const within = async (...command: readonly string[]) => {
        const namespaces = ['--user', '--mount', '--net', '--setuid', '1000', '--setgid', '1000'];
        const shell = ['/usr/bin/sh', '-c', 'cd "$0" && exec "$@"', image.workdir];
        const into = ['--target', String(pid), ...namespaces, ...shell];
        const env = { ...settings, PATH: `/node:${process.env['PATH']}` };
        return promisify(execFile)('nsenter', [...into, ...command], { env });
      };
      const fetching = `const [path, headers, body] = process.argv.slice(1);
        const answer = await fetch('http://127.0.0.1:8080' + path, { method: 'POST', headers: JSON.parse(headers), body });
        console.log(await answer.text(), process.getuid());`;
      const post = async (to: string, headers: object, body: string) =>
        (await within('node', '--input-type=module', '-e', fetching, to, JSON.stringify(headers), body))
          .stdout;

      await eventually(async () => {
        if (hasEnded(child)) return;
        await within(...image.healthcheck);
      });
      expect([hasEnded(child), errors]).toEqual([false, '']);
      expect(await post('/verify', {}, newBundle())).toMatch(/^\{"valid":true.* 1000\n$/);
      const admin = {
        Authorization: `Bearer ${settings.DRS_ADMIN_TOKEN}`,
        'Content-Type': 'application/json',
      };
      expect(await post('/admin/revoke', admin, '{"status_list_index":7}')).toContain('"revoked":true');
      const write = "require('fs').writeFileSync(process.argv[1], '')";
      for (const file of ['/file', `${image.workdir}/file`, '/var/lib/file'])
        await expect(within('node', '-e', write, file)).rejects.toThrow('EROFS');
      process.kill(pid, 'SIGTERM');
      expect(await ended(child)).toEqual([0, null]);
    },
  );

  it('starts as compose.yaml sets it up, with Redis', needs('redis-server'), async () => {
    const { services } = parse(read('deploy/compose.yaml')) as {
      services: Record<string, { environment: Record<string, string> }>;
    };
    const redis = await RedisServer.start('--maxmemory-policy', 'noeviction', '--appendonly', 'yes');
    try {
      const token = path.join(folder, 'admin-token');
      writeFileSync(token, 'a-token-of-thirty-two-characters');
      const container = await start({
        ...services['drs-verify']?.environment,
        // What the operator, other containers and mounts give.
        SERVER_IDENTITY: 'any',
        REDIS_URL: redis.url,
        // No test depends on speed.
        REDIS_TIMEOUT_MS: '60000',
        DRS_ADMIN_TOKEN_FILE: token,
        SHUTDOWN_DELAY_SECS: '0',
      });
      await isHealthy(container);
      const bundle = newBundle();
      expect(await verify(container, bundle)).toMatchObject({ valid: true });
      expect(await verify(container, bundle)).toMatchObject({ error: { code: 'REPLAY_DETECTED' } });
      expect(await container.stop('SIGTERM')).toBe(0);
    } finally {
      await redis.stop();
    }
  });

  it('says which commit it was built from', async () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    const { stdout } = await execute([image.command[0], image.command[1] ?? '', '--version'], inside({}));
    expect(stdout).toBe(`${version} (commit ${COMMIT})\n`);
    expect(image.labels).toEqual({ 'org.opencontainers.image.revision': COMMIT });
  });

  it('holds the code of a build from a clone, all of it', () => {
    const codeIn = (folderOfBuild: string) =>
      readdirSync(folderOfBuild, { recursive: true, encoding: 'utf8' })
        .filter((file) => /\.c?js$/.test(file) || /(?:openapi\.json|inspect\.html)$/.test(file))
        .sort()
        .map((file) => [file, readFileSync(path.join(folderOfBuild, file), 'utf8')]);
    const built = codeIn(path.join(ROOT, 'dist'));
    expect(built.length).toBeGreaterThan(100);
    expect(codeIn(path.join(workdir(), 'dist'))).toEqual(built);
  });

  it('holds only what the service loads', () => {
    expect(readdirSync(workdir()).sort()).toEqual(['dist', 'node_modules', 'package.json', 'scripts']);
    const manifest = JSON.parse(read('package.json')) as Record<
      'dependencies' | 'devDependencies',
      Record<string, string>
    >;
    const isThere = (name: string) => existsSync(path.join(workdir(), 'node_modules', name));
    const needed = [...Object.keys(manifest.dependencies), ...SERVICE_PACKAGES];
    expect(needed.filter((name) => !isThere(name))).toEqual([]);
    // One that something else needs stays.
    const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };
    const loaded = installedFor(serviceManifest(manifest), packages);
    const onlyDev = Object.keys(manifest.devDependencies).filter(
      (name) => !loaded.includes(`node_modules/${name}`),
    );
    expect(onlyDev.length).toBeGreaterThan(20);
    expect(onlyDev.filter(isThere)).toEqual([]);
  });

  it('sets variables that exist, to values that work, and does not run as root', () => {
    const names = Object.keys(image.env).filter((name) => name !== 'NODE_ENV');
    expect(names.filter((name) => !VARIABLES.includes(name))).toEqual([]);
    expect(readConfiguration(image.env)).toMatchObject({ host: '0.0.0.0', metricsAddr: '0.0.0.0:9464' });
    expect(image.user).toBe('node');
    expect(new Set(image.bases)).toEqual(new Set(['node:24-trixie-slim']));
  });
});
