import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pino } from 'pino';
import { destinationOf } from '../../src/relay/http-target.js';
import { openGuard as openGuardDecider } from '../../src/relay/guard-http.js';
import { openHttpRelay } from '../../src/relay/http-relay.js';
import { readConfiguration } from '../../src/service/configuration/configuration.js';
import type { ProgramName } from '../support/needed-programs.mjs';
import { needs, type Program, startProgram } from '../support/programs.js';

const RECIPES = path.resolve('deploy/gateways');

/** A recipe of deploy/gateways. */
export interface Recipe {
  readonly folder: string;
  readonly program: ProgramName;
  /** What it needs besides its program. */
  readonly module?: ProgramName;
  /** Whether a guard is behind it, which it asks nothing: everything goes through. */
  readonly isOfGuard?: true;
  readonly makeArguments: (folder: string) => string[];
  /** What only a test needs: files where anybody may write them. */
  readonly adapt?: (text: string, folder: string, file: string) => string;
}

const nginx = (text: string, folder: string, file: string) =>
  file !== 'nginx.conf'
    ? text
    : `daemon off;\npid ${folder}/nginx.pid;\nworker_processes 1;\n${text
        .replace('modules/ngx_http_js_module.so', '/usr/lib/nginx/modules/ngx_http_js_module.so')
        .replace(
          'http {',
          `http {\naccess_log off;\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}`,
        )}`;
export const RECIPE = {
  nginx: {
    folder: 'nginx',
    program: 'nginx',
    module: 'ngx_http_js_module',
    makeArguments: (folder) => ['-p', folder, '-c', `${folder}/nginx.conf`, '-e', 'stderr'],
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
    isOfGuard: true,
    makeArguments: (folder) => ['run', '--config', `${folder}/Caddyfile`, '--adapter', 'caddyfile'],
  },
} as const satisfies Record<string, Recipe>;

/** Options of tests that run a recipe. */
export const needsOf = ({ program, module }: Recipe) => needs(program, ...(module ? [module] : []));

/**
 * Starts a proxy with a recipe as it stands, but for its addresses.
 *
 * @param gate the port of the gate, or of the guard
 * @param tools the port of the tool server
 */
export function startRecipe(recipe: Recipe, gate: number, tools: number): Promise<Program> {
  return startProgram(recipe.program, (port, folder) => {
    cpSync(path.join(RECIPES, recipe.folder), folder, { recursive: true });
    for (const name of readdirSync(folder)) {
      const file = path.join(folder, name);
      const text = readFileSync(file, 'utf8')
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${gate}`)
        .replaceAll('127.0.0.1:8443', `127.0.0.1:${gate}`)
        .replaceAll('127.0.0.1:9000', `127.0.0.1:${tools}`)
        .replaceAll(':8000', `:${port}`);
      writeFileSync(file, recipe.adapt?.(text, folder, name) ?? text);
    }
    return recipe.makeArguments(folder);
  });
}

/** Opens a guard in front of a tool server, as the recipe for Caddy says. */
export async function openGuard(tools: number, env: Readonly<Record<string, string>>) {
  const configuration = readConfiguration({
    ...{ PORT: '0', WORKER_THREADS: '0', SERVER_IDENTITY: 'any', TRUST_PROXY: '1' },
    ...{ ALLOWED_ORIGINS: 'https://app.example', ...env },
  });
  const destination = destinationOf(`http://127.0.0.1:${tools}/mcp`, 'mcp');
  const log = pino({ level: 'silent' });
  const openDecider = openGuardDecider(configuration, 'mcp', log);
  const guard = await openHttpRelay({ configuration, destination, openDecider, hosts: null, log });
  return { port: Number(new URL(guard.url).port), stop: () => guard.close() };
}
