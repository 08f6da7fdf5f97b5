import { DESIGNS } from '../handover/designs.js';
import type { HandoverJob, HandoverReport } from '../handover/handover-process.js';
import { runProgram } from '../load/run-program.js';
import { decodeLatencies } from '../measure/latencies.js';
import { program } from '../run/paths.js';
import type { Suite } from '../run/suite.js';

const WORKERS = 1;

/** Compares designs of handing signatures to threads. */
export const handover: Suite = {
  name: 'handover',
  about:
    'designs of the signature hand-over: transferred buffers, shared slots, in-thread below a queue length',
  run: async ({ plan, recorder, say }) => {
    const loads = plan.mode === 'quick' ? [32] : [1, 32, 128];
    for (let run = 1; run <= Math.min(3, plan.runs); run++) {
      for (const inFlight of loads) {
        for (const { name } of DESIGNS) {
          recorder.measureFloor();
          const job: HandoverJob = {
            design: name,
            workers: WORKERS,
            inFlight,
            milliseconds: 2 * plan.inProcessMs,
          };
          const { output } = await runProgram(process.execPath, [
            program('handover/handover-process.js'),
            JSON.stringify(job),
          ]);
          const report = JSON.parse(output) as HandoverReport;
          const id = `handover/${name}/in-flight-${inFlight}`;
          const parameters = { design: name, inFlight, workers: WORKERS };
          recorder.blame(id, report.wrong, 'a signature was checked wrongly');
          const cpu = report.processorTime / report.verified;
          recorder.record({ id: `${id}/cpu`, unit: 'µs', better: 'lower', value: cpu, parameters });
          const rate = report.verified / report.seconds;
          recorder.record({ id: `${id}/throughput`, unit: '1/s', better: 'higher', value: rate, parameters });
          recorder.recordLatencies(id, decodeLatencies(report.latencies), parameters);
          say(
            `handover · ${name}, ${inFlight} in flight: ${Math.round(rate)} /s, ${cpu.toFixed(0)} µs CPU each`,
          );
        }
      }
    }
  },
};
