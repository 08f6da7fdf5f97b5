import { newLatencies } from '../../bench/measure/statistics.js';
import { Recorder } from '../../bench/run/suite.js';
import { RESULTS_SCHEMA, type Results } from '../../bench/run/results.js';

/** A made-up floor in µs, since no test may depend on the speed of the machine. */
export const SAMPLE_FLOOR = 50;

const DEPTHS = [1, 2, 3, 4, 8, 16];
const LOADS = [10, 30, 50, 70, 90];

/** Results with every figure that pages show, made up but in proportion. */
export function sampleResults(): Results {
  const recorder = new Recorder();
  const cpu = (id: string, signatures: number, run: number) =>
    recorder.record(`${id}/cpu`, 52 * signatures + 20 + run);
  for (let run = 0; run < 4; run++) {
    recorder.record('floor/verify', SAMPLE_FLOOR, 'µs');
    recorder.floorWas(SAMPLE_FLOOR);
    for (const traffic of ['warm', 'cold']) {
      for (const depth of DEPTHS) {
        const signatures = traffic === 'warm' ? 1 : depth + 1;
        for (const connections of traffic === 'warm' ? [1, 32, 128] : [32]) {
          const id = `throughput/${traffic}/d${depth}/c${connections}`;
          cpu(id, signatures, run);
          recorder.record(`${id}/body`, 1000 * (1 + depth));
        }
        if (![1, 4, 16].includes(depth)) continue;
        recorder.record(`latency/${traffic}/d${depth}/capacity`, 9000 / signatures);
        for (const load of LOADS)
          recordLatencies(recorder, `latency/${traffic}/d${depth}/at${load}`, signatures * (1 + load / 50));
        for (const lines of [1, 4, 16, 64, 256])
          cpu(`batch/${traffic}/d${depth}/b${lines}`, signatures + 1 / lines, run);
      }
    }
    recordLatencies(recorder, 'latency/machine', 0.1);
    recorder.record('latency/first-answer', 300_000 + run);
    for (const [at, peer] of ['drs-verify', 'fastify'].entries())
      for (const depth of [1, 4, 16]) {
        cpu(`peers/${peer}/d${depth}`, 1 + 3 * at, run);
        if (at > 0) recorder.record(`peers/${peer}/d${depth}/ratio`, 1.4 + depth / 10);
      }
    for (const [at, way] of ['verify', 'gate', 'grpc'].entries()) cpu(`gate/${way}/d4/c32`, 1 + at, run);
    for (const id of ['gate/added/d4', 'usage/added/memory', 'usage/added/redis']) cpu(id, 0.1, run);
    for (const way of ['alone', 'shared']) cpu(`client/${way}/c128`, way === 'alone' ? 1 : 0.2, run);
    for (const engine of ['sodium-native', 'node-crypto', 'webcrypto']) {
      cpu(`engines/${engine}`, 2, run);
      recorder.record(`engines/${engine}/accepted-wrongly`, engine === 'sodium-native' ? 0 : 165);
    }
  }
  recorder.record('engines/vectors', 1065, 'count');
  for (const host of ['w-default', 'w-0', 'gate', 'node']) {
    recorder.record(`overload/${host}/capacity`, 4000);
    for (const pool of [64, 256, 1000, 4000])
      for (const factor of [0.9, 2, 3, 5]) {
        const id = `overload/${host}/pool-${pool}/x${factor}`;
        recorder.record(`${id}/goodput`, 3200 - 100 * factor);
        recorder.record(`${id}/refused`, 1000 * factor, '1/s');
        recorder.record(`${id}/timed-out`, 100 * factor);
        recorder.record(`${id}/healthz-p99`, 9000 * factor);
      }
  }
  for (const [id, latencies] of recorder.latencies()) {
    recorder.recordLatencies(`${id}/all`, latencies);
    recorder.record(`${id}/all/max`, latencies.maxValue);
  }
  recorder.skip('peers/biscuit', 'it is not installed');
  const figures = recorder.figures();
  const { skipped, notes } = recorder.recorded;
  return {
    ...{
      schema: RESULTS_SCHEMA,
      startedAt: '2026-01-15T08:00:00.000Z',
      seconds: 300,
      command: 'npm run bench -- --all',
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
    ...{ thrownAway: 7, skipped, notes },
  };
}

function recordLatencies(recorder: Recorder, id: string, signatures: number): void {
  const latencies = newLatencies();
  for (let at = 1; at <= 6000; at++)
    latencies.recordValue(Math.round((52 * signatures + 20) * (1 + 2 / (1.0002 - at / 6000) / 100)));
  recorder.recordLatencies(id, latencies);
  recorder.keepLatencies(id, latencies);
}
