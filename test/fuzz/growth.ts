import { Session, type HeapProfiler } from 'node:inspector';
import { Random } from '../oracle/generator/random.js';
import { grow } from './mutate.js';
import type { Target } from './target.js';

// Four times the input may take this many times as much: quadratic is 16. Only what is large enough to be measured counts.
const MAX_RATIO = 11;
const SIZES = [64, 256, 1024, 4096];
/** For each measure what counts at least, and what less than that is taken for. */
const MEASURES = {
  time: { unit: 'ms', least: 20, noise: 0.5, of: timeOf },
  memory: { unit: 'MiB allocated', least: 16, noise: 0.5, of: allocatedBy },
} as const;

/** The longest text, in characters, that is grown to. */
export const LONGEST_GROWN = 4_000_000;

/**
 * Says where time or memory grows faster than the text; `null` where they do not.
 *
 * @param longest the longest text, in characters, that is tried
 */
export function findGrowth(
  target: Target,
  random: Random,
  text: string,
  measure: keyof typeof MEASURES,
  longest = LONGEST_GROWN,
): string | null {
  const { time } = target;
  if (time === undefined || text.length > 2_000) return null;
  const { unit, least, noise, of } = MEASURES[measure];
  const seed = random.below(1e9);
  let before = Infinity;
  for (const times of SIZES) {
    const long = grow(new Random(seed), text, times);
    if (long.length > longest) return null;
    const run = () => of(() => time(long));
    const isMuch = (amount: number) => amount > least && amount > MAX_RATIO * Math.max(before, noise);
    const first = run();
    // The least of three, so that neighbours on the machine matter little.
    const took = isMuch(first) ? Math.min(first, run(), run()) : first;
    if (isMuch(took))
      return `${measure} grows faster than the input: ${before.toFixed(1)} ${unit}, then ${took.toFixed(1)} for four times as much (${long.length} characters)`;
    before = took;
  }
  return null;
}

/** Milliseconds of processor time. */
function timeOf(work: () => void): number {
  const start = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

const INTERVAL = 32 * 1024;

/** MiB that were allocated on the heap, also what was collected at once: sampled by V8. */
function allocatedBy(work: () => void): number {
  const session = new Session();
  session.connect();
  session.post('HeapProfiler.startSampling', {
    samplingInterval: INTERVAL,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  } as HeapProfiler.StartSamplingParameterType);
  let bytes = 0;
  try {
    work();
  } finally {
    session.post('HeapProfiler.stopSampling', (error, { profile }) => {
      if (error !== null) throw error;
      bytes = sizeOf(profile.head);
    });
    session.disconnect();
  }
  return bytes / 2 ** 20;
}

const sizeOf = ({ selfSize, children }: HeapProfiler.SamplingHeapProfileNode): number =>
  children.reduce((sum, child) => sum + sizeOf(child), selfSize);
