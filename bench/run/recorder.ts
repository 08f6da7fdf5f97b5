import type { Histogram } from 'hdr-histogram-js';
import { intervalOf } from '../measure/statistics.js';
import type { Disturbance } from '../measure/watch.js';
import type { Better, Figure, Interference, Parameters, Results, WrongVerdicts } from './results.js';

/** The percentiles that figures are recorded for. */
const PERCENTILES = [50, 90, 99, 99.9] as const;

interface Recording {
  readonly unit: string;
  readonly better: Better;
  readonly parameters: Parameters;
  readonly samples: number[];
  readonly inFloors: number[];
}

/** What most quantities are called, their units, and which way is an improvement. */
const KINDS: Readonly<Record<string, readonly [unit: string, better: Better]>> = {
  cpu: ['µs', 'lower'],
  throughput: ['1/s', 'higher'],
  capacity: ['1/s', 'higher'],
  refused: ['ratio', 'lower'],
  goodput: ['1/s', 'higher'],
};

/** Collects what the suites measure. */
export class Recorder {
  readonly skipped: Results['skipped'][number][] = [];
  readonly notes: string[] = [];
  readonly interference: Interference[] = [];
  readonly wrongVerdicts: WrongVerdicts[] = [];
  readonly #recordings = new Map<string, Recording>();
  readonly #measureFloor: () => number;
  #floor = Number.NaN;

  /** @param measureFloor measures one libsodium verification, in µs */
  constructor(measureFloor: () => number) {
    this.#measureFloor = measureFloor;
  }

  /** The floor as last measured, in µs. */
  get floor(): number {
    return this.#floor;
  }

  /** Measures the floor again. Later results are compared with it. Nothing else may be running. */
  measureFloor(): number {
    this.#floor = this.#measureFloor();
    this.record('floor/verify', this.#floor, {}, ['µs', 'neither']);
    return this.#floor;
  }

  /** Records the state of the machine during a measurement. Later samples are compared with the floor of that time. */
  surround(id: string, { floor, others, stolen }: Disturbance): void {
    this.interference.push({ id, others, stolen });
    if (floor !== null) this.floorWas(floor);
  }

  /** Sets a floor that was measured elsewhere. Later samples are compared with it. */
  floorWas(floor: number): void {
    this.#floor = floor;
    this.record('floor/under-load', floor, {}, ['µs', 'neither']);
  }

  /**
   * Adds a sample to a figure. Times are also kept in floors, and rates as verdicts in the time of one floor.
   *
   * @param kind unit and direction; default: by the quantity, which is the last part of the id
   */
  record(id: string, value: number, parameters: Parameters, kind = KINDS[id.split('/').at(-1) ?? '']): void {
    if (!Number.isFinite(value)) throw new RangeError(`${id} measured ${value}, expected a number`);
    if (kind === undefined) throw new RangeError(`${id} has no unit`);
    const [unit, better] = kind;
    let recording = this.#recordings.get(id);
    if (recording === undefined)
      this.#recordings.set(id, (recording = { unit, better, parameters, samples: [], inFloors: [] }));
    recording.samples.push(value);
    if (id.startsWith('floor/')) return;
    if (unit === 'µs') recording.inFloors.push(value / this.#floor);
    if (unit === '1/s') recording.inFloors.push((value * this.#floor) / 1e6);
  }

  /** Adds the percentiles of one run as samples. */
  recordLatencies(id: string, latencies: Histogram, parameters: Parameters): void {
    for (const at of PERCENTILES) {
      // With fewer than five values above it, a percentile is only chance.
      if ((1 - at / 100) * latencies.totalCount < 5) continue;
      this.record(`${id}/p${at}`, latencies.getValueAtPercentile(at), parameters, ['µs', 'lower']);
    }
  }

  /** Notes wrong verdicts, which make the whole run void. */
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

  /** The figures so far. */
  figures(): Figure[] {
    return [...this.#recordings].map(([id, { inFloors, samples, ...about }]) => ({
      ...{ id, ...about, runs: samples.length, samples, ...estimateOf(samples) },
      floors: inFloors.length > 0 ? estimateOf(inFloors) : null,
    }));
  }
}

function estimateOf(samples: readonly number[]) {
  const { median, low, high } = intervalOf(samples);
  return { median, low, high };
}
