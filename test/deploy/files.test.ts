import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readConfiguration, VARIABLES } from '../../src/service/configuration/configuration.js';
import { makeCertificate } from '../support/certificates.js';
import { eventually } from '../support/eventually.js';
import { startOnPort } from '../support/ports.mjs';
import { needs } from '../support/programs.js';
import { startService } from '../support/service.js';

// Checks of deploy/ that need no image registry, no cluster and no systemd as process 1.
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DEPLOY = path.join(ROOT, 'deploy');
const read = (file: string) => readFileSync(path.join(DEPLOY, file), 'utf8');
const FOREIGN = new Set(['NODE_ENV']);

describe('the health check of the image', () => {
  const check = (env: Record<string, string>) =>
    promisify(execFile)(process.execPath, [path.join(ROOT, 'scripts/healthcheck.mjs')], { env });
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-health-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('finds the service where it listens, and nothing where it does not', needs('openssl'), async () => {
    const { certFile, keyFile } = makeCertificate(folder, 'health');
    const listening: Record<string, string>[] = [
      {},
      { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile },
      { LISTEN: `unix:${folder}/health.sock` },
    ];
    for (const env of listening) {
      // A port that no other service gets once this one has ended.
      const service = await startOnPort((port) => startService({ ...env, PORT: String(port) }));
      const asked = { ...env, PORT: String(service.port) };
      // Whoever runs it asks again: on a busy machine, an answer may come too late.
      await eventually(() => check(asked));
      await service.stop();
      await expect(check(asked)).rejects.toMatchObject({ code: 1 });
    }
  });
});

