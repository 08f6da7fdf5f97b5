// `npm run dev`: runs the service, and builds and starts it again whenever a file of src/ changes. Stop it with Ctrl-C.
// The type errors of a change are printed; the service runs what was built nevertheless.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
// Must come first: it installs what is missing, and builds what the compiler does not make (openapi.json, build.json).
import './setup.mjs';

const at = (/** @type {string} */ file) => fileURLToPath(new URL(`../${file}`, import.meta.url));

/** @type {Set<import('node:child_process').ChildProcess>} */
const children = new Set();
/** @param {string[]} args @param {import('node:child_process').StdioOptions} stdio */
function start(args, stdio) {
  // With a process group of its own: the compiler's command starts another process, to which it passes no signal.
  const child = spawn(process.execPath, args, { cwd: at(''), stdio, detached: true });
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}

/** @param {number} code of this process; only the first counts */
function stop(code) {
  process.exitCode ??= code;
  for (const child of children) end(child);
}
/** @param {import('node:child_process').ChildProcess} child the first process of its group */
function end({ pid }) {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM');
  } catch (error) {
    // It has ended already.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop(0));

/** @type {import('node:child_process').ChildProcess | undefined} */
let service;
async function startAgain() {
  const old = service;
  service = undefined;
  if (old !== undefined && children.has(old)) {
    const ended = once(old, 'exit');
    end(old);
    await ended;
  }
  if (process.exitCode !== undefined) return;
  const started = start([at('dist/cli/main.js'), 'serve'], 'inherit');
  service = started;
  started.once('exit', (code) => {
    if (service === started && process.exitCode === undefined)
      console.error(`the service ended with ${code}; it starts again after the next change`);
  });
}

// The native compiler, as for a build.
const tsgo = at('node_modules/@typescript/native-preview/bin/tsgo');
const options = '-p tsconfig.build.json --declaration false --watch --preserveWatchOutput';
const compiler = start([tsgo, ...options.split(' ')], ['ignore', 'pipe', 'inherit']);
compiler.once('exit', () => stop(1));
if (compiler.stdout === null) throw new Error('the compiler has no output');
for await (const line of createInterface({ input: compiler.stdout })) {
  if (line !== '') console.error(line);
  // It has written what it compiled.
  if (line.includes('Watching for file changes') && process.exitCode === undefined) await startAgain();
}
