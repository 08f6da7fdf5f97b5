import { mkdtempSync } from 'node:fs';
import path from 'node:path';
import { monotonic, profilingArgs, readProfiles, trimProfile } from '../measure/cpu-profile.js';
import { environmentFor, startService } from '../service/start.js';
import type { Traffic, Workloads } from '../workload/workload.js';
import { checkAnswers } from './measure-load.js';
import { runClosedLoop, type LoadResult, type Target } from './open-loop.js';

const WARM_UP_SECONDS = 1.5;

/**
 * Profiles each thread of a new service under a closed loop.
 *
 * @returns the profiles, without the start and the warm-up of the service
 * @throws Error if an answer is wrong
 */
export async function profileUnderLoad(
  workloads: Workloads,
  traffic: Traffic,
  depth: number,
  { connections, seconds }: Omit<Target, 'port'>,
) {
  const directory = mkdtempSync(path.join(workloads.directory, 'profile-'));
  const refuse = (wrong: number, first: string) => {
    if (wrong > 0) throw new Error(`${wrong} wrong answers while profiled; the first: ${first}`);
  };
  const run = async (port: number, time: number): Promise<LoadResult> => {
    const workload = workloads.files(traffic, depth);
    const result = await runClosedLoop(workload, { port, connections, seconds: time });
    workloads.advance(workload, result.answered + result.warmedUp + connections);
    refuse(result.wrong, result.firstWrong);
    return result;
  };
  const measure = async () => {
    await using service = await startService(environmentFor(traffic), { nodeArgs: profilingArgs(directory) });
    const { wrong, firstWrong } = await checkAnswers(service.port, workloads.warm(depth));
    refuse(wrong, firstWrong);
    await run(service.port, WARM_UP_SECONDS);
    const from = monotonic();
    const { answered, seconds: took } = await run(service.port, seconds);
    return { from, until: monotonic(), rate: answered / took };
  };
  // The profiles are written when the service ends.
  const { from, until, rate } = await measure();
  const threads = readProfiles(directory).map(({ name, profile }) => ({
    name,
    profile: trimProfile(profile, from, until),
  }));
  return { rate, threads };
}
