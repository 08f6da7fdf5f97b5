import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '../support/eventually.js';
import { freePort } from '../support/free-port.js';
import type { Proxy } from '../support/proxies.js';
import { connectRaw } from '../support/raw-http.js';

const RECIPES = fileURLToPath(new URL('../../deploy/gateways/', import.meta.url));

/** A recipe of deploy/gateways that can be run here. */
export interface Recipe {
  readonly folder: string;
  readonly program: string;
  readonly makeArguments: (folder: string) => string[];
  /** What only a test needs: files where anybody may write them. */
  readonly adapt?: (text: string, folder: string) => string;
}

const nginx = (text: string, folder: string) =>
  `daemon off;\npid ${folder}/nginx.pid;\nworker_processes 1;\n${text
    .replace('modules/ngx_http_js_module.so', '/usr/lib/nginx/modules/ngx_http_js_module.so')
    .replace(
      'http {',
      `http {\naccess_log off;\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}`,
    )}`;
const nginxArguments = (folder: string) => ['-p', folder, '-c', `${folder}/nginx.conf`, '-e', 'stderr'];

export const RECIPE = {
  nginx: { folder: 'nginx', program: 'nginx', makeArguments: nginxArguments, adapt: nginx },
  authRequest: {
    folder: 'nginx-auth-request',
    program: 'nginx',
    makeArguments: nginxArguments,
    adapt: nginx,
  },
  haproxy: {
    folder: 'haproxy',
    program: 'haproxy',
    makeArguments: (folder) => ['-db', '-C', folder, '-f', `${folder}/haproxy.cfg`],
  },
  caddy: {
    folder: 'caddy',
    program: 'caddy',
    makeArguments: (folder) => ['run', '--config', `${folder}/Caddyfile`, '--adapter', 'caddyfile'],
  },
} as const satisfies Record<string, Recipe>;

/**
 * Starts a proxy with a recipe as it stands, but for its addresses.
 *
 * @param gate the port of the gate
 * @param tools the port of the tool server
 */
export async function startRecipe(recipe: Recipe, gate: number, tools: number): Promise<Proxy> {
  const folder = mkdtempSync(path.join(tmpdir(), `drs-${recipe.folder}-`));
  cpSync(path.join(RECIPES, recipe.folder), folder, { recursive: true });
  const port = await freePort();
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    const text = readFileSync(file, 'utf8')
      .replaceAll('127.0.0.1:8080', `127.0.0.1:${gate}`)
      .replaceAll('127.0.0.1:9000', `127.0.0.1:${tools}`)
      .replaceAll('127.0.0.1:8000', `127.0.0.1:${port}`);
    const adapted = name.endsWith('.conf') ? (recipe.adapt?.(text, folder) ?? text) : text;
    writeFileSync(file, adapted);
  }
  const child = spawn(recipe.program, recipe.makeArguments(folder), {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
  });
  const exited = once(child, 'exit');
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4000)));
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`${recipe.program} ended with ${child.exitCode}: ${output}`);
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
