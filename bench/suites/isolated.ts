import { runProgram } from '../load/run-program.js';
import { program } from '../run/paths.js';
import type { Plan } from '../run/plan.js';
import type { Recorded } from '../run/recorder.js';
import type { Bench, Suite } from '../run/suite.js';

/** What the process of a suite is told. */
export interface SuiteJob {
  readonly suite: string;
  readonly plan: Plan;
}

/**
 * Runs an in-process suite, each run in a new process. What a compiler makes of the same code differs from process to
 * process by more than the runs within one do; a comparison that saw only one would take that for a change.
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
