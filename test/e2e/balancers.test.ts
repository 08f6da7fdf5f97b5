import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { startOnPort } from '../support/ports.mjs';
import { isInstalled, type Program } from '../support/programs.js';
import { startHaproxy, startNginx } from '../support/proxies.js';
import { metricOf, startService, type RunningService } from '../support/service.js';

// The recipes of docs/operations.md.
const NGINX_LOCATION = `
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_next_upstream error timeout http_503 non_idempotent;`;
const nginxUpstream = (ports: readonly number[]) => `
  ${ports.map((port) => `server 127.0.0.1:${port} max_fails=1 fail_timeout=1s;`).join('\n')}
  keepalive 16;
  keepalive_timeout 5s;`;
const HAPROXY_CHECK = `
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host drs
  http-check expect status 200`;
const haproxyServers = (ports: readonly number[]) =>
  ports.map((port) => `  server s${port} 127.0.0.1:${port} check inter 200ms fall 1 rise 1`).join('\n');

// HAProxy must notice within it that a service is about to end, also on a busy machine.
const DELAY_SECS = 4;
const SENDERS = 4;
const MAX_REQUESTS = 40_000;

const startAt = (port: number) =>
  startService({ PORT: String(port), SHUTDOWN_DELAY_SECS: String(DELAY_SECS) });

/** Sends bundles through a proxy while two services behind it are restarted, one after the other. */
async function restartUnderLoad(proxy: Program, ports: readonly number[], services: RunningService[]) {
  const body = JSON.stringify(makeBundle(2));
  const outcomes = new Map<string, number>();
  let sent = 0;
  let isOver = false;
  const send = async () => {
    while (!isOver && sent++ < MAX_REQUESTS) {
      const outcome = await fetch(`${proxy.url}/verify`, { method: 'POST', body }).then(
        async (response) => `${response.status} ${(await response.text()).slice(0, 13)}`,
        (error: unknown) => String((error as Error).cause ?? error),
      );
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      await sleep(10);
    }
  };
  const senders = Array.from({ length: SENDERS }, send);
  for (const [at, port] of ports.entries()) {
    expect(await services[at]?.stop()).toBe(0);
    const started = await startAt(port);
    services[at] = started;
    // The proxy has found it again, before the next one goes.
    await eventually(async () => {
      const metrics = await (await fetch(`${started.url}/metrics`)).text();
      expect(metricOf(metrics, 'drs_verify_verifications_total{result="valid"}')).toBeGreaterThan(10);
    });
  }
  isOver = true;
  await Promise.all(senders);
  return outcomes;
}

// At once: most of it is waiting.
describe.concurrent.each([
  ['nginx', (ports: readonly number[]) => startNginx(nginxUpstream(ports), NGINX_LOCATION)],
  ['haproxy', (ports: readonly number[]) => startHaproxy(`${HAPROXY_CHECK}\n${haproxyServers(ports)}`)],
] as const)('two services behind %s', (program, startBehind) => {
  it.runIf(isInstalled(program))(
    'are restarted one after the other without one failed request',
    async () => {
      const services = [await startOnPort(startAt), await startOnPort(startAt)];
      const ports = services.map((service) => service.port);
      const proxy = await startBehind(ports);
      try {
        await eventually(async () => {
          const { status } = await fetch(`${proxy.url}/verify`, { method: 'POST', body: '{}' });
          expect(status).toBe(200);
        });
        const outcomes = await restartUnderLoad(proxy, ports, services);
        expect([...outcomes.keys()]).toEqual(['200 {"valid":true']);
        expect(outcomes.get('200 {"valid":true')).toBeGreaterThan(100);
      } finally {
        await proxy.stop();
        await Promise.all(services.map((service) => service.stop('SIGKILL')));
      }
    },
    120_000,
  );
});
