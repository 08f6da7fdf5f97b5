// Packs the package from a fresh clone, installs it elsewhere like a user, and checks its files, types and command.
import { execFileSync, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
// Must come first: the clone shares the packages that are installed here, and must not need to install any.
import './setup.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-package-'));
const at = (/** @type {string[]} */ ...parts) => path.join(folder, ...parts);

/** @param {string} command @param {string[]} args @param {string} [cwd] */
const run = (command, args, cwd = folder) =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

/** @type {(text: string) => unknown} */
const parse = JSON.parse;

/** @param {string} what @param {string[]} found */
function expectNone(what, found) {
  if (found.length > 0) throw new Error(`${what}: ${found.join(', ')}`);
}

/** Makes a clone without dist/. It uses the packages of this one. */
function makeClone() {
  const clone = at('clone');
  for (const file of run('git', ['ls-files', '-z'], root).split('\0')) {
    if (file === '' || !existsSync(path.join(root, file))) continue;
    mkdirSync(path.dirname(path.join(clone, file)), { recursive: true });
    cpSync(path.join(root, file), path.join(clone, file));
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(clone, 'node_modules'), 'dir');
  return clone;
}

/** @param {string} file */
const read = (file) => readFileSync(at('package', file), 'utf8');

/** @param {string[]} files what is in the package */
function checkFiles(files) {
  const manifest =
    /** @type {{ imports: Record<string, string>, exports: Record<string, string | Record<string, string>>, bin: Record<string, string> }} */ (
      parse(read('package.json'))
    );
  const has = (/** @type {string} */ target) => files.includes(path.posix.normalize(target));
  const targets = [manifest.imports, manifest.bin, ...Object.values(manifest.exports)].flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry).filter((value) => typeof value === 'string'),
  );
  expectNone(
    'named in package.json, but not packed',
    targets.filter((target) => !has(target)),
  );

  const allowed =
    /^(dist|src|docs|deploy|examples)\/|^(scripts\/drs\.mjs|package\.json|(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE)$/;
  const stray = /node_modules|\.tgz$|\.key$|\.log$|\/\./;
  expectNone(
    'packed, but should not be',
    files.filter((name) => !allowed.test(name) || stray.test(name)),
  );

  for (const name of files.filter((file) => /\.(c?js|d\.ts)$/.test(file) && file.startsWith('dist/'))) {
    const [, map] = /\/\/# sourceMappingURL=(\S+)\s*$/.exec(read(name)) ?? [];
    const beside = (/** @type {string} */ target) => path.posix.join(path.posix.dirname(name), target);
    if (map === undefined || !has(beside(map))) throw new Error(`${name} has no source map in the package`);
    const { sources } = /** @type {{ sources: string[] }} */ (parse(read(beside(map))));
    expectNone(
      `the source map of ${name} leads nowhere`,
      sources.filter((source) => !has(beside(source))),
    );
  }

  // Pages use these, where there may be no types of Node: test/edge compiles them so.
  const ofPages = ['./dist/issue/index.d.ts', './dist/client/index.d.ts'];
  for (const entry of Object.values(manifest.exports)) {
    const types = typeof entry === 'string' ? undefined : entry['types'];
    if (types === undefined || ofPages.includes(types)) continue;
    if (!read(types).startsWith('/// <reference types="node"'))
      throw new Error(`${types} does not begin with a reference to Node's types, which its exports need`);
  }

  // Except in README.md, links to tests, benchmarks and CI are allowed, although these are only in the repository.
  const repository = /^(test|bench|\.ci|scripts|oxlint\.config\.js|vitest\.config\.ts)(\/|$)/;
  for (const name of files.filter((file) => file.endsWith('.md'))) {
    const text = read(name)
      .replace(/^```.*?^```$/gms, '')
      .replace(/`[^`\n]*`/g, '');
    const links = [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].map(([, link = '']) => link);
    const dead = links
      .filter((link) => !/^[a-z]+:/.test(link))
      .map((link) => path.posix.join(path.posix.dirname(name), link).replace(/\/$/, ''))
      .filter((target) => !has(target) && !files.some((file) => file.startsWith(`${target}/`)))
      .filter((target) => name === 'README.md' || !repository.test(target));
    expectNone(`links of ${name} lead out of the package`, dead);
  }
}

/**
 * Starts the service with a command, and stops it once it listens.
 *
 * @param {string} command
 *
 * @param {string[]} args
 *
 * @param {string} cwd
 */
async function startAndStop(command, args, cwd) {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  let listens = false;
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('"msg":"listening"')) continue;
    listens = true;
    // Signal the whole process group, since npm and npx do not forward signals.
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
  }
  if (!listens) throw new Error(`\`${command} ${args.join(' ')}\` ended before it listened`);
}

try {
  const clone = makeClone();
  // The clone has no history.
  const commit = run('git', ['rev-parse', 'HEAD'], root).trim();
  process.env['DRS_COMMIT'] = commit;
  const [packed] = /** @type {{ filename: string, files: { path: string }[] }[]} */ (
    parse(run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], clone))
  );
  if (packed === undefined) throw new Error('npm pack packed nothing');
  const tarball = at(packed.filename);
  run('tar', ['xzf', tarball]);
  const files = packed.files.map(({ path: name }) => name);
  checkFiles(files);

  const { messages, pkg } = await publint({
    pkgDir: at('package'),
    pack: false,
    level: 'warning',
    strict: true,
  });
  expectNone(
    'publint',
    messages.map((message) => formatMessage(message, pkg) ?? message.code),
  );
  // The package has only ES modules. CommonJS loads them with `require` in newer versions of Node, or with `import()`;
  // test/package shows both.
  const attw = path.join(root, 'node_modules', '@arethetypeswrong', 'cli', 'dist', 'index.js');
  run(process.execPath, [attw, tarball, '--profile', 'esm-only', '--no-emoji', '--format', 'ascii']);

  mkdirSync(at('user'));
  writeFileSync(at('user', 'package.json'), '{"type":"module","private":true}');
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline', tarball], at('user'));
  const version = run('npx', ['drs-verify', '--version'], at('user')).trim();
  const expected = `${/** @type {{ version: string }} */ (parse(read('package.json'))).version} (commit ${commit})`;
  if (version !== expected) throw new Error(`drs-verify --version says ${version}, expected ${expected}`);
  await startAndStop('npx', ['drs-verify', 'serve'], at('user'));
  run('npx', ['drs-verify', 'demo'], at('user'));
  cpSync(path.join(root, 'test', 'package', 'use.mjs'), at('user', 'use.mjs'));
  run(process.execPath, ['use.mjs'], at('user'));

  // A clone without dev packages must start and must not fetch anything.
  rmSync(path.join(clone, 'node_modules'));
  run('npm', ['ci', '--silent', '--omit=dev', '--no-audit', '--no-fund', '--prefer-offline'], clone);
  await startAndStop('npm', ['start', '--silent'], clone);
  if (existsSync(path.join(clone, 'node_modules', 'typescript')))
    throw new Error('npm start fetched the dev packages of a production install');

  const entries = Object.keys(/** @type {{ exports: object }} */ (parse(read('package.json'))).exports);
  console.log(
    `the package works when installed elsewhere: ${files.length} files, ${entries.length} entry points`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
