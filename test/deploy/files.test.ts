import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readConfiguration, VARIABLES } from '../../src/server/configuration.js';
import { makeCertificate } from '../support/certificates.js';
import { isInstalled } from '../support/programs.js';
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

  it('finds the service where it listens, and nothing where it does not', async () => {
    const { certFile, keyFile } = makeCertificate(folder, 'health');
    const listening: Record<string, string>[] = [
      {},
      { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile },
      { LISTEN: `unix:${folder}/health.sock` },
    ];
    for (const env of listening) {
      const service = await startService(env);
      const asked = { ...env, PORT: String(service.port) };
      await check(asked);
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
      scrape_configs: [{ job_name: 'drs-verify', static_configs: [{ targets: ['drs-verify:9464'] }] }],
    });
  });
});

describe('the systemd unit', () => {
  const unit = path.join(DEPLOY, 'systemd/drs-verify.service');
  const text = read('systemd/drs-verify.service');

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

  it.skipIf(!isInstalled('systemd-analyze'))('is exposed to little, as systemd-analyze sees it', () => {
    const args = ['security', '--offline=true', '--threshold=20', unit];
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect([status, /exposure level.*: ([\d.]+)/.exec(stdout)?.[1]]).toEqual([0, expect.any(String)]);
  });
});

describe('the chart', () => {
  const CHART = 'helm/drs-verify';
  const templates = readdirSync(path.join(DEPLOY, CHART, 'templates')).filter((file) =>
    file.endsWith('.yaml'),
  );
  const values = parse(read(`${CHART}/values.yaml`)) as Record<string, unknown>;

  it('names only values that exist, and uses every one', () => {
    const text = templates.map((file) => read(`${CHART}/templates/${file}`)).join('\n');
    const used = [...text.matchAll(/\.Values((?:\.\w+)+)/g)].map(([, name = '']) => name.slice(1));
    const valueOf = (name: string) =>
      name
        .split('.')
        .reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], values);
    expect(used.filter((name) => valueOf(name) === undefined)).toEqual([]);
    const tops = new Set(used.map((name) => name.split('.')[0]));
    expect(Object.keys(values).filter((name) => !tops.has(name))).toEqual([]);
  });

  it.each(templates)('%s is YAML once its actions are taken away', (file) => {
    // A simple rendering: lines with only an action are removed, and actions inside a line become a word.
    const text = read(`${CHART}/templates/${file}`)
      .split('\n')
      .filter((line) => !/^\s*\{\{-? ?(?:if|end|range|include|toYaml).*\}\}\s*$/.test(line))
      .join('\n')
      .replace(/"?\{\{.*?\}\}"?/g, 'x');
    const documents = parseAllDocuments(text);
    for (const document of documents) {
      expect(document.errors).toEqual([]);
      expect(document.toJS()).toMatchObject({
        apiVersion: expect.any(String) as string,
        kind: expect.any(String) as string,
        metadata: {},
      });
    }
  });

  it('sets variables that exist, and probes endpoints that exist', () => {
    const text = read(`${CHART}/templates/deployment.yaml`);
    const names = [...text.matchAll(/\bname: ([A-Z][A-Z_]+)\b/g)].map(([, name = '']) => name);
    expect(names.length).toBeGreaterThan(7);
    expect(names.filter((name) => !VARIABLES.includes(name))).toEqual([]);
    const probes = [
      ...text.matchAll(/(\w+)Probe:\n\s+httpGet: \{ path: (\S+), port: (\w+)(?:, scheme: .*)? \}/g),
    ].map(([, probe, endpoint]) => `${probe} ${endpoint}`);
    expect(probes).toEqual(['startup /healthz', 'liveness /healthz', 'readiness /readyz']);
  });
});