describe('compose.yaml', () => {
  interface Service {
    readonly environment?: Record<string, string>;
    readonly volumes?: string[];
    readonly secrets?: string[];
    readonly ports?: string[];
    readonly read_only?: boolean;
  }
  const compose = parse(read('compose.yaml')) as {
    services: Record<string, Service>;
    volumes: Record<string, null>;
    secrets: Record<string, { file: string }>;
  };

  it('sets variables that exist, and opens ports to this machine only', () => {
    const { environment = {}, read_only } = compose.services['drs-verify'] ?? {};
    expect(Object.keys(environment).filter((name) => !VARIABLES.includes(name))).toEqual([]);
    // The secret is a file of the operator's, and METRICS_ADDR is set in the image.
    const { DRS_ADMIN_TOKEN_FILE: file, ...env } = environment;
    expect(file).toBe(`/run/secrets/${Object.keys(compose.secrets).join()}`);
    expect(readConfiguration({ METRICS_ADDR: '0.0.0.0:9464', ...env }).replayProtection).toBe('redis');
    expect(read_only).toBe(true);
    for (const { ports = [] } of Object.values(compose.services))
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  it('reads secrets from files that neither Git nor npm takes along', () => {
    const ignored = readFileSync(path.join(ROOT, '.gitignore'), 'utf8').split('\n');
    const { files } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
      files: string[];
    };
    for (const { file } of Object.values(compose.secrets)) {
      const name = path.posix.join('deploy', file);
      expect(ignored).toContain(name);
      expect(files).toContain(`!${name}`);
    }
  });

  it('mounts what exists', () => {
    for (const { volumes = [] } of Object.values(compose.services)) {
      for (const volume of volumes) {
        const [source = ''] = volume.split(':');
        if (source.startsWith('.')) expect(existsSync(path.join(DEPLOY, source)), source).toBe(true);
        else expect(Object.keys(compose.volumes)).toContain(source);
      }
    }
  });

  it('has provisioning for Grafana that is YAML, and Prometheus that scrapes the service', () => {
    for (const file of ['datasources/prometheus.yml', 'dashboards/drs-verify.yml'])
      expect(parse(read(`grafana/provisioning/${file}`))).toMatchObject({ apiVersion: 1 });
    expect(parse(read('prometheus/prometheus.yml'))).toMatchObject({
      scrape_configs: [{ job_name: 'drs-verify', dns_sd_configs: [{ names: ['drs-verify'], port: 9464 }] }],
    });
  });
});

const UNITS = ['drs-verify.service', 'drs-verify@.service'];

it('the unit of several instances is as hardened as that of one, and has one user for all', () => {
  const [one, several] = UNITS.map((name) => read(`systemd/${name}`));
  const hardening = (text = '') =>
    text.match(/^(?:UMask|Capab|NoNew|Lock|Private|Proc|Protect|Remove|Restrict|System)\w+=.*$/gm);
  expect(hardening(several)).toEqual(hardening(one));
  expect(several).toMatch(/^DynamicUser=yes\n(?:#.*\n)?User=drs-verify$/m);
});

it('the unit of several instances has a configuration that they can share', () => {
  const settings = [...read('systemd/drs-verify@.service').matchAll(/^Environment=(.*)$/gm)]
    .flatMap(([, line = '']) => line.replaceAll('%i', '1').split(' '))
    .map((setting) => setting.split('=') as [string, string])
    .filter(([name]) => name !== 'DRS_ADMIN_TOKEN_FILE');
  const env = { ...Object.fromEntries(settings), DRS_ADMIN_TOKEN: 'x'.repeat(16), REDIS_URL: 'redis://r' };
  expect(readConfiguration(env)).toMatchObject({ sharePort: true, metricsAddr: '127.0.0.1:9461' });
});

describe.each(UNITS)('the systemd unit %s', (name) => {
  const unit = path.join(DEPLOY, 'systemd', name);
  const text = read(`systemd/${name}`);

  it('sets variables that exist', () => {
    const names = [...text.matchAll(/^Environment=(.*)$/gm)].flatMap(([, settings = '']) =>
      settings.split(' ').map((setting) => setting.split('=')[0] ?? ''),
    );
    expect(names).toContain('DRS_ADMIN_TOKEN_FILE');
    expect(names.filter((name) => !VARIABLES.includes(name) && !FOREIGN.has(name))).toEqual([]);
  });

  it('gives the service longer to stop than it takes', () => {
    const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
    const { shutdownDelaySecs, shutdownGraceSecs } = readConfiguration({});
    expect(seconds).toBeGreaterThan(shutdownDelaySecs + shutdownGraceSecs + 5);
  });

  it('tries again for ever, but not with a configuration that cannot work', () => {
    const sections = Object.fromEntries(
      text
        .split(/^\[(?=\w+\]$)/m)
        .map((section): [string, string] => [section.slice(0, section.indexOf(']')), section]),
    );
    // In [Service] systemd ignores it.
    expect(sections['Unit']).toMatch(/^StartLimitIntervalSec=0$/m);
    expect(sections['Service']).toMatch(/^Restart=on-failure$/m);
    expect(sections['Service']).toMatch(/^RestartPreventExitStatus=2$/m);
    // Its exit code would not count for that.
    expect(text).not.toMatch(/^ExecStartPre=/m);
    expect(sections['Service']).toMatch(/^Type=notify$/m);
    expect(sections['Service']).toMatch(/^NotifyAccess=all$/m);
    expect(sections['Service']).toMatch(/^LogsDirectory=drs-verify(?:-%i)?$/m);
  });

  it('is a unit for systemd, without a warning', needs('systemd-analyze'), () => {
    // The program is not where the unit expects it.
    const folder = mkdtempSync(path.join(tmpdir(), 'drs-unit-'));
    const file = path.join(folder, name.replace('@', '@1'));
    writeFileSync(file, text.replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`));
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
    rmSync(folder, { recursive: true });
    // Without systemd as process 1, it may complain about units of the machine.
    const about = stderr.split('\n').filter((line) => line.includes('drs-verify'));
    expect([status, about]).toEqual([0, []]);
  });

  it('is exposed to little, as systemd-analyze sees it', needs('systemd-analyze'), () => {
    const args = ['security', '--offline=true', '--threshold=20', unit];
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect([status, /exposure level.*: ([\d.]+)/.exec(stdout)?.[1]]).toEqual([0, expect.any(String)]);
  });
});
