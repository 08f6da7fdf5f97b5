import { runProgram } from '../load/run-program.js';
import { program } from '../run/paths.js';
import type { Plan } from '../run/plan.js';
import type { Recorded } from '../run/recorder.js';
import type { Bench, Suite } from '../run/suite.js';

/** The job of a suite's process. */
export interface SuiteJob {
  readonly suite: string;
  readonly plan: Plan;
}

/**
 * Runs an in-process suite with a new process for each run. The compiler optimizes the same code differently in each
 * process, and this changes results more than repeating a run does. A comparison of single processes would take the
 * difference for a change in the code.
 */
export async function runIsolated(suite: Suite, bench: Bench): Promise<void> {
  const { plan, recorder, say } = bench;
  for (let run = 1; run <= plan.runs; run++) {
    const job: SuiteJob = { suite: suite.name, plan: { ...plan, runs: 1 } };
    say(`${suite.name} · run ${run} of ${plan.runs}`);
    const { output } = await runProgram(process.execPath, [
      program('suites/suite-process.js'),
      JSON.stringify(job),
    ]);
    recorder.absorb(JSON.parse(output) as Recorded);
  }
}
