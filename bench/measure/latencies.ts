import {
  build,
  decodeFromCompressedBase64,
  encodeIntoCompressedBase64,
  type Histogram,
} from 'hdr-histogram-js';

/** Makes a histogram of latencies in whole µs, with three significant digits. */
export function newLatencies(): Histogram {
  return build({
    bitBucketSize: 32,
    autoResize: true,
    lowestDiscernibleValue: 1,
    highestTrackableValue: 60_000_000,
    numberOfSignificantValueDigits: 3,
  });
}

/** Latencies as text, to pass from one process to another. */
export const encodeLatencies = (latencies: Histogram): string => encodeIntoCompressedBase64(latencies);

/** Reads what {@link encodeLatencies} wrote. */
export const decodeLatencies = (text: string): Histogram => decodeFromCompressedBase64(text, 32);

/** The percentiles that figures are recorded for. */
export const PERCENTILES = [50, 90, 99, 99.9] as const;

/** A point of a percentile curve: the percentile, and the latency in µs. */
export type CurvePoint = readonly [percentile: number, microseconds: number];

const CURVE = [
  0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 96, 97, 98, 98.5, 99, 99.25, 99.5, 99.75, 99.9,
  99.95, 99.99, 100,
];

/** The percentile curve, without the percentiles for which there are too few values. */
export function curveOf(latencies: Histogram): CurvePoint[] {
  return CURVE.filter((at) => at === 100 || (1 - at / 100) * latencies.totalCount >= 1).map((at) => [
    at,
    latencies.getValueAtPercentile(at),
  ]);
}
