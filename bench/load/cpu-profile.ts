import { readdirSync, readFileSync, mkdtempSync } from 'node:fs';
import path from 'node:path';
import { environmentFor, startService } from '../service/start.js';
import type { Traffic, Workloads } from '../workload/workload.js';
import { checkAnswers } from './measure-load.js';
import { runClosedLoop, type LoadResult, type Target } from './open-loop.js';

/** The part of a V8 CPU profile that matters here. https://chromedevtools.github.io/devtools-protocol/tot/Profiler/ */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  /** In µs of the monotonic clock. */
  readonly startTime: number;
  readonly endTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const monotonic = () => Number(process.hrtime.bigint() / 1000n);

/**
 * The part of a profile between two times, in µs of the monotonic clock: without the start and the end of the program.
 */
export function trimProfile(profile: CpuProfile, from: number, until: number): CpuProfile {
  let at = profile.startTime;
  const kept = profile.samples.flatMap((sample, index) => {
    const delta = profile.timeDeltas[index] ?? 0;
    at += delta;
    return at >= from && at <= until && delta > 0 ? [{ sample, delta }] : [];
  });
  return {
    ...{ nodes: profile.nodes, startTime: from, endTime: until },
    samples: kept.map(({ sample }) => sample),
    timeDeltas: kept.map(({ delta }) => delta),
  };
}

type Frame = CpuProfile['nodes'][number]['callFrame'];

/** µs that a thread spent in functions themselves, added up by a name that each function is given; the largest first. */
export function selfTimes({ nodes, samples, timeDeltas }: CpuProfile, nameOf: (frame: Frame) => string) {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const times = new Map<string, number>();
  for (const [at, id] of samples.entries()) {
    const name = names.get(id) ?? '';
    times.set(name, (times.get(name) ?? 0) + (timeDeltas[at] ?? 0));
  }
  return [...times].sort(([, one], [, other]) => other - one);
}

/** Reads one profile for each thread; Node names them CPU.<date>.<time>.<pid>.<thread>.<number>.cpuprofile. */
function readProfiles(directory: string): { readonly name: string; readonly profile: CpuProfile }[] {
  const files = readdirSync(directory).filter((file) => file.endsWith('.cpuprofile'));
  if (files.length === 0)
    throw new Error(`${directory} has no .cpuprofile; did the service end by a signal, or on its own?`);
  return files
    .map((file) => ({ file, thread: Number(file.split('.').at(-3)) }))
    .sort((a, b) => a.thread - b.thread)
    .map(({ file, thread }) => ({
      name: thread === 0 ? 'main thread' : `signature worker ${thread}`,
      profile: JSON.parse(readFileSync(path.join(directory, file), 'utf8')) as CpuProfile,
    }));
}

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
    const nodeArgs = ['--cpu-prof', `--cpu-prof-dir=${directory}`, '--cpu-prof-interval=200'];
    await using service = await startService(environmentFor(traffic), { nodeArgs });
    const { wrong, firstWrong } = await checkAnswers(service.port, workloads.warm(depth));
    refuse(wrong, firstWrong);
    await run(service.port, WARM_UP_SECONDS);
    const from = monotonic();
    const { answered, seconds: took } = await run(service.port, seconds);
    return { from, until: monotonic(), rate: answered / took };
  };
  // The profiles are written when the service ends.
  const { from, until, rate } = await measure();
  const all = readProfiles(directory);
  return { rate, threads: all.map((one) => ({ ...one, profile: trimProfile(one.profile, from, until) })) };
}
