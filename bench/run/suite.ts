import type { Histogram } from 'hdr-histogram-js';
import { measureFloor } from '../measure/floor.js';
import { decodeLatencies, encodeLatencies, intervalOf } from '../measure/statistics.js';
import type { Disturbance } from '../measure/watch.js';
import { NOISY, type Figure, type Results } from './results.js';
import type { Workloads } from '../workload/workload.js';
import type { Plan } from './options.js';

export interface Bench {
  /** Of one run: its `runs` is 1. */
  readonly plan: Plan;
  /** The number of the run, from 1. */
  readonly run: number;
  readonly recorder: Recorder;
  readonly workloads: Workloads;
  /**
   * Measures a server, or several processes, while the machine is watched. Samples that are recorded next are compared with the floor of the
   * same time, and what others had of the cores is recorded under `id`.
   */
  readonly watch: <Value>(
    id: string,
    pids: number | number[],
    measure: () => Promise<Value>,
  ) => Promise<Value>;
  /** Takes a step again if it was noisy, a few times, and throws away what it recorded before. */
  readonly undisturbed: <Value>(step: () => Promise<Value>) => Promise<Value>;
  readonly say: (what: string) => void;
}

/** The same, but of what it measures only wrong answers count: for new processes, in which V8 compiles. */
export const warmingUp = (bench: Bench): Bench => ({
  ...bench,
  recorder: bench.recorder.discarding(),
  watch: (_id, _pids, measure) => measure(),
  undisturbed: (step) => step(),
});

/** A group of figures. Its name is the first part of their ids. */
export interface Suite {
  readonly name: string;
  readonly about: string;
  /** It takes long: `--all` has no more runs of it than this. */
  readonly maxRuns?: number;
  /**
   * Whether floors are measured before, and not meanwhile. The samplers take each core for a millisecond, 2 % of the time: nothing
   * in a throughput, but all of a p99, since requests wait for them and the generator is late.
   */
  readonly isAboutLatency?: boolean;
  /** Measures everything once, with new processes: the runs of a figure are spread over the whole time. */
  readonly run: (bench: Bench) => Promise<void>;
}

const PERCENTILES = [50, 90, 99, 99.9] as const;

/** The units of quantities; a quantity is the last part of an id. All percentiles are in µs. */
const UNITS: Readonly<Record<string, RegExp>> = {
  µs: /^(cpu|max|first-answer)$|(^|-)p\d/,
  '1/s': /^(throughput|capacity|goodput|rate|timed-out)$/,
  ratio: /^(refused|goodput-of-capacity|generator|kept-up)$/,
  times: /^ratio$/,
  count: /^(accepted|refused)-wrongly$/,
  bytes: /^(body|resident|heap)$/,
};

interface Recording {
  readonly unit: string;
  readonly samples: number[];
  readonly inFloors: number[];
}

/** What a recorder has, as JSON: the file of a run of a suite. */
export interface Recorded {
  recordings: Record<string, Recording>;
  /** Latencies of which percentiles are taken over all runs together, encoded. */
  histograms: Record<string, string[]>;
  /** How many noisy measurements were thrown away. */
  thrownAway: number;
  readonly skipped: Results['skipped'][number][];
  readonly notes: string[];
  interference: Results['interference'][number][];
  readonly wrongVerdicts: Results['wrongVerdicts'][number][];
}

/** How often a noisy step is taken again. */
const MAX_REPEATS = 2;

export class Recorder {
  readonly recorded: Recorded = {
    ...{ recordings: {}, histograms: {}, thrownAway: 0 },
    ...{ skipped: [], notes: [], interference: [], wrongVerdicts: [] },
  };
  readonly notes: string[] = this.recorded.notes;
  /** The floor with which samples are compared; only this recorder sets it. */
  floor = Number.NaN;

  /** Measures the floor again. Later results are compared with it. Nothing else may be running. */
  measureFloor(): void {
    this.floor = measureFloor();
    this.record('floor/verify', this.floor, 'µs');
  }

  /** Records the state of the machine during a measurement. Later samples are compared with the floor of that time. */
  surround(id: string, { floor, others }: Disturbance): void {
    this.recorded.interference.push({ id, others });
    if (floor !== null) this.floorWas(floor);
  }

