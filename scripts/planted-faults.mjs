// Plants faults in code that only a process of its own shows, one at a time, and checks that the named test fails:
// `npm run planted-faults`, or only some: `npm run planted-faults -- exchange grpc` (parts of the file names). It works on a
// copy of the folder; the folder itself stays as it is. It fails if a fault survives, if a test fails without a fault, or if a
// text is no longer found. `--check` only looks for the texts and the tests, which takes no time.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import ts from 'typescript';

/**
 * A file of src/service, a text that it holds once, what replaces it, a file of test/e2e, the beginning of the name of the
 * test that must fail, and the front end if it is not uWebSockets.js.
 * @typedef {readonly [file: string, text: string, instead: string, suite: string, test: string, frontEnd?: 'node']} Fault
 */
/** @type {readonly Fault[]} */
const FAULTS = [
  // The life of a process
  [
    'main',
    "explains each.');\n    process.exit(2);",
    "explains each.');\n    process.exit(1);",
    'start',
    'names every problem of the configuration',
  ],
  ['main', 'await service?.close(err !== undefined);', '', 'life-cycle', 'is unhealthy while it drains'],
  ['main', "= ['SIGHUP', 'SIGUSR2']", '= []', 'life-cycle', 'is not what SIGHUP asks for'],
  [
    'http/listen/listen',
    '() => verdicts.decisions?.reopen()',
    '() => undefined',
    'logs-and-traces',
    'a service with a file of decisions, no log of refusals, and an internal address',
  ],
  [
    'main',
    "log.level = log.level === 'debug' ? logLevel : 'debug';",
    '',
    'life-cycle',
    'switches between the configured log level and debug',
  ],
  ['http/listen/listen', 'listener.useCertificate(next);', '{}', 'tls', 'TLS'],
  ['main', "['--ready']", "['--status=x']", 'notify', 'is told once that the service is ready'],
  ['observe/tracing', 'span.end(startTime + milliseconds);', '', 'traces', 'a verdict has its span'],
  [
    'http/listen/listen',
    'if (!isUrgent) await sleep(shutdownDelaySecs * 1000);',
    '',
    'life-cycle',
    'fails only /readyz for SHUTDOWN_DELAY_SECS',
  ],
  [
    'http/listen/listen',
    'gatekeeper.isLeaving = true;',
    '',
    'life-cycle',
    'fails only /readyz for SHUTDOWN_DELAY_SECS',
  ],
  ['http/listen/listen', 'gatekeeper.isDraining = true;', '', 'life-cycle', 'is unhealthy while it drains'],
  [
    'http/listen/listen',
    'while (open() > 0 && performance.now() < deadline)',
    'while (false)',
    'life-cycle',
    'is unhealthy while it drains',
  ],
  // Connections
  ['http/uws', ') connection.close();', ') ;', 'life-cycle', 'are closed at once above MAX_CONNECTIONS'],
  ['http/uws', 'connections.closed();', '', 'life-cycle', 'are closed at once above MAX_CONNECTIONS'],
  [
    'http/uws',
    'LIBUS_LISTEN_DEFAULT : LIBUS_LISTEN_EXCLUSIVE_PORT',
    '0 : 0',
    'start',
    'counts an empty variable as unset, and refuses a port that another drs-verify has',
  ],
  [
    'http/uws',
    'if (isHead && closes && !this.#closesSilently)',
    'if (isHead)',
    'http',
    'answers HEAD also where the next request comes',
  ],
  [
    'http/listen/unix-socket',
    'if (last?.ino === ino && last.dev === dev) rmSync(path, { force: true });',
    '',
    'unix-socket',
    'serves on a Unix socket',
  ],
  [
    'http/listen/unix-socket',
    'if (reason !== null)',
    'if (false)',
    'unix-socket',
    'takes the place of a socket',
  ],
  [
    'http/node/node',
    'if (!connections.opened()) socket.destroy();',
    'connections.opened();',
    'life-cycle',
    'are closed at once above MAX_CONNECTIONS',
    'node',
  ],
  [
    'http/node/node',
    'wires.size >= MAX_PIPELINED ||',
    '',
    'front-ends',
    'closes what pipelines more than a few',
    'node',
  ],
  [
    'http/node/node-wire',
    '/[^\\x00-\\x7f]/.test(value)',
    'false',
    'front-ends',
    'reads header values as UTF-8',
    'node',
  ],
  // Answers over a real connection
  [
    'http/exchange',
    'if (this.contentLength > MAX_DISCARDED_BYTES)',
    'if (false)',
    'hostile-http',
    'gets its answer at once where it announces more than 128 MiB',
  ],
  ['http/body-reader', 'keepOpen();', '', 'hostile-http', 'may take longer than uWebSockets.js itself'],
  [
    'http/listen/listen',
    'if (sharePort) {',
    'if (false) {',
    'shared-port',
    'one that is asked to stop gets no new connections',
  ],
  // gRPC
  ['grpc/server', "'grpc.max_concurrent_streams': MAX_STREAMS,", '', 'grpc', 'has 100 streams'],
  ['grpc/server', 'interceptors: [watchCalls(context)],', '', 'grpc', 'gives a message REQUEST_TIMEOUT_SECS'],
  ['grpc/server', 'metrics.openCalls--;', '', 'grpc', 'leaves nothing behind'],
  ['grpc/server', 'readiness().reason === null', 'true', 'grpc', 'serves while the service is ready'],
  ['grpc/open', "'ERR_MODULE_NOT_FOUND') throw", "'') throw", 'grpc', 'says that'],
];

