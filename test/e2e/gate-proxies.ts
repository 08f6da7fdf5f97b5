import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ProgramName } from '../support/needed-programs.mjs';
import { needs, type Program, startProgram } from '../support/programs.js';

const RECIPES = path.resolve('deploy/gateways');

/** A recipe of deploy/gateways. */
export interface Recipe {
  readonly folder: string;
  readonly program: ProgramName;
  /** What it needs besides its program. */
  readonly module?: ProgramName;
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
const nginxArguments = (folder: string) => ['-p', folder, '-c', `${folder}/nginx.conf`, '-e', 'stderr'];

export const RECIPE = {
  nginx: {
    folder: 'nginx',
    program: 'nginx',
    module: 'ngx_http_js_module',
    makeArguments: nginxArguments,
    adapt: nginx,
  },
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

/** Options of tests that run a recipe. */
export const needsOf = ({ program, module }: Recipe) => needs(program, ...(module ? [module] : []));

/**
 * Starts a proxy with a recipe as it stands, but for its addresses.
 *
 * @param gate the port of the gate
 * @param tools the port of the tool server
 */
export function startRecipe(recipe: Recipe, gate: number, tools: number): Promise<Program> {
  return startProgram(recipe.program, (port, folder) => {
    cpSync(path.join(RECIPES, recipe.folder), folder, { recursive: true });
    for (const name of readdirSync(folder)) {
      const file = path.join(folder, name);
      const text = readFileSync(file, 'utf8')
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${gate}`)
        .replaceAll('127.0.0.1:9000', `127.0.0.1:${tools}`)
        .replaceAll(':8000', `:${port}`);
      writeFileSync(file, recipe.adapt?.(text, folder, name) ?? text);
    }
    return recipe.makeArguments(folder);
  });
}
