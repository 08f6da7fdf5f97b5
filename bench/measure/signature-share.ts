import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: { readonly functionName: string } }[];
  /** In µs of the system's monotonic clock. */
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const VERIFICATION = /sign_verify/;

/**
 * How much of a time a process verified signatures, on all its threads together: 1 is one core all the time. A process that ran with
 * `--cpu-prof` wrote a profile of each thread into the directory.
 *
 * @param from start of the time, in µs of the system's monotonic clock
 * @param to its end
 */
export function signatureShare(directory: string, from: number, to: number): number {
  const profiles = readdirSync(directory).filter((name) => name.endsWith('.cpuprofile'));
  if (profiles.length === 0)
    throw new Error(`${directory} has no .cpuprofile; did the process end by a signal?`);
  let verifying = 0;
  for (const name of profiles) {
    const { nodes, startTime, samples, timeDeltas } = JSON.parse(
      readFileSync(path.join(directory, name), 'utf8'),
    ) as CpuProfile;
    const found = new Set(
      nodes.filter(({ callFrame }) => VERIFICATION.test(callFrame.functionName)).map(({ id }) => id),
    );
    let at = startTime;
    for (const [sample, id] of samples.entries()) {
      const delta = timeDeltas[sample] ?? 0;
      at += delta;
      if (found.has(id) && at >= from && at <= to) verifying += delta;
    }
  }
  return verifying / (to - from);
}
