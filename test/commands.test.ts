import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TSGO = path.join(ROOT, 'node_modules/@typescript/native-preview/bin/tsgo');
const RUNNER = path.join(ROOT, 'test/support/refuses-options.mjs');
// The compiler ends before there is garbage to collect.
const env = { ...process.env, GOGC: 'off' };
const node = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: ROOT, env });

const { scripts } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
/** The commands that are compiled first, and read options: an option that none has ends them before they do anything. */
const commands = Object.entries(scripts).flatMap(([name, command]) => {
  const [, compile, program] =
    /(npm run --silent compile|tsgo -p \S+) && node (?:--\S+ )*(\S+)/.exec(command) ?? [];
  if (compile === undefined || program === undefined) return [];
  const source = program.replace(/^.*\.build\//, '').replace(/js$/, 'ts');
  return readFileSync(path.join(ROOT, source), 'utf8').includes('parseArgs')
    ? [[name, compile, program]]
    : [];
}) as [string, string, string][];

// No test runs these whole: what they import must be where the compiler puts it.
describe('a command of package.json starts', () => {
  let said: Record<string, string>;
  beforeAll(async () => {
    for (const compile of new Set(commands.map(([, command]) => command))) {
      const [, options = ''] = (compile.startsWith('tsgo') ? compile : (scripts['compile'] ?? '')).split(
        'tsgo ',
      );
      // Threads would each check the same libraries.
      await node(TSGO, ...options.split(' '), '--singleThreaded');
    }
    const { stdout } = await node(RUNNER, ...commands.map(([, , program]) => path.join(ROOT, program)));
    said = JSON.parse(stdout) as Record<string, string>;
  });

  it.each(commands)('%s', (_, __, program) => {
    expect(said[path.join(ROOT, program)]).toContain("Unknown option '--no-such-option'");
  });

  it('and there are such commands', () => {
    expect(commands.map(([name]) => name)).toContain('fuzz');
  });
});
