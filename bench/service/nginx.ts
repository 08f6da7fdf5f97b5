import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startOnPort } from '../../test/support/ports.mjs';
import { processorTimeOf } from '../measure/processor-time.js';
import { ROOT } from '../run/paths.js';

const RECIPE = path.join(ROOT, 'deploy/gateways/nginx');
const MODULE = '/usr/lib/nginx/modules/ngx_http_js_module.so';

/** Whether nginx and its JavaScript module are installed. */
export const hasNginx = (): boolean => spawnSync('nginx', ['-v']).status === 0 && existsSync(MODULE);

/** One nginx process with the recipe in deploy/gateways/nginx. */
export interface Nginx {
  readonly port: number;
  readonly pid: number;
  /** Processor time so far, in µs; `null` if the operating system does not report it. */
  processorTime(): number | null;
  stop(): Promise<void>;
}

/**
 * Starts the recipe for nginx.
 *
 * @param gate the port of the gate; `null` sends requests directly to the tool server, without other changes
 */
export function startNginx(servers: { gate: number | null; tools: number }): Promise<Nginx> {
  return startOnPort((port) => startAt(port, servers));
}

async function startAt(
  port: number,
  { gate, tools }: { gate: number | null; tools: number },
): Promise<Nginx> {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-bench-nginx-'));
  cpSync(RECIPE, folder, { recursive: true });
  const file = path.join(folder, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join(' ');
  const text = readFileSync(file, 'utf8')
    .replace('modules/ngx_http_js_module.so', MODULE)
    .replace('127.0.0.1:8080', `127.0.0.1:${gate ?? tools}`)
    .replace('127.0.0.1:9000', `127.0.0.1:${tools}`)
    .replace('127.0.0.1:8000', `127.0.0.1:${port}`)
    // Many requests for each connection, since opening connections is not what is measured.
    .replace('http {', `http { access_log off; keepalive_requests 1000000; ${temporary}`);
  // The content of the tool server's location, which replaces the question to the gate.
  const straight = /location @tools \{([\s\S]*?)\n {4}\}/.exec(text)?.[1];
  if (straight === undefined) throw new Error(`${RECIPE}/nginx.conf has no location @tools`);
  const plain = text.replace('js_content drs.gate;', straight);
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${folder}/nginx.pid;\n${gate === null ? plain : text}`,
  );
  const child = spawn('nginx', ['-p', folder, '-c', file, '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const pid = child.pid ?? 0;
  await untilOpen(port, () => child.exitCode !== null);
  return {
    ...{ port, pid },
    processorTime: () => processorTimeOf(pid)?.total ?? null,
    stop: async () => {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function untilOpen(port: number, hasEnded: () => boolean): Promise<void> {
  for (;;) {
    if (hasEnded()) throw new Error('nginx ended before it listened');
    const answered = await fetch(`http://127.0.0.1:${port}/`).catch(() => null);
    if (answered !== null) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
