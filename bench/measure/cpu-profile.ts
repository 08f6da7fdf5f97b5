import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

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

export const monotonic = () => Number(process.hrtime.bigint() / 1000n);

/** For a node that writes a profile of each of its threads into a folder when it ends. */
export const profilingArgs = (directory: string) => [
  '--cpu-prof',
  `--cpu-prof-dir=${directory}`,
  '--cpu-prof-interval=200',
];

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

/** The part of the service to which a function belongs: its folder below dist/, or whose code it is. */
export function partOf({ functionName, url }: Frame): string {
  // A worker of Piscina waits for its next task in a function of that name.
  if (functionName === '(idle)' || functionName === 'atomicsWaitLoop') return 'idle';
  if (/sign_verify/.test(functionName)) return 'libsodium';
  if (functionName === '(garbage collector)') return 'garbage collection';
  // Native code that V8 does not know: the event loop of uWebSockets.js, sockets, the kernel.
  if (functionName === '(program)' || functionName === '(root)') return 'sockets and kernel';
  const [, library] = /\/node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//.exec(url) ?? [];
  const [, folder] = /\/dist\/([\w-]+)\//.exec(url) ?? [];
  return library ?? folder ?? (functionName === 'JSON.parse' || url === '' ? 'built-in functions' : 'node');
}

/** Reads one profile for each thread; Node names them CPU.<date>.<time>.<pid>.<thread>.<number>.cpuprofile. */
export function readProfiles(directory: string): { readonly name: string; readonly profile: CpuProfile }[] {
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
