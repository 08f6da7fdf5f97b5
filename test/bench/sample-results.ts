import { newLatencies } from '../../bench/measure/latencies.js';
import { Recorder } from '../../bench/run/recorder.js';
import { RESULTS_SCHEMA, type Results } from '../../bench/run/results.js';

/** A made-up floor in µs, since no test may depend on the speed of the machine. */
export const SAMPLE_FLOOR = 50;

const DEPTHS = [1, 2, 3, 4, 8, 16];

/** Results with a figure in every section of the report, made up but in proportion. @param directory for histograms */
export function sampleResults(directory: string): Results {
  const recorder = new Recorder(() => SAMPLE_FLOOR);
  for (let run = 0; run < 4; run++) {
    recorder.measureFloor();
    for (const depth of DEPTHS) {
      for (const traffic of ['warm', 'mixed', 'cold']) {
        const signatures = { warm: 1, mixed: 1 + depth / 10, cold: depth + 1 }[traffic] ?? 1;
        for (const connections of traffic === 'warm' ? [1, 32, 128] : [32]) {
          record(recorder, `closed-loop/wrk/${traffic}/d${depth}/c${connections}`, signatures, run, {
            ...{ tool: 'wrk', traffic, depth, connections },
          });
        }
        if (traffic === 'mixed') continue;
        for (const stage of ['parse', 'decode', 'signatures', 'policy', 'serialise']) {
          const parameters = { stage, depth, traffic };
          const value = stage === 'signatures' ? 52 * signatures : depth + run / 10;
          recorder.record({
            ...{
              id: `stages/${traffic}/d${depth}/${stage}/time`,
              unit: 'µs',
              better: 'lower',
              value,
              parameters,
            },
          });
        }
      }
    }
    for (const [at, load] of [25, 50, 75, 90, 100].entries()) {
      const parameters = { traffic: 'warm', depth: 4, load, rate: 100 * load };
      record(recorder, `open-loop/warm/d4/at${load}`, 2 ** (2 * at), run, parameters);
    }
    for (const [depth, traffic] of DEPTHS.flatMap((depth) => [
      [depth, 'warm'] as const,
      [depth, 'cold'] as const,
    ])) {
      for (const load of [25, 50, 75]) {
        const signatures = traffic === 'warm' ? 1 : depth + 1;
        const parameters = { traffic, depth, load, arrivals: 'poisson' };
        record(
          recorder,
          `latency/${traffic}/d${depth}/at${load}`,
          signatures * (1 + load / 50),
          run,
          parameters,
        );
      }
    }
    for (const workers of ['some', '0']) {
      for (const factor of [1, 2, 3]) {
        const parameters = { workers, factor };
        for (const [name, unit, value] of [
          ['goodput', '1/s', 4000 / factor],
          ['refused', '1/s', 4000 * (factor - 1)],
          ['p99', 'µs', 300_000 * factor + 1000 * run],
        ] as const) {
          const id = `overload/w-${workers}/x${factor}/${name}`;
          recorder.record({ id, unit, better: 'neither', value, parameters });
        }
      }
    }
    for (const [at, peer] of ['drs-verify', 'express-jose'].entries()) {
      record(recorder, `peers/${peer}/d4`, 1 + 9 * at, run, { peer, depth: 4, tool: 'wrk' });
    }
  }
  recorder.record({
    id: 'memory/resident',
    unit: 'bytes',
    better: 'lower',
    value: 147e6,
    parameters: { verdicts: 1e6 },
  });
  recorder.skip('peers/biscuit', 'it is not installed </script><script>throw 1</script>');
  const figures = recorder.figures();
  return {
    ...{
      schema: RESULTS_SCHEMA,
      startedAt: '2026-01-15T08:00:00.000Z',
      seconds: 300,
      command: 'npm run bench',
    },
    ...{ mode: 'full', commit: 'c0ffee00c0ffee', isDirty: false },
    machine: { processor: 'Sample', cores: 2, memoryBytes: 8e9, system: 'Linux', loadAverageAtStart: 0 },
    versions: { node: '20.20.2', wrk: '4.1.0' },
    ...{ isVoid: false, wrongVerdicts: [] },
    floorMicroseconds: figures.find(({ id }) => id === 'floor/verify')?.median ?? Number.NaN,
    figures,
    distributions: recorder.writeDistributions(directory),
    interference: [
      { id: 'closed-loop/wrk/warm/d4/c32', others: 0.02, stolen: 0 },
      { id: 'closed-loop/wrk/cold/d4/c32', others: 0.5, stolen: 0.1 },
    ],
    ...{ skipped: recorder.skipped, notes: recorder.notes },
  };
}

function record(
  recorder: Recorder,
  id: string,
  signatures: number,
  run: number,
  parameters: Record<string, string | number>,
): void {
  const cpu = 52 * signatures + 20 + run;
  const latencies = newLatencies();
  for (let at = 1; at <= 12_000; at++)
    latencies.recordValue(Math.round(cpu * (1 + 2 / (1.0002 - at / 12_000) / 100)));
  recorder.record({ id: `${id}/throughput`, unit: '1/s', better: 'higher', value: 1.3e6 / cpu, parameters });
  recorder.record({ id: `${id}/cpu`, unit: 'µs', better: 'lower', value: cpu, parameters });
  recorder.recordLatencies(id, latencies, parameters);
}
