import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, totalmem, type as systemType } from 'node:os';
import path from 'node:path';
import { ROOT } from './programs.js';

/** The version of the file format. It is raised if readers of the old version could not read the new one. */
export const RESULTS_SCHEMA = 3;

/** Which way is an improvement. */
export type Better = 'lower' | 'higher' | 'neither';

/** The conditions of a figure, such as depth or connections. Only those that apply are present. */
export type Parameters = Readonly<Record<string, string | number>>;

/** The median of some runs, with its interval (see `intervalOf`). */
export interface Estimate {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** One measured quantity. */
export interface Figure extends Estimate {
  /** `suite/parameters/quantity` */
  readonly id: string;
  readonly unit: string;
  readonly better: Better;
  readonly parameters: Parameters;
  readonly runs: number;
  /** One for each run. Kept results have none. */
  readonly samples?: readonly number[];
  /** A time in floors, or the verdicts in the time of one floor; each sample with the floor of its own moment. */
  readonly floors: Estimate | null;
}

/** The load of other programs while a figure was measured, as shares of all cores. */
export interface Interference {
  readonly id: string;
  readonly others: number;
  readonly stolen: number;
}

/** results.json */
export interface Results {
  readonly schema: typeof RESULTS_SCHEMA;
  readonly startedAt: string;
  readonly seconds: number;
  readonly command: string;
  readonly mode: string;
  readonly commit: string;
  /** Whether the working copy differs from the commit. */
  readonly isDirty: boolean;
  readonly machine: Readonly<Record<string, string | number>>;
  readonly versions: Readonly<Record<string, string>>;
  /** Whether an answer was wrong. Then nothing counts. */
  readonly isVoid: boolean;
  readonly wrongVerdicts: readonly WrongVerdicts[];
  /** The median floor of the run. */
  readonly floorMicroseconds: number;
  readonly figures: readonly Figure[];
  /** In the order of measuring. */
  readonly interference: readonly Interference[];
  readonly skipped: readonly { readonly what: string; readonly reason: string }[];
  readonly notes: readonly string[];
}

/** Answers that were wrong, or a figure that is impossible. */
export interface WrongVerdicts {
  readonly where: string;
  readonly count: number;
  readonly first: string;
}

/** If other programs have more than this share of the cores, results say so. */
export const NOISY = 0.1;

/** The measurements during which others had more than {@link NOISY} of the cores. */
export const noisyIn = ({ interference }: Pick<Results, 'interference'>) =>
  interference.filter(({ others, stolen }) => others + stolen > NOISY);

/** Finds figures by their ids. */
export const finderOf = ({ figures }: Pick<Results, 'figures'>): ((id: string) => Figure | undefined) => {
  const byId = new Map(figures.map((figure) => [figure.id, figure]));
  return (id) => byId.get(id);
};

/**
 * Reads valid results.
 *
 * @param given a results.json, or its directory
 * @throws Error if they are of another version of the format, or void
 */
export function readResults(given: string): Results {
  const file = statSync(given).isDirectory() ? path.join(given, 'results.json') : given;
  const results = JSON.parse(readFileSync(file, 'utf8')) as Results;
  // The type promises this version, but the file may have another one.
  const found: number = results.schema;
  if (found !== RESULTS_SCHEMA)
    throw new Error(`${file} has schema ${found}, expected ${RESULTS_SCHEMA}: measure it again`);
  if (results.isVoid) throw new Error(`${file} is void: it saw wrong verdicts. Measure it again`);
  return results;
}

/** The parts of the machine that affect the figures. */
export function describeMachine(): Results['machine'] {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${systemType()} ${release()}`,
    loadAverageAtStart: loadavg()[0] ?? Number.NaN,
  };
}

/** The versions of the programs and packages that were used. */
export function describeVersions(): Results['versions'] {
  const packages = ['sodium-native', 'uWebSockets.js', 'piscina', 'hdr-histogram-js', 'fastify', 'jose'].map(
    (name) => [name, versionIn(path.join(ROOT, 'node_modules', name))] as const,
  );
  return {
    node: process.versions.node,
    ...Object.fromEntries(packages),
  };
}

function versionIn(folder: string): string {
  try {
    return (JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as { version: string })
      .version;
  } catch {
    return 'not installed';
  }
}

/** The measured commit, and whether the working copy differs from it. */
export function describeCommit(): Pick<Results, 'commit' | 'isDirty'> {
  try {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
    return {
      commit: git('rev-parse', 'HEAD'),
      isDirty: git('status', '--porcelain', '--', 'src', 'package-lock.json') !== '',
    };
  } catch {
    return { commit: 'unknown', isDirty: false };
  }
}