  /** Sets a floor that was measured elsewhere. Later samples are compared with it. */
  floorWas(floor: number): void {
    this.floor = floor;
    this.record('floor/under-load', floor, 'µs');
  }

  /** Adds a sample to a figure. Times are also kept in floors, and rates as verdicts in the time of one floor. */
  record(id: string, value: number, unit = unitOf(id)): void {
    if (!Number.isFinite(value)) throw new RangeError(`${id} measured ${value}, expected a number`);
    const recording = (this.recorded.recordings[id] ??= { unit, samples: [], inFloors: [] });
    recording.samples.push(value);
    if (id.startsWith('floor/') || Number.isNaN(this.floor)) return;
    if (unit === 'µs') recording.inFloors.push(value / this.floor);
    if (unit === '1/s') recording.inFloors.push((value * this.floor) / 1e6);
  }

  recordLatencies(id: string, latencies: Histogram): void {
    for (const at of PERCENTILES) {
      // With fewer than five values above it, a percentile is only chance.
      if ((1 - at / 100) * latencies.totalCount < 5) continue;
      this.record(`${id}/p${at}`, latencies.getValueAtPercentile(at));
    }
  }

  /** Keeps latencies, for percentiles over all runs. */
  keepLatencies(id: string, latencies: Histogram): void {
    (this.recorded.histograms[id] ??= []).push(encodeLatencies(latencies));
  }

  /** The latencies that were kept, of all runs together. */
  *latencies(): Generator<[id: string, latencies: Histogram]> {
    for (const [id, [first = '', ...others]] of Object.entries(this.recorded.histograms)) {
      const all = decodeLatencies(first);
      for (const other of others) all.add(decodeLatencies(other));
      yield [id, all];
    }
  }

  blame(where: string, count: number, first: string): void {
    if (count > 0) this.recorded.wrongVerdicts.push({ where, count, first });
  }

  skip(what: string, reason: string): void {
    this.recorded.skipped.push({ what, reason });
  }

  /** {@link Bench.undisturbed} @param mayRepeat whether a noisy step may be taken again */
  async undisturbed<Value>(step: () => Promise<Value>, mayRepeat: () => boolean): Promise<Value> {
    for (let repeats = 0; ; repeats++) {
      const { recordings, histograms, interference } = structuredClone(this.recorded);
      const value = await step();
      const isNoisy = this.recorded.interference
        .slice(interference.length)
        .some(({ others }) => others > NOISY);
      if (!isNoisy || repeats === MAX_REPEATS || !mayRepeat()) return value;
      // Wrong answers stay: they count on a busy machine, too.
      Object.assign(this.recorded, { recordings, histograms, interference });
      this.recorded.thrownAway++;
    }
  }

  /** Adds what another recorder has. */
  add({ recordings, histograms, thrownAway, skipped, notes, interference, wrongVerdicts }: Recorded): void {
    const own = this.recorded;
    for (const [id, { unit, samples, inFloors }] of Object.entries(recordings)) {
      const recording = (own.recordings[id] ??= { unit, samples: [], inFloors: [] });
      recording.samples.push(...samples);
      recording.inFloors.push(...inFloors);
    }
    for (const [id, texts] of Object.entries(histograms)) (own.histograms[id] ??= []).push(...texts);
    own.thrownAway += thrownAway;
    own.skipped.push(...skipped);
    own.interference.push(...interference);
    own.wrongVerdicts.push(...wrongVerdicts);
    own.notes.push(...notes.filter((note) => !own.notes.includes(note)));
  }

  /** Another recorder, from which only wrong answers are kept. For warm-up runs. */
  discarding(): Recorder {
    const other = new Recorder();
    other.blame = (where, count, first) => this.blame(where, count, first);
    return other;
  }

  figures(): Figure[] {
    return Object.entries(this.recorded.recordings).map(([id, { unit, samples, inFloors }]) => ({
      ...{ id, unit, runs: samples.length, samples, ...intervalOf(samples) },
      floors: inFloors.length > 0 ? intervalOf(inFloors) : null,
    }));
  }
}

function unitOf(id: string): string {
  const quantity = id.split('/').at(-1) ?? '';
  const found = Object.entries(UNITS).find(([, quantities]) => quantities.test(quantity));
  if (found === undefined) throw new RangeError(`${id} has no unit`);
  return found[0];
}
