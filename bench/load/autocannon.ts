import { decodeLatencies } from '../measure/latencies.js';
import { program } from '../run/paths.js';
import type { Workload } from '../workload/workload.js';
import type { LoadResult, Target } from './load-result.js';
import { runProgram } from './run-program.js';

/** The job of the autocannon process. */
export interface AutocannonJob extends Target {
  readonly workload: Workload;
}

/** Its answer. */
export interface AutocannonReport {
  readonly seconds: number;
  readonly requests: number;
  readonly latencies: string;
  readonly wrong: number;
  readonly firstWrong: string;
}

/** Closed loop by autocannon, in a process of its own. Latencies are not corrected. */
export async function runAutocannon(workload: Workload, target: Target): Promise<LoadResult> {
  const job: AutocannonJob = { workload, ...target };
  const { output, processorTime } = await runProgram(process.execPath, [
    program('load/autocannon-process.js'),
    JSON.stringify(job),
  ]);
  const report = JSON.parse(output) as AutocannonReport;
  return { ...report, latencies: decodeLatencies(report.latencies), generatorTime: processorTime };
}
