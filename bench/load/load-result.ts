import type { Histogram } from 'hdr-histogram-js';

/** What a load generator measured. */
export interface LoadResult {
  readonly seconds: number;
  /** Answered within the time. */
  readonly requests: number;
  readonly latencies: Histogram;
  /** Latencies of the requests that were really sent; `latencies` also counts those that a stall prevented. */
  readonly uncorrected?: Histogram;
  /** Number of wrong answers, broken connections and requests without an answer. */
  readonly wrong: number;
  /** The first of them, for a person. */
  readonly firstWrong: string;
  /** Processor time of the generator, in µs; `null` if it is not known. */
  readonly generatorTime: number | null;
}

/** Where and how to send. */
export interface Target {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
}
