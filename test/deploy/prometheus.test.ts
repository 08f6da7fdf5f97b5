import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from '@grpc/grpc-js';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { mcpBundle, toolCall } from '../gate/attacks.js';
import { METRICS } from '../../src/service/observe/metrics/metrics-table.js';
import { RedisServer } from '../usage/redis-server.js';
import { ListServer } from '../revocation/list-server.js';
import { credentialWith, LIST_ID } from '../revocation/lists.js';
import { makeCertificate } from '../support/certificates.js';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { AUTHORIZATION, callOnce, clientOf, grpcPortOf } from '../support/grpc.js';
import { needs, type Program, startProgram } from '../support/programs.js';
import { startService, type RunningService } from '../support/service.js';

const SCRAPE_MS = 250;
const DEPLOY = fileURLToPath(new URL('../../deploy', import.meta.url));
const RULES = path.join(DEPLOY, 'prometheus/drs-verify.rules.yml');
const read = (file: string) => readFileSync(file, 'utf8');

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly annotations?: { readonly summary: string; readonly runbook: string };
}
const rules = (parse(read(RULES)) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly targets?: readonly { readonly expr: string }[];
}
const dashboard = JSON.parse(read(path.join(DEPLOY, 'grafana/drs-verify.json'))) as {
  panels: Panel[];
};
const panels = dashboard.panels.filter(({ type }) => type !== 'row');
/** The queries as Grafana sends them, with all instances chosen. */
const queries = panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({
    title,
    query: expr.replaceAll('$__rate_interval', '1m').replaceAll('$job', '.+').replaceAll('$instance', '.+'),
  })),
);

/** Metrics that no panel and no rule has. */
const UNSHOWN = {
  drs_http_open_requests: 'drs_verify_pending and drs_http_connections say more',
  drs_receipt_cache_receipts: 'its bytes are limited',
  drs_revocation_fsync_duration_seconds: 'a slow disk shows in revocations alone, which have time',
  drs_revocation_lookups_total: 'refusals are counted by code',
  // There are none where no row names a list, and a panel without data looks broken.
  drs_root_list_fetches_total: 'drs_root_lists_failing says what comes of it',
  drs_root_lists: 'their bytes are limited',
  drs_root_lists_bytes: 'they are limited',
  drs_root_lists_failing: '/readyz names the rows, and the log says why',
  drs_signature_batches_repeated_total: 'drs_signature_worker_deaths_total says why',
  drs_signature_batches_total: 'drs_signature_batch_checks has the same number',
  drs_status_list_entries: 'it does not change',
  drs_status_list_fetch_duration_seconds: 'drs_status_list_age_seconds says what comes of it',
  drs_tools_reads_total: 'drs_reload_failed says what comes of it',
  drs_trusted_roots_reads_total: 'drs_reload_failed says what comes of it',
};

describe('the dashboard', () => {
  it('describes each panel', () => {
    expect(panels.length).toBeGreaterThan(25);
    for (const { title, description = '' } of panels)
      expect([title, description.length]).toEqual([title, expect.any(Number)]);
    expect(panels.filter(({ description = '' }) => description.length < 30)).toEqual([]);
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  });

  it('shows each metric, or it is said here why not', () => {
    const shown = JSON.stringify([queries, rules]);
    const missing = METRICS.map(([name]) => name).filter(
      (name) => !new RegExp(`${name}\\b|${name}_`).test(shown),
    );
    expect(missing.toSorted()).toEqual(Object.keys(UNSHOWN).toSorted());
  });
});

