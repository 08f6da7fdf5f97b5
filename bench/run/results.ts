import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Estimate } from '../measure/statistics.js';
import { ROOT } from './programs.js';

/** The version of the file format. It is raised if readers of the old version could not read the new one. */
export const RESULTS_SCHEMA = 5;

export interface Figure extends Estimate {
  /** `suite/parameters/quantity` */
  readonly id: string;
  readonly unit: string;
  readonly runs: number;
  /** One for each run. Kept results have none. */
  readonly samples?: readonly number[];
  /** A time in floors, or the verdicts in the time of one floor; each sample with the floor of its own moment. */
  readonly floors: Estimate | null;
}

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
  /** Answers that were wrong, or figures that are impossible. If there is one, nothing counts. */
  readonly wrongVerdicts: readonly {
    readonly where: string;
    readonly count: number;
    readonly first: string;
  }[];
  readonly floorMicroseconds: number;
  readonly figures: readonly Figure[];
  /** The share of all cores that others had while a figure was measured, in the order of measuring. */
  readonly interference: readonly { readonly id: string; readonly others: number }[];
  /** How many noisy measurements were thrown away, and taken again. */
  readonly thrownAway: number;
  readonly skipped: readonly { readonly what: string; readonly reason: string }[];
  readonly notes: readonly string[];
}

/** If others have more than this share of the cores, results say so. */
export const NOISY = 0.1;

/** The measurements during which others had more than {@link NOISY} of the cores. */
export const noisyIn = ({ interference }: Pick<Results, 'interference'>) =>
  interference.filter(({ others }) => others > NOISY);

export type Finder = (id: string) => Figure | undefined;

export const finderOf = ({ figures }: Pick<Results, 'figures'>): Finder => {
  const byId = new Map(figures.map((figure) => [figure.id, figure]));
  return (id) => byId.get(id);
};

/**
 * Reads valid results.
 *
 * @param folder of a run
 * @throws Error if they are of another version of the format, or void
 */
export function readResults(folder: string): Results {
  const file = path.join(folder, 'results.json');
  if (!existsSync(file)) throw new Error(`there is no ${file}, expected a folder of bench/results/`);
  const results = JSON.parse(readFileSync(file, 'utf8')) as Results;
  // The type promises this version, but the file may have another one.
  const found: number = results.schema;
  if (found !== RESULTS_SCHEMA)
    throw new Error(`${file} has schema ${found}, expected ${RESULTS_SCHEMA}: measure it again`);
  if (results.wrongVerdicts.length > 0)
    throw new Error(`${file} is void: it saw wrong verdicts. Measure it again`);
  return results;
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
