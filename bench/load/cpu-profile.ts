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

/** µs that a thread spent in functions themselves, added up by their names and places; the largest first. */
export function selfTimes({ nodes, samples, timeDeltas }: CpuProfile): [what: string, self: number][] {
  const names = new Map(
    nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => {
      const where = url.replace(/^.*\/(dist|node_modules)\//, '$1/');
      return [id, `${functionName || '(anonymous)'}  ${where === '' ? '' : `${where}:${lineNumber + 1}`}`];
    }),
  );
  const times: Record<string, number> = {};
  for (const [at, id] of samples.entries()) {
    const name = names.get(id) ?? '';
    times[name] = (times[name] ?? 0) + (timeDeltas[at] ?? 0);
  }
  return Object.entries(times).sort(([, one], [, other]) => other - one);
}
