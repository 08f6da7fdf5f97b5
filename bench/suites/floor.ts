import type { Suite } from '../suite.js';

/** The unit of all other figures. */
export const floor: Suite = {
  name: 'floor',
  about: 'one libsodium verification of an invocation-sized message on one core',
  run: (bench) => {
    const runs = Math.max(3, bench.plan.runs);
    for (let run = 1; run <= runs; run++) {
      bench.say(`floor · run ${run} of ${runs}: ${bench.recorder.measureFloor().toFixed(1)} µs`);
    }
    return Promise.resolve();
  },
};