const root = fileURLToPath(new URL('..', import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { check: { type: 'boolean', default: false } },
});
const chosen = FAULTS.filter(
  ([file]) => positionals.length === 0 || positionals.some((part) => file.includes(part)),
);

const problems = chosen.flatMap((fault) => problemWith(fault) ?? []);
if (chosen.length === 0) problems.push(`no file is named like ${positionals.join(', ')}`);
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
else if (values.check) console.log(`${chosen.length} faults can be planted`);
else await plantAll();

/** What keeps a fault from being planted; `null` if nothing does. @param {Fault} fault */
function problemWith([file, text, , suite, test]) {
  const found = readFileSync(path.join(root, 'src', 'service', `${file}.ts`), 'utf8').split(text).length - 1;
  if (found !== 1)
    return `src/service/${file}.ts has ${found} times ${JSON.stringify(text)}, expected once: correct the fault in scripts/planted-faults.mjs`;
  return readFileSync(path.join(root, 'test', 'e2e', `${suite}.test.ts`), 'utf8').includes(`'${test}`)
    ? null
    : `test/e2e/${suite}.test.ts has no test '${test}', expected one that fails with a fault in src/service/${file}.ts: name another`;
}

async function plantAll() {
  const copy = makeCopy();
  /** Whether a test passes without a fault. @type {Map<string, boolean>} */
  const sound = new Map();
  /** @type {string[]} */
  const missed = [];
  try {
    for (const [at, fault] of chosen.entries()) {
      const [file, text, instead, suite, test, frontEnd] = fault;
      const key = `${suite} ${test} ${frontEnd ?? ''}`;
      if (!sound.has(key)) sound.set(key, (await run(copy, fault)) === 'passed');
      const outcome = sound.get(key) === true ? await runWith(copy, fault) : 'fails without a fault';
      const isFound = outcome === 'failed';
      const line = `${isFound ? 'found' : `NOT FOUND (${outcome})`}: ${file}: ${text} -> ${instead} (${key.trim()})`;
      console.log(`${at + 1}/${chosen.length} ${line}`);
      if (!isFound) missed.push(line);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  console.log(`\n${chosen.length - missed.length} of ${chosen.length} planted faults were found`);
  for (const line of missed) console.log(line);
  if (missed.length > 0) process.exitCode = 1;
}

/** Copies what Git knows of the folder, and the build. */
function makeCopy() {
  const copy = mkdtempSync(path.join(tmpdir(), 'drs-planted-'));
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  for (const file of list.split('\0'))
    if (file !== '' && existsSync(path.join(root, file)))
      cpSync(path.join(root, file), path.join(copy, file));
  cpSync(path.join(root, 'dist'), path.join(copy, 'dist'), { recursive: true });
  symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}

/** Runs a test with its fault in the copy's build. @param {string} copy @param {Fault} fault */
async function runWith(copy, fault) {
  const [file, text, instead] = fault;
  const source = readFileSync(path.join(root, 'src', 'service', `${file}.ts`), 'utf8');
  const built = path.join(copy, 'dist', 'service', `${file}.js`);
  const before = readFileSync(built);
  // Without a check of types, which a fault may break.
  const { outputText } = ts.transpileModule(
    source.replace(text, () => instead),
    {
      compilerOptions: {
        target: ts.ScriptTarget.ES2023,
        module: ts.ModuleKind.ESNext,
        verbatimModuleSyntax: true,
      },
    },
  );
  writeFileSync(built, outputText);
  try {
    return await run(copy, fault);
  } finally {
    writeFileSync(built, before);
  }
}

/** Runs a test. @param {string} copy @param {Fault} fault @returns {Promise<'passed' | 'failed' | 'did not run'>} */
async function run(copy, [, , , suite, test, frontEnd]) {
  const report = path.join(copy, 'planted-fault.json');
  const name = test.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const vitest = path.join('node_modules', 'vitest', 'vitest.mjs');
  rmSync(report, { force: true });
  const child = spawn(
    process.execPath,
    [
      ...[vitest, 'run', '--project', frontEnd === 'node' ? 'node:http' : 'drs', `test/e2e/${suite}.test.ts`],
      ...['-t', name, '--bail', '1', '--testTimeout', '60000', '--reporter', 'json', '--outputFile', report],
    ],
    // A group of its own: what a fault leaves running is ended with it.
    { cwd: copy, stdio: 'ignore', detached: true },
  );
  await once(child, 'exit');
  try {
    process.kill(-(child.pid ?? 0), 'SIGKILL');
  } catch {
    // Nothing is left running.
  }
  if (!existsSync(report)) return 'did not run';
  /** @type {(text: string) => { success: boolean, numPassedTests: number }} */
  const parse = JSON.parse;
  const { success, numPassedTests } = parse(readFileSync(report, 'utf8'));
  if (!success) return 'failed';
  return numPassedTests > 0 ? 'passed' : 'did not run';
}
