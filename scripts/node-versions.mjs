// Runs the package on every Node release that `engines` allows: verdicts, middleware, service, from ESM and CommonJS.
// `npm run test:node-versions [-- <version> …]`. Needs the npm registry, whose package `node` contains the binaries.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { SERVICE_PACKAGES } from './service-packages.mjs';

const VERSIONS = ['20.18.1', '20', '22', '24', '26'];
const root = fileURLToPath(new URL('..', import.meta.url));
const checks = path.join(root, 'scripts', 'node-versions');
const run = promisify(execFile);
/** @type {(text: string) => unknown} */
const parse = JSON.parse;
const wanted = process.argv.slice(2);
const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-nodes-'));

/** @param {string} name @param {string[]} packages */
async function install(name, ...packages) {
  const cwd = path.join(folder, name);
  mkdirSync(cwd);
  writeFileSync(path.join(cwd, 'package.json'), '{"private":true}');
  const flags = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];
  await run('npm', ['install', ...flags, ...packages], { cwd, maxBuffer: 1 << 24 });
  return cwd;
}

try {
  const packed = await run(
    'npm',
    ['pack', '--json', '--silent', '--ignore-scripts', '--pack-destination', folder],
    {
      cwd: root,
    },
  );
  const [{ filename }] = /** @type {[{ filename: string }]} */ (parse(packed.stdout));
  const tarball = path.join(folder, filename);
  const { devDependencies } = /** @type {{ devDependencies: Record<string, string> }} */ (
    parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  );
  const lean = await install('lean', tarball);
  const service = SERVICE_PACKAGES.map((name) => `${name}@${devDependencies[name]}`);
  const full = await install('full', tarball, ...service);
  for (const project of [lean, full]) cpSync(checks, path.join(project, 'checks'), { recursive: true });
  const size = await run('du', ['-sm', path.join(lean, 'node_modules'), path.join(full, 'node_modules')]);
  console.log(size.stdout.replaceAll(/^(\d+)\t.*\/(\w+)\/node_modules$/gm, '$2: $1 MB installed').trimEnd());
  let failures = 0;
  for (const version of wanted.length > 0 ? wanted : VERSIONS) {
    const node = path.join(await install(`node-${version}`, `node@${version}`), 'node_modules/node/bin/node');
    for (const [name, project] of Object.entries({ lean, full })) {
      for (const check of ['library.mjs', 'library.cjs', 'service.mjs']) {
        const file = path.join(project, 'checks', check);
        const { stdout, failed } = await run(node, [file], { cwd: project, timeout: 120_000 }).then(
          (result) => ({ ...result, failed: false }),
          (/** @type {unknown} */ error) => ({
            stdout: /** @type {{ stderr?: string }} */ (error).stderr || String(error),
            failed: true,
          }),
        );
        if (failed) failures++;
        console.log(`${failed ? 'FAILED' : 'ok    '} ${name} ${check.padEnd(11)} ${stdout.trimEnd()}`);
      }
    }
    rmSync(path.join(folder, `node-${version}`), { recursive: true });
  }
  process.exitCode = failures > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
