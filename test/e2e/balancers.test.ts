import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeBundle } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { startOnPort } from '../support/ports.mjs';
import { isInstalled } from '../support/needed-programs.mjs';
import { needs, type Program } from '../support/programs.js';
import { startHaproxy, startNginx } from '../support/proxies.js';
import { startService, type RunningService } from '../support/service.js';

// The recipes of docs/operations.md. The header is for this test: it says which server gave the answer.
const NGINX_LOCATION = `
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_next_upstream error timeout http_503 non_idempotent;
  add_header X-Server $upstream_addr;`;
const nginxUpstream = (ports: readonly number[]) => `
  ${ports.map((port) => `server 127.0.0.1:${port} max_fails=1 fail_timeout=1s;`).join('\n')}
  keepalive 16;
  keepalive_timeout 5s;`;
const HAPROXY_CHECK = `
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host drs
  http-check expect status 200
  http-response set-header X-Server %si:%sp`;
const haproxyServers = (ports: readonly number[]) =>
  ports.map((port) => `  server s${port} 127.0.0.1:${port} check inter 200ms fall 1 rise 1`).join('\n');

// HAProxy must notice within it that a service is about to end, also on a busy machine.
const DELAY_SECS = 4;
const SENDERS = 4;
const PAUSE_MS = 40;
const MAX_REQUESTS = 10_000;

const PROXIES = {
  nginx: (ports: readonly number[]) => startNginx(nginxUpstream(ports), NGINX_LOCATION),
  haproxy: (ports: readonly number[]) => startHaproxy(`${HAPROXY_CHECK}\n${haproxyServers(ports)}`),
};
type Name = keyof typeof PROXIES;
const NAMES = Object.keys(PROXIES) as Name[];

const startAt = (port: number) =>
  startService({ PORT: String(port), SHUTDOWN_DELAY_SECS: String(DELAY_SECS), WORKER_THREADS: '0' });

/** Sends bundles through a proxy until it is told to stop. */
class Load {
  /** How often each answer has come. */
  readonly outcomes = new Map<string, number>();
  /** The port of the server that gave each answer. */
  readonly servers: number[] = [];
  readonly #proxy: Program;
  readonly #body = JSON.stringify(makeBundle(2));
  readonly #senders: readonly Promise<void>[];
  #sent = 0;
  #isOver = false;

  constructor(proxy: Program) {
    this.#proxy = proxy;
    this.#senders = Array.from({ length: SENDERS }, () => this.#send());
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#senders);
  }

  async #send(): Promise<void> {
    while (!this.#isOver && this.#sent++ < MAX_REQUESTS) {
      const outcome = await this.#ask().catch((error: unknown) => String((error as Error).cause ?? error));
      this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
      await sleep(PAUSE_MS);
    }
  }

  async #ask(): Promise<string> {
    const { statusCode, headers, body } = await request(`${this.#proxy.url}/verify`, {
      method: 'POST',
      body: this.#body,
    });
    // Where nginx has asked several, the last one answered.
    const [, port] = /(\d+)$/.exec(String(headers['x-server'])) ?? [];
    this.servers.push(Number(port));
    return `${statusCode} ${(await body.text()).slice(0, 13)}`;
  }
}

// Both proxies have the same services, which are restarted once.
describe('two services behind a proxy', { skip: !NAMES.some((name) => isInstalled(name)) }, () => {
  const loads = new Map<Name, Load>();
  const proxies: Program[] = [];
  const services: RunningService[] = [];

  beforeAll(async () => {
    services.push(...(await Promise.all([startOnPort(startAt), startOnPort(startAt)])));
    const ports = services.map((service) => service.port);
    for (const name of NAMES) {
      if (!isInstalled(name)) continue;
      const proxy = await PROXIES[name](ports);
      proxies.push(proxy);
      await eventually(async () => {
        const { status } = await fetch(`${proxy.url}/verify`, { method: 'POST', body: '{}' });
        expect(status).toBe(200);
      });
      loads.set(name, new Load(proxy));
    }
    for (const [at, port] of ports.entries()) {
      expect(await services[at]?.stop()).toBe(0);
      services[at] = await startAt(port);
      // Each proxy has found it again, before the next one goes.
      for (const { servers } of loads.values()) {
        const before = servers.length;
        await eventually(() =>
          expect(servers.slice(before).filter((server) => server === port).length).toBeGreaterThan(10),
        );
      }
    }
    await Promise.all([...loads.values()].map((load) => load.stop()));
  });
  afterAll(async () => {
    await Promise.all([...loads.values()].map((load) => load.stop()));
    for (const proxy of proxies) await proxy.stop();
    await Promise.all(services.map((service) => service.stop('SIGKILL')));
  });

  for (const name of NAMES)
    it(`are restarted one after the other without one failed request: ${name}`, needs(name), () => {
      const { outcomes = new Map<string, number>() } = loads.get(name) ?? {};
      expect([...outcomes.keys()]).toEqual(['200 {"valid":true']);
      expect(outcomes.get('200 {"valid":true')).toBeGreaterThan(100);
    });
});
