import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { needs, type Program, startProgram } from '../support/programs.js';
import { startNginx } from '../support/proxies.js';
import { startService, type RunningService } from '../support/service.js';

/** The real programs that run beside the service in production. */

let service: RunningService;
const programs: Program[] = [];
beforeAll(async () => {
  service = await startService({ WORKER_THREADS: '0' });
});
afterAll(async () => {
  for (const program of programs) await program.stop();
  await service.stop();
});

const metrics = async () => (await fetch(`${service.url}/metrics`)).text();

describe('Prometheus', needs('promtool'), () => {
  it('finds nothing wrong with the metrics', async () => {
    await (await service.post('/verify', makeBundle(2))).text();
    const { status, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: await metrics(),
      encoding: 'utf8',
    });
    // Exit code 3: it could read all metrics, but suggests other names. It does so only for Node's default metrics.
    expect([0, 3]).toContain(status);
    expect(stderr.split('\n').filter((line) => line.startsWith('drs_'))).toEqual([]);
  });

  it('scrapes them', async () => {
    const prometheus = await startProgram('prometheus', (port, folder) => {
      const config = path.join(folder, 'prometheus.yml');
      writeFileSync(
        config,
        JSON.stringify({
          global: { scrape_interval: '1s', scrape_timeout: '1s' },
          scrape_configs: [{ job_name: 'drs', static_configs: [{ targets: [new URL(service.url).host] }] }],
        }),
      );
      return [
        `--config.file=${config}`,
        `--storage.tsdb.path=${path.join(folder, 'tsdb')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ];
    });
    programs.push(prometheus);
    const verdicts = async () => {
      const query = encodeURIComponent(
        'drs_verify_verifications_total{result="valid"} > 0 and on(instance) up == 1',
      );
      const response = await fetch(`${prometheus.url}/api/v1/query?query=${query}`).catch(() => null);
      const answer = (await response?.json().catch(() => null)) as { data?: { result?: unknown[] } } | null;
      return answer?.data?.result?.length ?? 0;
    };
    await expect.poll(verdicts, { timeout: 120_000, interval: 200 }).toBe(1);
  });
});

describe('nginx', needs('nginx'), () => {
  it('proxies to it over connections that it keeps', async () => {
    const nginx = await startNginx(
      `server 127.0.0.1:${service.port}; keepalive 4;`,
      'proxy_http_version 1.1; proxy_set_header Connection "";',
    );
    programs.push(nginx);
    const depths = Array.from({ length: 64 }, (_, at) => 1 + (at % 16));
    const answers = await Promise.all(
      depths.map(async (depth) => {
        const response = await fetch(`${nginx.url}/verify`, {
          method: 'POST',
          body: JSON.stringify(makeBundle(depth)),
        });
        return (await response.json()) as { context?: { chain_depth: number } };
      }),
    );
    expect(answers.map(({ context }) => context?.chain_depth)).toEqual(depths);
  });
});
