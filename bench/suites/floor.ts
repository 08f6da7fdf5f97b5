import { availableParallelism } from 'node:os';
import { runProgram } from '../load/run-program.js';
import { median } from '../measure/statistics.js';
import { program } from '../run/paths.js';
import type { Suite } from '../run/suite.js';

const ALL_CORES_SECONDS = 0.5;

/** The unit of all other figures. */
export const floor: Suite = {
  name: 'floor',
  about: 'one libsodium verification of an invocation-sized message on one core; and on all cores at once',
  run: async ({ plan, recorder, say }) => {
    const runs = Math.max(3, plan.runs);
    for (let run = 1; run <= runs; run++) {
      say(`floor · run ${run} of ${runs}: ${recorder.measureFloor().toFixed(1)} µs`);
      // Two threads of one core share its units, so a signature costs more while both are busy, as they are under load.
      const value = await measureOnAllCores();
      recorder.record({ id: 'floor/all-cores', unit: 'µs', better: 'neither', value });
      say(`floor · on all cores at once: ${value.toFixed(1)} µs`);
    }
  },
};

async function measureOnAllCores(): Promise<number> {
  const args = [program('measure/floor-process.js'), String(ALL_CORES_SECONDS)];
  const measuring = Array.from({ length: availableParallelism() }, () => runProgram(process.execPath, args));
  return median((await Promise.all(measuring)).map(({ output }) => Number(output)));
}
