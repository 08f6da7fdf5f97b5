// Packs the package from a clone, installs it elsewhere like a user, and checks its files, size, types, command and an
// example.
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
import { packedFiles } from './packed-files.mjs';

/** The most that an install of the package may take. README.md says how much it is. */
const MAX_INSTALLED_MB = 50;

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

/** Makes a clone that has been built. It uses the packages of this one. */
function makeClone() {
  const clone = at('clone');
  for (const file of run('git', ['ls-files', '-z'], root).split('\0')) {
    if (file === '' || !existsSync(path.join(root, file))) continue;
    mkdirSync(path.dirname(path.join(clone, file)), { recursive: true });
    cpSync(path.join(root, file), path.join(clone, file));
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(clone, 'node_modules'), 'dir');
  // Set-up builds again unless this is what the sources of the clone give.
  cpSync(path.join(root, 'dist'), path.join(clone, 'dist'), { recursive: true });
  return clone;
}

/** @param {string} file */
const read = (file) => readFileSync(at('package', file), 'utf8');

/** @param {string[]} files what is in the package */
function checkFiles(files) {
  const manifest =
    /** @type {{ scripts: Record<string, string>, imports: Record<string, string>, exports: Record<string, string | Record<string, string>>, bin: Record<string, string> }} */ (
      parse(read('package.json'))
    );
  // The clone that is packed here has been built; a fresh one has not.
  if (manifest.scripts['prepack'] !== 'node scripts/setup.mjs')
    throw new Error('package.json: the script prepack must run scripts/setup.mjs, which builds');
  // `dist/approve/*` names all files of a folder.
  const has = (/** @type {string} */ target) =>
    target.endsWith('/*')
      ? files.some((file) => file.startsWith(path.posix.normalize(target).slice(0, -1)))
      : files.includes(path.posix.normalize(target));
  const targets = [manifest.imports, manifest.bin, ...Object.values(manifest.exports)].flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry).filter((value) => typeof value === 'string'),
  );
  expectNone(
    'named in package.json, but not packed',
    targets.filter((target) => !has(target)),
  );

  const allowed =
    /^(dist|docs|deploy|examples)\/|^(scripts\/drs\.mjs|package\.json|(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE)$/;
  const stray = /node_modules|\.tgz$|\.key$|\.log$|\/\./;
  expectNone(
    'packed, but should not be',
    files.filter((name) => !allowed.test(name) || stray.test(name)),
  );

  // A user needs what runs and its types. The sources, and maps that lead to them, are in the repository.
  const ofUsers =
    /\.(c?js|d\.c?ts)$|\/(openapi\.json|build\.json|hosts\.json|messages\.proto|(inspect|index)\.html|approve-\w+\.(css|svg))$/;
  expectNone(
    'packed, but neither run nor types',
    files.filter((name) => name.startsWith('dist/') && !ofUsers.test(name)),
  );
  expectNone(
    'names a map, which is not packed',
    files.filter((name) => name.startsWith('dist/') && /^\/\/# sourceMappingURL=/m.test(read(name))),
  );

  // Pages use these, where there may be no types of Node: test/edge compiles them so.
  const ofPages = ['issue', 'client', 'pure'].map((entry) => `./dist/${entry}/index.d.ts`);
  for (const entry of Object.values(manifest.exports)) {
    const types = typeof entry === 'string' ? undefined : entry['types'];
    if (types === undefined || ofPages.includes(types)) continue;
    if (!read(types).startsWith('/// <reference types="node"'))
      throw new Error(`${types} does not begin with a reference to Node's types, which its exports need`);
  }

  for (const name of files.filter((file) => file.endsWith('.md'))) {
    const text = read(name)
      .replace(/^```.*?^```$/gms, '')
      .replace(/`[^`\n]*`/g, '');
    const links = [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].map(([, link = '']) => link);
    const dead = links
      .filter((link) => !/^[a-z]+:/.test(link))
      .map((link) => path.posix.join(path.posix.dirname(name), link).replace(/\/$/, ''))
      .filter((target) => !has(target) && !files.some((file) => file.startsWith(`${target}/`)));
    expectNone(`links of ${name} lead out of the package`, dead);
  }
}

/**
 * Starts a program in a process group of its own, and ends the group once a line of its output has been used.
 *
 * @param {string} cwd
 * @param {[string, ...string[]]} command
 * @param {(line: string, seen: string[]) => unknown} use resolves with `false` for a line that it waits no longer than
 */
async function runUntil(cwd, [command, ...args], use) {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  /** @type {string[]} */
  const seen = [];
  let isUsed = false;
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      seen.push(line);
      if (isUsed || (await use(line, seen)) === false) continue;
      isUsed = true;
      // The whole process group, since npm and npx do not forward signals.
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
    }
  } finally {
    if (!isUsed && child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }
  if (!isUsed) throw new Error(`\`${[command, ...args].join(' ')}\` ended too early: ${seen.join('\n')}`);
  return seen;
}

/**
 * Starts the service with a command, and stops it once it listens.
 *
 * @param {string} cwd
 * @param {...string} command
 * @returns what the log says of the front end
 */
async function startAndStop(cwd, ...command) {
  const isListening = (/** @type {string} */ line) => line.includes('"msg":"listening"');
  const seen = await runUntil(cwd, /** @type {[string, ...string[]]} */ (command), isListening);
  return seen.find((line) => line.includes('the front end is')) ?? '';
}

/** @param {string} cwd of a project that has just the package */
function checkSize(cwd) {
  const megabytes = Number.parseInt(run('du', ['-sk', 'node_modules'], cwd)) / 1024;
  if (!(megabytes <= MAX_INSTALLED_MB))
    throw new Error(
      `node_modules has ${megabytes.toFixed(1)} MB, expected at most ${MAX_INSTALLED_MB}; the largest, in kB:\n` +
        run('sh', ['-c', 'du -sk node_modules/* | sort -rn | head'], cwd),
    );
  const [, said] = /^\| `npm install \S+\.tgz` \|.*\| (\d+) \|$/m.exec(read('README.md')) ?? [];
  if (!(Math.abs(Number(said) - megabytes) < 1))
    throw new Error(`README.md, "Install", says ${said} MB, expected ${megabytes.toFixed(1)}`);
  return megabytes;
}

/**
 * The service says which command adds the faster front end. The command adds it.
 *
 * @param {string} cwd of a project that has just the package
 */
async function checkFrontEnd(cwd) {
  const said = await startAndStop(cwd, 'npx', 'drs-verify', 'serve');
  const [, command] = /node:http: uWebSockets\.js is not installed; `(npm install [^`]+)`/.exec(said) ?? [];
  if (command === undefined) throw new Error(`expected a line that says how to add uWebSockets.js: ${said}`);
  run('sh', ['-c', `${command} --silent --no-audit --no-fund --prefer-offline`], cwd);
  const then = await startAndStop(cwd, 'npx', 'drs-verify', 'serve');
  const [major] = process.versions.node.split('.');
  // There is no binary for every release of Node.
  if (['20', '22', '24'].includes(major ?? '') && !then.includes('the front end is uWebSockets.js'))
    throw new Error(`\`${command}\` did not change the front end: ${then}`);
}

