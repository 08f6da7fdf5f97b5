import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Histogram } from 'hdr-histogram-js';
import { curveOf, newLatencies, PERCENTILES } from '../measure/latencies.js';
import { median, spread } from '../measure/statistics.js';
import type { Disturbance } from '../measure/watch.js';
import type { Better, Distribution, Figure, Interference, Parameters, Skipped } from './results.js';

/** The samples of one figure so far. */
export interface Recording {
  readonly suite: string;
  readonly unit: string;
  readonly better: Better;
  readonly parameters: Parameters;
  readonly samples: number[];
  readonly samplesInFloors: number[];
}

/** The content of a recorder, to pass to the recorder of another process. */
export interface Recorded {
  readonly recordings: readonly (readonly [id: string, recording: Recording])[];
  readonly wrongVerdicts: readonly { where: string; count: number; first: string }[];
  readonly skipped: readonly Skipped[];
}

/** One sample of a figure. */
export interface Sample {
  readonly id: string;
  readonly unit: string;
  readonly better: Better;
  readonly value: number;
  readonly parameters?: Parameters;
}

/** Collects what the suites measure. */
export class Recorder {
  readonly skipped: Skipped[] = [];
  readonly notes: string[] = [];
  readonly interference: Interference[] = [];
  readonly wrongVerdicts: { where: string; count: number; first: string }[] = [];
  readonly #recordings = new Map<string, Recording>();
  readonly #latencies = new Map<string, { all: Histogram; parameters: Parameters }>();
  readonly #measureFloor: () => number;
  #floor = Number.NaN;

  /** @param measureFloor measures one libsodium verification, in µs */
  constructor(measureFloor: () => number) {
    this.#measureFloor = measureFloor;
  }

  /** Measures the floor again. Later results are compared with it. Nothing else may be running. */
  measureFloor(): number {
    this.#floor = this.#measureFloor();
    // The floor is a figure of the machine, and the unit of all comparisons.
    this.record({ id: 'floor/verify', unit: 'µs', better: 'neither', value: this.#floor });
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
    this.record({ id: 'floor/under-load', unit: 'µs', better: 'neither', value: floor });
  }

  /** The floor as last measured, in µs. */
  get floor(): number {
    return this.#floor;
  }

  /** Adds a sample to a figure. Times are also kept in floors, and rates as verdicts in the time of one floor. */
  record({ id, unit, better, value, parameters = {} }: Sample): void {
    if (!Number.isFinite(value)) throw new RangeError(`${id} measured ${value}, expected a number`);
    let recording = this.#recordings.get(id);
    if (recording === undefined) {
      const suite = id.split('/', 1)[0] ?? id;
      recording = { suite, unit, better, parameters, samples: [], samplesInFloors: [] };
      this.#recordings.set(id, recording);
    }
    recording.samples.push(value);
    if (id.startsWith('floor/')) return;
    if (unit === 'µs') recording.samplesInFloors.push(value / this.#floor);
    if (unit === '1/s') recording.samplesInFloors.push((value * this.#floor) / 1e6);
  }

  /** Adds the percentiles of one run as samples, and its values to the distribution of all runs. */
  recordLatencies(id: string, latencies: Histogram, parameters: Parameters): void {
    for (const at of PERCENTILES) {
      // With fewer than five values above it, a percentile is only chance.
      if ((1 - at / 100) * latencies.totalCount < 5) continue;
      this.record({
        ...{ id: `${id}/p${at}`, unit: 'µs', better: 'lower', parameters },
        value: latencies.getValueAtPercentile(at),
      });
    }
    this.record({ id: `${id}/max`, unit: 'µs', better: 'neither', value: latencies.maxValue, parameters });
    let kept = this.#latencies.get(id);
    if (kept === undefined) this.#latencies.set(id, (kept = { all: newLatencies(), parameters }));
    kept.all.add(latencies);
  }

  /** Notes wrong verdicts, which make the whole run void. */
  blame(where: string, count: number, first: string): void {
    if (count > 0) this.wrongVerdicts.push({ where, count, first });
  }

  skip(what: string, reason: string): void {
    this.skipped.push({ what, reason });
  }

  /** All that was recorded, without distributions. */
  recorded(): Recorded {
    return { recordings: [...this.#recordings], wrongVerdicts: this.wrongVerdicts, skipped: this.skipped };
  }

  /** Adds the results that another process has recorded. */
  absorb({ recordings, wrongVerdicts, skipped }: Recorded): void {
    this.wrongVerdicts.push(...wrongVerdicts);
    this.skipped.push(...skipped);
    for (const [id, recording] of recordings) {
      const known = this.#recordings.get(id);
      if (known === undefined) this.#recordings.set(id, recording);
      else {
        known.samples.push(...recording.samples);
        known.samplesInFloors.push(...recording.samplesInFloors);
      }
    }
  }

  /** The figures so far. */
  figures(): Figure[] {
    return [...this.#recordings].map(([id, recording]) => ({
      ...recording,
      id,
      median: median(recording.samples),
      spread: spread(recording.samples),
      samplesInFloors: recording.samplesInFloors.length > 0 ? recording.samplesInFloors : null,
      floors: recording.samplesInFloors.length > 0 ? median(recording.samplesInFloors) : null,
    }));
  }

  /** Writes the distributions as HdrHistogram's percentile logs, in ms as its plotter expects. */
  writeDistributions(directory: string): Distribution[] {
    return [...this.#latencies].map(([id, { all, parameters }]) => {
      const file = path.join('histograms', `${id.replaceAll('/', '_')}.hgrm`);
      mkdirSync(path.join(directory, 'histograms'), { recursive: true });
      writeFileSync(path.join(directory, file), all.outputPercentileDistribution(5, 1000));
      return { id, parameters, file, count: all.totalCount, curve: curveOf(all) };
    });
  }
}
