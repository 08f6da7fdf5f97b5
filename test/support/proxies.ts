import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually } from './eventually.js';
import { freePort } from './free-port.js';
import { connectRaw } from './raw-http.js';

/** A real proxy in front of services on this machine. */
export interface Proxy {
  readonly url: string;
  stop(): Promise<void>;
}

async function startProxy(
  program: string,
  makeArguments: (file: string, folder: string) => string[],
  makeConfiguration: (port: number, folder: string) => string,
): Promise<Proxy> {
  const folder = mkdtempSync(path.join(tmpdir(), `drs-${program}-`));
  const file = path.join(folder, 'proxy.conf');
  const port = await freePort();
  writeFileSync(file, makeConfiguration(port, folder));
  const child = spawn(program, makeArguments(file, folder), { stdio: ['ignore', 'ignore', 'pipe'] });
  const exited = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}: ${errors}`);
    (await connectRaw(port)).socket.destroy();
  });
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Starts nginx.
 *
 * @param upstream the lines of the `upstream drs` block
 * @param location the lines of `location /` besides `proxy_pass`
 */
export function startNginx(upstream: string, location: string): Promise<Proxy> {
  return startProxy(
    'nginx',
    (file, folder) => ['-p', folder, '-c', file, '-e', 'stderr'],
    (port, folder) => `
      daemon off;
      worker_processes 1;
      pid ${folder}/nginx.pid;
      events { worker_connections 512; }
      http {
        access_log off;
        ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}
        upstream drs { ${upstream} }
        server {
          listen 127.0.0.1:${port};
          location / { proxy_pass http://drs; ${location} }
        }
      }`,
  );
}

/**
 * Starts HAProxy.
 *
 * @param backend the lines of the backend
 */
export function startHaproxy(backend: string): Promise<Proxy> {
  return startProxy(
    'haproxy',
    (file) => ['-db', '-f', file],
    (port) => `
global
  maxconn 512
defaults
  mode http
  timeout connect 2s
  timeout client 20s
  timeout server 20s
frontend agents
  bind 127.0.0.1:${port}
  default_backend drs
backend drs
${backend}
`,
  );
}
