import { newLatencies } from '../../bench/measure/statistics.js';
import { Recorder } from '../../bench/run/recorder.js';
import { RESULTS_SCHEMA, type Results } from '../../bench/run/results.js';

/** A made-up floor in µs, since no test may depend on the speed of the machine. */
export const SAMPLE_FLOOR = 50;

const DEPTHS = [1, 2, 3, 4, 8, 16];

/** Results with a figure in every section of the report, made up but in proportion. */
export function sampleResults(): Results {
  const recorder = new Recorder(() => SAMPLE_FLOOR);
  for (let run = 0; run < 4; run++) {
    recorder.measureFloor();
    for (const traffic of ['warm', 'cold']) {
      for (const depth of DEPTHS) {
        const signatures = traffic === 'warm' ? 1 : depth + 1;
        for (const connections of traffic === 'warm' ? [1, 32, 128] : [32])
          record(recorder, `throughput/${traffic}/d${depth}/c${connections}`, signatures, run, {
            ...{ traffic, depth, connections, bodyBytes: 1000 * (1 + depth) },
          });
        for (const load of depth === 4 ? [25, 50, 75, 90] : [50])
          record(recorder, `latency/${traffic}/d${depth}/at${load}`, signatures * (1 + load / 50), run, {
            ...{ traffic, depth, load },
          });
      }
      for (const [at, part] of ['libsodium', 'verify', 'sockets and kernel'].entries())
        recorder.record(
          `throughput/parts/${traffic}/d4/${part}`,
          [0.6, 0.1, 0.3][at] ?? 0,
          { traffic, depth: 4, part },
          ['ratio', 'neither'],
        );
    }
    recorder.record('throughput/library/warm/d4/cpu', 60, { depth: 4, traffic: 'warm' });
    record(recorder, 'latency/machine', 0.1, run, { rate: 5000 });
    for (const workers of ['some', '0']) {
      recorder.record(`overload/w-${workers}/capacity`, 4000, {});
      for (const factor of [1, 2, 3]) {
        const id = `overload/w-${workers}/x${factor}`;
        recorder.record(`${id}/goodput`, 3900, { factor });
        recorder.record(`${id}/refused`, 4000 * (factor - 1), { factor }, ['1/s', 'neither']);
        recorder.record(`${id}/timed-out`, 0, { factor }, ['1/s', 'lower']);
      }
    }
    for (const [at, peer] of ['drs-verify', 'fastify', 'express-jose'].entries()) {
      record(recorder, `peers/${peer}/d4`, 1 + 3 * at, run, { peer, depth: 4 });
      if (at > 0)
        recorder.record(`peers/${peer}/d4/ratio`, 1.4 * at, { peer, depth: 4 }, ['times', 'neither']);
    }
  }
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
    versions: { node: '20.20.2' },
    ...{ isVoid: false, wrongVerdicts: [] },
    floorMicroseconds: figures.find(({ id }) => id === 'floor/verify')?.median ?? Number.NaN,
    figures,
    interference: [
      { id: 'throughput/warm/d4/c32', others: 0.02, stolen: 0 },
      { id: 'throughput/cold/d4/c32', others: 0.5, stolen: 0.1 },
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
  // 12,000 requests: ten at a time took as long.
  for (let at = 10; at <= 12_000; at += 10)
    latencies.recordValueWithCount(Math.round(cpu * (1 + 2 / (1.0002 - at / 12_000) / 100)), 10);
  recorder.record(`${id}/throughput`, 1.3e6 / cpu, parameters);
  recorder.record(`${id}/cpu`, cpu, parameters);
  recorder.recordLatencies(id, latencies, parameters);
}
