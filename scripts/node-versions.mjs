// Runs the package on every Node release that `engines` allows: verdicts, middleware, service, from ESM and CommonJS.
// `npm run test:node-versions [-- <version> …]`; with `--suite`, `npm test` runs on them, in a copy of this folder:
// `npm run test:node-versions -- --suite 24 -- test/verify`. Needs the npm registry, whose package `node` has the binaries.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { useOlderGlibc } from '../test/support/older-glibc.mjs';
import { SERVICE_PACKAGES } from './service-packages.mjs';

const VERSIONS = ['20.18.1', '20', '22', '24', '26'];
const root = fileURLToPath(new URL('..', import.meta.url));
const checks = path.join(root, 'scripts', 'node-versions');
const run = promisify(execFile);
/** @type {(text: string) => unknown} */
const parse = JSON.parse;
const args = process.argv.slice(2);
const isSuite = args[0] === '--suite';
const end = args.includes('--') ? args.indexOf('--') : args.length;
const wanted = args.slice(isSuite ? 1 : 0, end);
const versions = wanted.length > 0 ? wanted : VERSIONS;
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

/** @param {string} version @returns the binary */
async function installNode(version) {
  const cwd = await install(`node-${version}`, `node@${version}`);
  return path.join(cwd, 'node_modules/node/bin/node');
}

/** Runs `npm test` in a copy of what Git knows of this folder. @param {string} version @returns the number of failures */
async function runSuite(version) {
  const node = await installNode(version);
  const copy = path.join(folder, 'suite');
  const listed = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
  });
  for (const file of listed.stdout.split('\0'))
    if (file !== '' && existsSync(path.join(root, file)))
      cpSync(path.join(root, file), path.join(copy, file));
  const env = { ...process.env, PATH: `${path.dirname(node)}:${process.env['PATH']}` };
  /** @param {readonly string[]} command */
  const npm = async (...command) => {
    const child = spawn('npm', command, { cwd: copy, env, stdio: 'inherit' });
    await once(child, 'exit');
    return child.exitCode === 0;
  };
  if (!(await npm('run', '--silent', 'setup'))) return 1;
  const uws = path.join(copy, 'node_modules/uWebSockets.js');
  const load = `require(${JSON.stringify(uws)})`;
  const loaded = await run(node, ['-e', load]).then(String, String);
  if (loaded.includes('GLIBC_2.38')) {
    const abi = (await run(node, ['-p', 'process.versions.modules'])).stdout.trim();
    useOlderGlibc(path.join(uws, `uws_linux_x64_${abi}.node`));
    await run(node, ['-e', load]);
  }
  // Compiled once for all versions: it uses Node-API.
  const example = 'examples/pkcs11-signer/node_modules';
  if (existsSync(path.join(root, example)))
    cpSync(path.join(root, example), path.join(copy, example), { recursive: true, verbatimSymlinks: true });
  const isGreen = await npm('test', '--silent', '--', ...args.slice(end + 1));
  rmSync(copy, { recursive: true });
  return isGreen ? 0 : 1;
}

async function checkPackage() {
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
  for (const version of versions) {
    const node = await installNode(version);
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
  return failures;
}

try {
  let failures = 0;
  if (isSuite) for (const version of versions) failures += await runSuite(version);
  else failures = await checkPackage();
  process.exitCode = failures > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
