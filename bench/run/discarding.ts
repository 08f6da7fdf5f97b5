import { Recorder } from './recorder.js';
import type { Bench } from './suite.js';

/** The same bench with another recorder, from which only wrong answers are kept. For warm-up runs. */
export function discarding(bench: Bench): Bench {
  const recorder = new Recorder(() => bench.recorder.floor);
  recorder.blame = (where, count, first) => bench.recorder.blame(where, count, first);
  return { ...bench, recorder };
}
