import { build, decodeFromCompressedBase64, encodeIntoCompressedBase64 } from 'hdr-histogram-js';
/** Latencies in whole µs, with three significant digits. */
export function newLatencies() {
  return build({
    bitBucketSize: 32,
    autoResize: true,
    lowestDiscernibleValue: 1,
    highestTrackableValue: 60_000_000,
    numberOfSignificantValueDigits: 3,
  });
}
/** As text, to hand from one process to another. */
export const encodeLatencies = (latencies) => encodeIntoCompressedBase64(latencies);
/** What {@link encodeLatencies} wrote. */
export const decodeLatencies = (text) => decodeFromCompressedBase64(text, 32);
/** The percentiles that figures are recorded for. */
export const PERCENTILES = [50, 90, 99, 99.9];
const CURVE = [
  0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 96, 97, 98, 98.5, 99, 99.25, 99.5, 99.75, 99.9,
  99.95, 99.99, 100,
];
/** The percentile curve, only as far as the number of values carries it. */
export function curveOf(latencies) {
  return CURVE.filter((at) => at === 100 || (1 - at / 100) * latencies.totalCount >= 1).map((at) => [
    at,
    latencies.getValueAtPercentile(at),
  ]);
}
