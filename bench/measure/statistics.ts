/** The median of some numbers. @throws RangeError if there are none */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError('the median of no samples');
  return (lower + upper) / 2;
}

/** (highest − lowest) / median: 0.1 means that all runs lie within a tenth of the median. */
export function spread(samples: readonly number[]): number {
  const middle = median(samples);
  return middle === 0 ? 0 : (Math.max(...samples) - Math.min(...samples)) / middle;
}
