import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { freePort } from '../support/free-port.js';
import { startService, type RunningService } from '../support/service.js';

/** The real programs that run beside the service in production. */

const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin`;
const has = (command: string) => spawnSync(command, ['--version'], { env: { PATH } }).error === undefined;

let folder: string;
let service: RunningService;
const children: ChildProcess[] = [];
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'drs-neighbours-'));
  service = await startService();
});
afterAll(async () => {
  for (const child of children) {
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    await gone;
  }
  await service.stop();
  rmSync(folder, { recursive: true, force: true });
});

function run(command: string, args: readonly string[]): void {
  children.push(spawn(command, args, { env: { PATH }, stdio: 'ignore' }));
}

const metrics = async () => (await fetch(`${service.url}/metrics`)).text();

describe.skipIf(!has('promtool'))('Prometheus', () => {
  it('finds nothing wrong with the metrics', async () => {
    await (await service.post('/verify', makeBundle(2))).text();
    const { status, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: await metrics(),
      env: { PATH },
      encoding: 'utf8',
    });
    // Exit code 3: it could read all metrics, but suggests other names. It does so only for Node's default metrics.
    expect([0, 3]).toContain(status);
    expect(stderr.split('\n').filter((line) => line.startsWith('drs_'))).toEqual([]);
  });

  it('scrapes them', async () => {
    const port = await freePort();
    const config = path.join(folder, 'prometheus.yml');
    writeFileSync(
      config,
      JSON.stringify({
        global: { scrape_interval: '1s', scrape_timeout: '1s' },
        scrape_configs: [{ job_name: 'drs', static_configs: [{ targets: [new URL(service.url).host] }] }],
      }),
    );
    const listen = `127.0.0.1:${port}`;
    run('prometheus', [
      `--config.file=${config}`,
      `--storage.tsdb.path=${path.join(folder, 'tsdb')}`,
      `--web.listen-address=${listen}`,
    ]);
    const verdicts = async () => {
      const query = encodeURIComponent(
        'drs_verify_verifications_total{result="valid"} > 0 and on(instance) up == 1',
      );
      const response = await fetch(`http://${listen}/api/v1/query?query=${query}`).catch(() => null);
      const answer = (await response?.json().catch(() => null)) as { data?: { result?: unknown[] } } | null;
      return answer?.data?.result?.length ?? 0;
    };
    await expect.poll(verdicts, { timeout: 120_000, interval: 200 }).toBe(1);
  });
});

describe.skipIf(!has('nginx'))('nginx', () => {
  it('proxies to it over connections that it keeps', async () => {
    const port = await freePort();
    mkdirSync(path.join(folder, 'nginx'));
    const config = path.join(folder, 'nginx.conf');
    writeFileSync(
      config,
      `daemon off; ${process.getuid?.() === 0 ? 'user root;' : ''} error_log stderr; pid ${folder}/nginx/pid;
       events {}
       http {
         access_log off;
         client_body_temp_path ${folder}/nginx; proxy_temp_path ${folder}/nginx; fastcgi_temp_path ${folder}/nginx;
         uwsgi_temp_path ${folder}/nginx; scgi_temp_path ${folder}/nginx;
         upstream drs { server 127.0.0.1:${service.port}; keepalive 4; }
         server {
           listen 127.0.0.1:${port};
           location / { proxy_pass http://drs; proxy_http_version 1.1; proxy_set_header Connection ""; }
         }
       }`,
    );
    run('nginx', ['-c', config]);
    const url = `http://127.0.0.1:${port}`;
    await expect
      .poll(
        () =>
          fetch(`${url}/healthz`).then(
            ({ status }) => status,
            () => 0,
          ),
        { timeout: 60_000 },
      )
      .toBe(200);
    const depths = Array.from({ length: 200 }, (_, at) => 1 + (at % 16));
    const answers = await Promise.all(
      depths.map(async (depth) => {
        const response = await fetch(`${url}/verify`, {
          method: 'POST',
          body: JSON.stringify(makeBundle(depth)),
        });
        return (await response.json()) as { context?: { chain_depth: number } };
      }),
    );
    expect(answers.map(({ context }) => context?.chain_depth)).toEqual(depths);
  });
});