/** @param {string} tarball */
async function checkExample(tarball) {
  const cwd = at('copied');
  cpSync(at('package', 'examples', 'hono-tools'), cwd, { recursive: true });
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline', tarball], cwd);
  await runUntil(cwd, ['npm', 'start', '--silent'], (line) => {
    const [, url] = /^listening on (\S+)$/.exec(line) ?? [];
    if (url === undefined) return false;
    const said = run('npm', ['run', '--silent', 'agent', '--', url], cwd);
    if (!/^signed: 200 .*\nnot signed: 401 /.test(said)) throw new Error(`the example's agent says: ${said}`);
    return true;
  });
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
  const listed = packedFiles(clone);
  expectNone(
    'packed, but not in scripts/packed-files.mjs',
    files.filter((file) => !listed.includes(file)),
  );
  expectNone(
    'in scripts/packed-files.mjs, but not packed',
    listed.filter((file) => !files.includes(file)),
  );

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
  const megabytes = checkSize(at('user'));
  cpSync(path.join(root, 'test', 'package', 'use.mjs'), at('user', 'use.mjs'));
  run(process.execPath, ['use.mjs'], at('user'));
  await checkFrontEnd(at('user'));
  await checkExample(tarball);

  // In a clone, npx finds its command. It asks no registry.
  const inClone = run('npx', ['--offline', 'drs-verify', '--version'], clone).trim();
  if (inClone !== expected) throw new Error(`npx drs-verify --version in a clone says ${inClone}`);

  // A clone without dev packages must start and must not fetch anything.
  rmSync(path.join(clone, 'node_modules'));
  run('npm', ['ci', '--silent', '--omit=dev', '--no-audit', '--no-fund', '--prefer-offline'], clone);
  await startAndStop(clone, 'npm', 'start', '--silent');
  if (existsSync(path.join(clone, 'node_modules', 'typescript')))
    throw new Error('npm start fetched the dev packages of a production install');

  const entries = Object.keys(/** @type {{ exports: object }} */ (parse(read('package.json'))).exports);
  console.log(
    `the package works when installed elsewhere: ${files.length} files, ${entries.length} entry points, ` +
      `${megabytes.toFixed(1)} MB with what it needs`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
