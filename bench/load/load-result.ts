import type { Histogram } from 'hdr-histogram-js';

/** What a load generator saw. */
export interface LoadResult {
  readonly seconds: number;
  /** Answered within the time. */
  readonly requests: number;
  readonly latencies: Histogram;
  /** Of the requests that were sent, where `latencies` also has those that a stall kept from being sent. */
  readonly uncorrected?: Histogram;
  /** Answers that were not the right ones, connections that broke, requests without an answer. */
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
