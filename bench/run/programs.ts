import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** The cores that this process may use; `null` if `taskset` is missing or cannot tell. */
export const CORES = allowedCores();

/**
 * The open-loop generator never sleeps, so the service cannot share a core with it: it would be descheduled for
 * milliseconds at a time. One core in four is for the generator. `null` if there is only one, or if processes cannot
 * be pinned: then they share.
 */
export const SPLIT = splitOf(CORES);

/** @param cores `null` or empty if unknown */
export function splitOf(
  cores: readonly number[] | null,
): { readonly service: readonly number[]; readonly generator: readonly number[] } | null {
  if (cores === null || cores.length < 2) return null;
  const generators = Math.max(1, Math.floor(cores.length / 4));
  return { service: cores.slice(0, -generators), generator: cores.slice(-generators) };
}

export const describeSplit = (): string =>
  SPLIT === null
    ? 'the generator and the service share the cores, so high percentiles contain what the scheduler adds'
    : `the service has core ${SPLIT.service.join(', ')}, the generator core ${SPLIT.generator.join(', ')}`;

/** A command that runs on some cores only. @param cores `null`: on all */
export function pinned(
  cores: readonly number[] | null,
  command: string,
  args: readonly string[],
): [command: string, args: string[]] {
  if (cores === null) return [command, [...args]];
  return ['taskset', ['-c', cores.join(','), command, ...args]];
}

/** Parses a list of cores: `0-2,5`. */
export function parseCores(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((range) => {
      const [first = Number.NaN, last = first] = range.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, at) => first + at);
    });
}

function allowedCores(): number[] | null {
  const { status, stdout } = spawnSync('taskset', ['-cp', String(process.pid)], { encoding: 'utf8' });
  const list = status === 0 ? /: ([\d,-]+)$/m.exec(stdout)?.[1] : undefined;
  return list === undefined ? null : parseCores(list);
}

/** This clone. Compiled, this file is at the same place below .build/. */
export const ROOT = path.resolve(import.meta.dirname.replace(/\.build[/\\](?=bench[/\\]run$)/, ''), '../..');

/** The path of a source file that the compiler does not copy. */
export const source = (file: string): string => path.join(ROOT, 'bench', file);

/** The path of a compiled program, for child processes and threads. */
export const program = (file: string): string => path.join(ROOT, '.build', 'bench', file);

/** A folder for files that are gone afterwards. */
export function scratchFolder(): { readonly folder: string } & Disposable {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-bench-'));
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Runs `main` to its exit code, unless one is set already. What it throws is one line on stderr, and 2. */
export async function runMain(name: string, main: () => number | Promise<number>): Promise<void> {
  const code = await Promise.resolve()
    .then(main)
    .catch((error: unknown) => {
      const { message, code } = error as NodeJS.ErrnoException;
      // Node's own advice is about arguments that begin with a dash.
      const isUsage = code?.startsWith('ERR_PARSE_ARGS') === true;
      const said = isUsage ? `${message.split('. ')[0]}; --help lists the options` : message;
      process.stderr.write(`${name}: ${said}\n`);
      return 2;
    });
  process.exitCode ||= code;
}
