import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject, Vitest } from 'vitest/node';
import { installCommand, type ProgramName } from './needed-programs.mjs';

/** More than a test takes, on a busy machine. */
const NAMED_AFTER_MS = 240_000;
/** More than the limit of any test or hook. */
const ENDED_AFTER_MS = 1_000_000;

/** The path of a Unix socket has at most 107 bytes (sockaddr_un), of which tests and their services need some 60. */
const MAX_TMPDIR_BYTES = 40;

/**
 * Around a whole run of the tests: their temporary folders go with the run, a run in which nothing happens any more
 * says where it stands, and ends, and the end of a run names what was skipped because programs are missing. Each project
 * of vitest.config.ts calls this.
 *
 * @returns what is called after the run
 */
export default function setup(project: TestProject): (() => void) | undefined {
  if (!project.isRootProject()) return undefined;
  // All addresses of tests are on this machine.
  for (const name of Object.keys(process.env))
    if (/^(?:https?|all)_proxy$/i.test(name)) Reflect.deleteProperty(process.env, name);
  const parent = Buffer.byteLength(tmpdir()) > MAX_TMPDIR_BYTES ? '/tmp' : tmpdir();
  // Workers are ended by a signal, and remove nothing. What programs of the tests leave is here, too.
  const folder = mkdtempSync(path.join(parent, 'drs-tests-'));
  process.env['TMPDIR'] = folder;
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  setInterval(watchOf(project.vitest), 10_000).unref();
  return () => nameMissingPrograms(project.vitest);
}

function nameMissingPrograms({ state }: Vitest): void {
  const tests = state.getTestModules().flatMap(({ children }) => [...children.allTests()]);
  const skipped = tests.map((test) => test.meta().missing ?? []).filter((missing) => missing.length > 0);
  if (skipped.length === 0) return;
  const missing: readonly ProgramName[] = [...new Set(skipped.flat())].sort();
  console.error(
    `${skipped.length} tests skipped: not installed are ${missing.join(', ')}; \`${installCommand(missing)}\` runs them too`,
  );
}

/** Workers keep the limits of tests, and one that waits in `spawnSync` keeps none. */
function watchOf({ state }: Vitest): () => void {
  let ended = -1;
  let since = 0;
  let isNamed = false;
  return () => {
    const modules = state.getTestModules();
    const tests = modules.flatMap(({ children }) => [...children.allTests()]);
    const open = tests.filter((test) => test.result().state === 'pending');
    const found =
      tests.length - open.length + modules.filter((module) => module.state() !== 'pending').length;
    if (found !== ended) [ended, since, isNamed] = [found, Date.now(), false];
    const silence = Date.now() - since;
    if (silence > NAMED_AFTER_MS && !isNamed) {
      isNamed = true;
      console.error(`no test has ended for ${NAMED_AFTER_MS / 1000} s, and nothing was heard of:`);
      for (const module of modules.filter((one) => one.state() === 'pending'))
        console.error(
          `  ${module.relativeModuleId}, from "${open.find((test) => test.module === module)?.fullName}" on`,
        );
    }
    if (silence > ENDED_AFTER_MS) process.exit(1);
  };
}
