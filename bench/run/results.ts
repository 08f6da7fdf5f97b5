import type { CurvePoint } from '../measure/latencies.js';

/** The version of the file format. It is raised if readers of the old version could not read the new one. */
export const RESULTS_SCHEMA = 2;

/** Which way is an improvement. */
export type Better = 'lower' | 'higher' | 'neither';

/** The conditions of a figure, such as depth or connections. Only those that apply are present. */
export type Parameters = Readonly<Record<string, string | number>>;

/** One measured quantity. bench/schema/results.schema.json describes each member. */
export interface Figure {
  readonly id: string;
  readonly suite: string;
  readonly unit: string;
  readonly better: Better;
  readonly parameters: Parameters;
  readonly samples: readonly number[];
  readonly median: number;
  readonly spread: number;
  readonly samplesInFloors: readonly number[] | null;
  readonly floors: number | null;
}

/** A latency distribution over all runs. */
export interface Distribution {
  readonly id: string;
  readonly parameters: Parameters;
  readonly file: string;
  readonly count: number;
  readonly curve: readonly CurvePoint[];
}

/** What was not measured, and why. */
export interface Skipped {
  readonly what: string;
  readonly reason: string;
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
  readonly isDirty: boolean;
  readonly machine: Readonly<Record<string, string | number>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly isVoid: boolean;
  readonly wrongVerdicts: readonly {
    readonly where: string;
    readonly count: number;
    readonly first: string;
  }[];
  readonly floorMicroseconds: number;
  readonly figures: readonly Figure[];
  readonly distributions: readonly Distribution[];
  /** In the order of measuring. */
  readonly interference: readonly Interference[];
  readonly skipped: readonly Skipped[];
  readonly notes: readonly string[];
}

/** The figure with this id. */
export function figureOf(results: Results, id: string): Figure | undefined {
  return results.figures.find((figure) => figure.id === id);
}
