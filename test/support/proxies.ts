import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { startProgram, type Program } from './programs.js';

function startProxy(
  program: string,
  makeArguments: (file: string, folder: string) => string[],
  makeConfiguration: (port: number, folder: string) => string,
): Promise<Program> {
  return startProgram(program, (port, folder) => {
    const file = path.join(folder, 'proxy.conf');
    writeFileSync(file, makeConfiguration(port, folder));
    return makeArguments(file, folder);
  });
}

/**
 * Starts nginx.
 *
 * @param upstream the lines of the `upstream drs` block
 * @param location the lines of `location /` besides `proxy_pass`
 */
export function startNginx(upstream: string, location: string): Promise<Program> {
  return startProxy(
    'nginx',
    (file, folder) => ['-p', folder, '-c', file, '-e', 'stderr'],
    (port, folder) => `
      daemon off;
      ${process.getuid?.() === 0 ? 'user root;' : ''}
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
export function startHaproxy(backend: string): Promise<Program> {
  return startProxy(
    'haproxy',
    (file) => ['-db', '-f', file],
    (port) => `
global
  maxconn 512
defaults
  mode http
  # A busy machine is not an outage.
  timeout connect 20s
  timeout check 20s
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
