import type { Histogram } from 'hdr-histogram-js';
import { intervalOf } from '../measure/statistics.js';
import type { Disturbance } from '../measure/watch.js';
import type { Figure, Results } from './results.js';
import type { Workloads } from '../workload/workload.js';
import type { Plan } from './options.js';

export interface Bench {
  readonly plan: Plan;
  readonly recorder: Recorder;
  readonly workloads: Workloads;
  /**
   * Measures a server while the machine is watched. Samples that are recorded next are compared with the floor of the
   * same time, and what others had of the cores is recorded under `id`.
   *
   * @param cores on which the server runs, so that the floor is that of these cores; default: all
   */
  readonly watch: <Value>(
    id: string,
    pid: number,
    measure: () => Promise<Value>,
    cores?: readonly number[] | null,
  ) => Promise<Value>;
  readonly say: (what: string) => void;
}

/** A group of figures. Its name is the first part of their ids. */
export interface Suite {
  readonly name: string;
  readonly about: string;
  readonly run: (bench: Bench) => Promise<void>;
}

const PERCENTILES = [50, 90, 99, 99.9] as const;

/** The units of quantities; a quantity is the last part of an id. All percentiles are in µs. */
const UNITS: Readonly<Record<string, RegExp>> = {
  µs: /^cpu$|(^|-)p\d/,
  '1/s': /^(throughput|capacity|goodput|rate|timed-out)$/,
  ratio: /^(refused|given-up|(settling-)?goodput-of-capacity|generator|kept-up)$/,
  times: /^ratio$/,
  count: /^(accepted|refused)-wrongly$/,
  bytes: /^(body|resident)$/,
};

interface Recording {
  readonly unit: string;
  readonly samples: number[];
  readonly inFloors: number[];
}

export class Recorder {
  readonly skipped: Results['skipped'][number][] = [];
  readonly notes: string[] = [];
  readonly interference: Results['interference'][number][] = [];
  readonly wrongVerdicts: Results['wrongVerdicts'][number][] = [];
  readonly #recordings = new Map<string, Recording>();
  readonly #measureFloor: () => number;
  #floor = Number.NaN;

  constructor(measureFloor: () => number) {
    this.#measureFloor = measureFloor;
  }

  get floor(): number {
    return this.#floor;
  }

  /** Measures the floor again. Later results are compared with it. Nothing else may be running. */
  measureFloor(): void {
    this.#floor = this.#measureFloor();
    this.record('floor/verify', this.#floor, 'µs');
  }

  /** Records the state of the machine during a measurement. Later samples are compared with the floor of that time. */
  surround(id: string, { floor, others }: Disturbance): void {
    this.interference.push({ id, others });
    if (floor !== null) this.floorWas(floor);
  }

  /** Sets a floor that was measured elsewhere. Later samples are compared with it. */
  floorWas(floor: number): void {
    this.#floor = floor;
    this.record('floor/under-load', floor, 'µs');
  }

  /** Adds a sample to a figure. Times are also kept in floors, and rates as verdicts in the time of one floor. */
  record(id: string, value: number, unit = unitOf(id)): void {
    if (!Number.isFinite(value)) throw new RangeError(`${id} measured ${value}, expected a number`);
    let recording = this.#recordings.get(id);
    if (recording === undefined) this.#recordings.set(id, (recording = { unit, samples: [], inFloors: [] }));
    recording.samples.push(value);
    if (id.startsWith('floor/')) return;
    if (unit === 'µs') recording.inFloors.push(value / this.#floor);
    if (unit === '1/s') recording.inFloors.push((value * this.#floor) / 1e6);
  }

  recordLatencies(id: string, latencies: Histogram): void {
    for (const at of PERCENTILES) {
      // With fewer than five values above it, a percentile is only chance.
      if ((1 - at / 100) * latencies.totalCount < 5) continue;
      this.record(`${id}/p${at}`, latencies.getValueAtPercentile(at));
    }
  }

  blame(where: string, count: number, first: string): void {
    if (count > 0) this.wrongVerdicts.push({ where, count, first });
  }

  skip(what: string, reason: string): void {
    this.skipped.push({ what, reason });
  }

  /** Another recorder, from which only wrong answers are kept. For warm-up runs. */
  discarding(): Recorder {
    const other = new Recorder(() => this.#floor);
    other.blame = (where, count, first) => this.blame(where, count, first);
    return other;
  }

  figures(): Figure[] {
    return [...this.#recordings].map(([id, { unit, samples, inFloors }]) => ({
      ...{ id, unit, runs: samples.length, samples, ...estimateOf(samples) },
      floors: inFloors.length > 0 ? estimateOf(inFloors) : null,
    }));
  }
}

function unitOf(id: string): string {
  const quantity = id.split('/').at(-1) ?? '';
  const found = Object.entries(UNITS).find(([, quantities]) => quantities.test(quantity));
  if (found === undefined) throw new RangeError(`${id} has no unit`);
  return found[0];
}

function estimateOf(samples: readonly number[]) {
  const { median, low, high } = intervalOf(samples);
  return { median, low, high };
}