describe('the alerts', () => {
  it('each lead to a section of the runbook, and each section to an alert', () => {
    const sections = [...read(path.join(DEPLOY, '../docs/runbook.md')).matchAll(/^## (\S+)$/gm)].map(
      ([, name]) => name,
    );
    const alerts = rules.filter(({ alert }) => alert !== undefined);
    expect(sections).toEqual(alerts.map(({ alert }) => alert));
    for (const { alert = '', annotations } of alerts)
      expect(annotations?.runbook).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
  });

  it('fire when they should, and only then', needs('promtool'), () => {
    for (const args of [
      ['check', 'rules', 'drs-verify.rules.yml'],
      ['test', 'rules', 'drs-verify.tests.yml', 'drs-verify.trial.tests.yml'],
      ['check', 'config', '--syntax-only', 'prometheus.yml'],
    ]) {
      const cwd = path.join(DEPLOY, 'prometheus');
      // A fifth of its work would be collecting garbage.
      const env = { ...process.env, GOGC: '400' };
      const { status, stdout, stderr } = spawnSync('promtool', args, { cwd, env, encoding: 'utf8' });
      expect([status, stdout + stderr]).toEqual([0, expect.any(String)]);
    }
  });

  it('are all in the tests of the rules', () => {
    const [some, others] = ['tests.yml', 'trial.tests.yml'].map((end) =>
      read(path.join(DEPLOY, `prometheus/drs-verify.${end}`)),
    );
    const tests = `${some}${others}`;
    for (const { alert } of rules) if (alert !== undefined) expect(tests).toContain(`alertname="${alert}"`);
  });
});

describe('the metrics', needs('promtool'), () => {
  it('are as Prometheus wants them', async () => {
    const service = await startService({ REPLAY_PROTECTION: 'memory' });
    await service.post('/verify', makeBundle(1));
    const text = await (await fetch(`${service.url}/metrics`)).text();
    await service.stop();
    const { stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    expect(stdout + stderr).toBe('');
  });
});

describe('a real Prometheus, on running services', needs('prometheus', 'redis-server', 'openssl'), () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-prometheus-'));
  let services: RunningService[] = [];
  let secured: RunningService;
  let gateway: Client | null = null;
  let list: ListServer;
  let redis: RedisServer;
  let prometheus: Program;

  beforeAll(async () => {
    list = await ListServer.start();
    list.serve('application/json', JSON.stringify(credentialWith([])));
    redis = await RedisServer.start();
    services = await Promise.all([
      startService({
        ...{ REPLAY_PROTECTION: 'memory', DECISION_LOG: path.join(folder, 'decisions'), GRPC_PORT: '0' },
      }),
      startService({
        REPLAY_PROTECTION: 'redis',
        REVOCATION_STORE: 'redis',
        REDIS_URL: redis.url,
        STATUS_LIST_BASE_URL: list.url,
        STATUS_LIST_ID: LIST_ID,
        WORKER_THREADS: '0',
      }),
    ]);
    const { certFile, keyFile } = makeCertificate(folder, 'prometheus', { days: 30 });
    writeFileSync(path.join(folder, 'roots.jsonl'), '');
    const tls = { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile };
    const roots = { TRUSTED_ROOTS_FILE: folder, TOOLS_FILE: folder, GATE_MODE: 'observe' };
    secured = await startService({ ...tls, ...roots, WORKER_THREADS: '0' });
    const targets = services.map(({ port }) => `127.0.0.1:${port}`);
    prometheus = await startProgram('prometheus', (port, itsFolder) => {
      const config = path.join(itsFolder, 'prometheus.yml');
      writeFileSync(
        config,
        JSON.stringify({
          global: { scrape_interval: `${SCRAPE_MS}ms`, evaluation_interval: `${SCRAPE_MS}ms` },
          rule_files: [RULES],
          scrape_configs: [
            { job_name: 'drs-verify', static_configs: [{ targets }] },
            {
              job_name: 'with TLS',
              scheme: 'https',
              tls_config: { insecure_skip_verify: true },
              static_configs: [{ targets: [`127.0.0.1:${secured.port}`], labels: { job: 'drs-verify' } }],
            },
          ],
        }),
      );
      return [
        `--config.file=${config}`,
        `--storage.tsdb.path=${path.join(itsFolder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ];
    });
    const [first] = services as [RunningService];
    gateway = clientOf(AUTHORIZATION, grpcPortOf(first));
    // It looks for new targets every five seconds.
    await eventually(async () => expect(await ask('up == 1')).toHaveLength(services.length + 1));
    // Rates need what happens between two scrapes.
    await eventually(async () => {
      await first.post('/gate/mcp', toolCall(), { 'X-DRS-Bundle': mcpBundle() });
      await first.post('/gate/mcp', toolCall());
      await callOnce(gateway as Client, 'Check', { attributes: { request: { http: { method: 'GET' } } } });
      for (const service of services) await service.post('/verify', makeBundle(8));
      await Promise.all(
        services.map((service) =>
          Promise.all(Array.from({ length: 12 }, () => service.post('/verify', makeBundle(2)))),
        ),
      );
      expect(Number((await ask('min(count_over_time(up[5m]))'))[0]?.value[1])).toBeGreaterThanOrEqual(6);
      expect(await ask('drs:verify_slow:ratio_rate6h >= 0')).not.toEqual([]);
      expect(await ask('drs:gate_slow:ratio_rate6h')).toHaveLength(2);
    }, SCRAPE_MS);
  });
  afterAll(async () => {
    gateway?.close();
    await prometheus.stop();
    await Promise.all([...services, secured].map((service) => service.stop()));
    await list.close();
    await redis.stop();
    rmSync(folder, { recursive: true });
  });

  async function ask(query: string): Promise<{ metric: object; value: [number, string] }[]> {
    // Some hundred queries: `fetch` would have each answer packed, and unpack it.
    const { body } = await request(`${prometheus.url}/api/v1/query`, { query: { query } });
    const { status, data, error } = (await body.json()) as {
      status: string;
      error?: string;
      data?: { result: { metric: object; value: [number, string] }[] };
    };
    if (status !== 'success' || data === undefined) throw new Error(`${query}: ${error}`);
    return data.result;
  }

  /** Where a scrape comes too late on a busy machine, Prometheus has no data of that service until the next one. */
  const expectData = (asked: readonly { title: string; query: string }[]) =>
    eventually(async () => {
      const empty: string[] = [];
      for (const { title, query } of asked)
        if ((await ask(query)).length === 0) empty.push(`${title}: ${query}`);
      expect(empty).toEqual([]);
    }, SCRAPE_MS);

  it('answers every query of the dashboard with data', () => expectData(queries));

  it('evaluates every rule, has data for each metric in them, and fires no alert', async () => {
    // Each group of rules is evaluated at its own times.
    const states = await eventually(async () => {
      const answer = await fetch(`${prometheus.url}/api/v1/rules`);
      const { data } = (await answer.json()) as {
        data: { groups: { rules: { name: string; health: string; lastError?: string; state?: string }[] }[] };
      };
      const found = data.groups.flatMap((group) => group.rules);
      expect(found.filter(({ health }) => health === 'unknown')).toEqual([]);
      return found;
    }, SCRAPE_MS);
    expect(states).toHaveLength(rules.length);
    expect(states.filter(({ health, lastError }) => health !== 'ok' || lastError)).toEqual([]);
    expect(states.filter(({ state }) => state === 'firing')).toEqual([]);
    // Histograms are asked for by their buckets, which have no labels but those that a rule names.
    const selectors = rules.flatMap(({ expr, record }) =>
      [...expr.matchAll(/\b(?:drs_\w+|drs:[\w:]+|up)(?:\{[^}]*\})?/g)].map(([query]) => ({
        title: record ?? expr,
        query,
      })),
    );
    expect(selectors.length).toBeGreaterThan(rules.length);
    await expectData(selectors);
  });
});
