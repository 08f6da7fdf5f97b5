import { mean } from 'simple-statistics';
/** Into how many parts the time is cut. What is odd about one moment is then odd about one part only. */
export const PARTS = 12;
// Student's t for 95 % and PARTS - 2 degrees of freedom.
const T = 2.228;
/**
 * Judges whether a figure grows.
 *
 * @param points hours since the start, and the figure
 * @param tolerance growth in an hour that counts as none
 * @returns `no growth` where the whole interval is below the tolerance, `grows` where it is all above, else `cannot tell`
 * @throws RangeError for fewer points than there are parts
 */
export function trendOf(points, tolerance) {
    if (points.length < PARTS)
        throw new RangeError(`${points.length} samples, expected at least ${PARTS}`);
    const parts = Array.from({ length: PARTS }, (_, at) => points.slice(Math.floor((at * points.length) / PARTS), Math.floor(((at + 1) * points.length) / PARTS)));
    const xs = parts.map((part) => mean(part.map(([hours]) => hours)));
    const ys = parts.map((part) => medianOf(part.map(([, value]) => value)));
    const [meanX, meanY] = [mean(xs), mean(ys)];
    const spread = xs.reduce((sum, x) => sum + (x - meanX) ** 2, 0);
    const slope = xs.reduce((sum, x, at) => sum + (x - meanX) * (ys[at] - meanY), 0) / spread;
    const rest = xs.reduce((sum, x, at) => sum + (ys[at] - meanY - slope * (x - meanX)) ** 2, 0);
    const error = T * Math.sqrt(rest / (PARTS - 2) / spread);
    const [low, high] = [slope - error, slope + error];
    const verdict = high <= tolerance ? 'no growth' : low > tolerance ? 'grows' : 'cannot tell';
    return { perHour: slope, low, high, verdict };
}
export function medianOf(values) {
    const sorted = [...values].sort((left, right) => left - right);
    const middle = Math.floor(sorted.length / 2);
    return sorted.length % 2 === 1
        ? sorted[middle]
        : (sorted[middle - 1] + sorted[middle]) / 2;
}
/** A percentile by rank, `NaN` without values. */
export function percentile(values, rank) {
    const sorted = [...values].sort((left, right) => left - right);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * rank))] ?? NaN;
}
