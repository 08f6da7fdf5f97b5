// Counts the requests that fail while `drs serve --processes` replaces its processes (SIGHUP). There are clients that
// keep their connections and clients that open one for each request, directly and through HAProxy and nginx if these
// are installed. Needs a build (`npm run setup`). `node test/e2e/measure-roll.mjs [rolls] [processes]`
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest, Agent } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startOnPort, unusedPort } from '../support/ports.mjs';

const rolls = Number(process.argv[2] ?? 5);
const processes = Number(process.argv[3] ?? 3);
const CLIENTS = 16;
const BODY = '{}';
const folder = mkdtempSync(path.join(tmpdir(), 'drs-roll-'));

/** @param {string} program @param {string[]} args @param {string} text @param {number} port where it listens */
async function startProxy(program, args, text, port) {
  const file = path.join(folder, `${program}.conf`);
  writeFileSync(file, text);
  const child = spawn(program, [...args, file], { stdio: 'inherit' });
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${program} ended before it listened`);
    const socket = connect(port, '127.0.0.1');
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return child;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const service = spawn(process.execPath, [fileURLToPath(new URL('../../scripts/drs.mjs', import.meta.url)), 'serve'], {
  env: {
    PATH: process.env.PATH,
    PORT: '0',
    PROCESSES: String(processes),
    GATE_REPLAY: 'off',
    QUEUE_BURST_MS: '60000',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
let rolled = 0;
const port = await new Promise((resolve) => {
  createInterface({ input: service.stdout }).on('line', (line) => {
    const entry = JSON.parse(line);
    if (entry.msg === 'listening') resolve(entry.port);
    if (entry.msg?.startsWith('rolled')) rolled++;
    if (entry.level >= 50) console.log(line);
  });
});
const ports = { direct: port };
const proxies = [];
if (spawnSync('haproxy', ['-v']).status === 0) {
  // If this one is taken, haproxy ends, and so does the measurement.
  ports['haproxy, no retry'] = await unusedPort();
  const start = (at) => {
    ports.haproxy = at;
    return startProxy(
      'haproxy',
      ['-db', '-f'],
      `defaults
  mode http
  timeout connect 2s
  timeout client 20s
  timeout server 20s
frontend a
  bind 127.0.0.1:${ports.haproxy}
  default_backend retry
backend retry
  retries 3
  retry-on conn-failure empty-response
  server drs 127.0.0.1:${port} pool-max-conn 8
frontend b
  bind 127.0.0.1:${ports['haproxy, no retry']}
  default_backend once
backend once
  server drs 127.0.0.1:${port} pool-max-conn 8
`,
      at,
    );
  };
  proxies.push(await startOnPort(start));
}
if (spawnSync('nginx', ['-v']).status === 0) {
  const start = (at) => {
    ports.nginx = at;
    return startProxy(
      'nginx',
      ['-p', folder, '-e', 'stderr', '-c'],
      `daemon off; worker_processes 1; pid ${folder}/nginx.pid; events { worker_connections 512; }
http { access_log off; client_body_temp_path ${folder}/a; proxy_temp_path ${folder}/b; fastcgi_temp_path ${folder}/c;
uwsgi_temp_path ${folder}/d; scgi_temp_path ${folder}/e;
upstream drs { server 127.0.0.1:${port} max_fails=0; server 127.0.0.1:${port} max_fails=0; keepalive 16; keepalive_timeout 5s; }
server { listen 127.0.0.1:${ports.nginx}; location / { proxy_pass http://drs; proxy_http_version 1.1;
proxy_set_header Connection ""; proxy_next_upstream error timeout http_503 non_idempotent; } } }`,
      at,
    );
  };
  proxies.push(await startOnPort(start));
}

/** @type {Map<string, Map<string, number>>} */
const outcomes = new Map();
let isOver = false;
/** @param {string} name @param {number} at @param {boolean} keepAlive */
async function client(name, at, keepAlive) {
  const agent = new Agent({ keepAlive, maxSockets: 1, timeout: 4000 });
  const counts = outcomes.get(name) ?? new Map();
  outcomes.set(name, counts);
  while (!isOver) {
    const outcome = await new Promise((resolve) => {
      const request = httpRequest(
        { port: at, host: '127.0.0.1', method: 'POST', path: '/verify', agent },
        (response) => {
          response.resume();
          response.on('end', () => resolve(String(response.statusCode)));
          response.on('error', (error) => resolve(error.code));
        },
      );
      request.on('error', (error) =>
        resolve(`${error.code}${request.reusedSocket ? ' on a kept connection' : ''}`),
      );
      request.end(BODY);
    });
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  agent.destroy();
}
const clients = Object.entries(ports).flatMap(([name, at]) =>
  Array.from({ length: CLIENTS }, (_, client_) =>
    client(`${name}, ${client_ % 2 === 0 ? 'kept connections' : 'a connection each'}`, at, client_ % 2 === 0),
  ),
);
const startedAt = performance.now();
for (let roll = 1; roll <= rolls; roll++) {
  service.kill('SIGHUP');
  while (rolled < roll) await new Promise((resolve) => setTimeout(resolve, 50));
}
const seconds = (performance.now() - startedAt) / 1000;
isOver = true;
await Promise.all(clients);
console.log(`${rolls} rolls of ${processes} processes in ${seconds.toFixed(1)} s`);
for (const [name, counts] of outcomes) console.log(name, Object.fromEntries(counts));
for (const proxy of proxies) proxy.kill();
service.kill();
await once(service, 'exit');
rmSync(folder, { recursive: true, force: true });
