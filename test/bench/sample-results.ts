import { newLatencies } from '../../bench/measure/statistics.js';
import { Recorder } from '../../bench/run/suite.js';
import { RESULTS_SCHEMA, type Results } from '../../bench/run/results.js';

/** A made-up floor in µs, since no test may depend on the speed of the machine. */
export const SAMPLE_FLOOR = 50;

const DEPTHS = [1, 2, 3, 4, 8, 16];

/** Results with a figure in every section of the README, made up but in proportion. */
export function sampleResults(): Results {
  const recorder = new Recorder(() => SAMPLE_FLOOR);
  for (let run = 0; run < 4; run++) {
    recorder.measureFloor();
    for (const traffic of ['warm', 'cold']) {
      for (const depth of DEPTHS) {
        const signatures = traffic === 'warm' ? 1 : depth + 1;
        for (const connections of traffic === 'warm' ? [1, 32, 128] : [32]) {
          const id = `throughput/${traffic}/d${depth}/c${connections}`;
          record(recorder, id, signatures, run);
          recorder.record(`${id}/body`, 1000 * (1 + depth));
        }
        for (const load of depth === 4 ? [25, 50, 75, 90] : [50])
          record(recorder, `latency/${traffic}/d${depth}/at${load}`, signatures * (1 + load / 50), run);
      }
    }
    record(recorder, 'latency/machine', 0.1, run);
    for (const [at, peer] of ['drs-verify', 'fastify', 'express-jose'].entries()) {
      record(recorder, `peers/${peer}/d4`, 1 + 3 * at, run);
      if (at > 0) recorder.record(`peers/${peer}/d4/ratio`, 1.4 * at);
    }
  }
  recorder.skip('peers/biscuit', 'it is not installed');
  const figures = recorder.figures();
  return {
    ...{
      schema: RESULTS_SCHEMA,
      startedAt: '2026-01-15T08:00:00.000Z',
      seconds: 300,
      command: 'npm run bench',
    },
    ...{ mode: 'full', commit: 'c0ffee00c0ffee', isDirty: false },
    machine: { processor: 'Sample', cores: 2, node: '20.20.2' },
    wrongVerdicts: [],
    floorMicroseconds: figures.find(({ id }) => id === 'floor/verify')?.median ?? Number.NaN,
    figures,
    interference: [
      { id: 'throughput/warm/d4/c32', others: 0.02 },
      { id: 'throughput/cold/d4/c32', others: 0.6 },
    ],
    ...{ skipped: recorder.skipped, notes: recorder.notes },
  };
}

function record(recorder: Recorder, id: string, signatures: number, run: number): void {
  const cpu = 52 * signatures + 20 + run;
  const latencies = newLatencies();
  for (let at = 1; at <= 12_000; at++)
    latencies.recordValue(Math.round(cpu * (1 + 2 / (1.0002 - at / 12_000) / 100)));
  recorder.record(`${id}/throughput`, 1.3e6 / cpu);
  recorder.record(`${id}/cpu`, cpu);
  recorder.recordLatencies(id, latencies);
}
