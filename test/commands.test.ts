import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TSGO = path.join(ROOT, 'node_modules/@typescript/native-preview/bin/tsgo');
const node = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: ROOT });

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
  const builds = new Map<string, Promise<unknown>>();

  it.each(commands)('%s', async (_, compile, program) => {
    const [, options = ''] = (compile.startsWith('tsgo') ? compile : (scripts['compile'] ?? '')).split(
      'tsgo ',
    );
    if (!builds.has(compile)) builds.set(compile, node(TSGO, ...options.split(' ')));
    await builds.get(compile);
    expect(existsSync(path.join(ROOT, program))).toBe(true);
    await expect(node(program, '--no-such-option')).rejects.toThrow("Unknown option '--no-such-option'");
  });

  it('and there are such commands', () => {
    expect(commands.map(([name]) => name)).toContain('fuzz');
  });
});
