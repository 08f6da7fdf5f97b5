// Runs many command lines in one process, one after the other: to start a process takes longer than most commands do.
// Each has a program, arguments, an environment, a directory and streams of its own; only the modules of the commands
// stay loaded. Whether a command ends by itself, pipes and terminals are for tests with a process of its own.
import { Console } from 'node:console';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const MAIN = new URL('../../dist/cli/main.js', import.meta.url);

/**
 * @typedef {object} CommandLine
 * @property {number} id
 * @property {string} directory
 * @property {readonly string[]} args
 * @property {Record<string, string | undefined>} env
 * @property {string | Buffer} stdin
 */

/** @param {CommandLine} line */
async function run({ id, directory, args, env, stdin }) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const streams = { stdin: Readable.from([Buffer.from(stdin)]), stdout, stderr };
  for (const [name, value] of Object.entries(streams)) Object.defineProperty(process, name, { value });
  globalThis.console = new Console(stdout, stderr);
  process.chdir(directory);
  process.env = env;
  process.argv = [process.execPath, fileURLToPath(MAIN), ...args];
  process.exitCode = 0;
  const output = Promise.all([text(stdout), text(stderr)]);
  // Another URL is another module, which runs again.
  await import(new URL(`program.js?${id}`, MAIN).href);
  stdout.end();
  stderr.end();
  const [out, err] = await output;
  process.send?.({ id, outcome: { code: process.exitCode, stdout: out, stderr: err } });
}

/** @type {Promise<void>} */
let last = Promise.resolve();
process.on('message', (/** @type {CommandLine} */ line) => {
  last = last.then(() => run(line));
});
process.on('disconnect', () => process.exit());
