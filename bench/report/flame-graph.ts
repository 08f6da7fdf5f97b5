import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT } from '../run/paths.js';

/** The part of a V8 CPU profile that matters here. https://chromedevtools.github.io/devtools-protocol/tot/Profiler/ */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  /** In µs of the monotonic clock. */
  readonly startTime: number;
  readonly endTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** A function in a profile, with the functions that it called. */
export interface Frame {
  readonly name: string;
  readonly where: string;
  /** µs in this function and in the functions that it called. */
  total: number;
  /** µs in this function itself. */
  self: number;
  readonly calls: Frame[];
}

/**
 * The call tree of a profile between two times, in µs of the monotonic clock. Leaves out the start and the end of the
 * program.
 */
export function callTree(profile: CpuProfile, from: number, until: number): Frame {
  const selfTimes = new Map<number, number>();
  let at = profile.startTime;
  for (const [index, id] of profile.samples.entries()) {
    const delta = profile.timeDeltas[index] ?? 0;
    at += delta;
    if (at >= from && at <= until && delta > 0) selfTimes.set(id, (selfTimes.get(id) ?? 0) + delta);
  }
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const build = (id: number): Frame => {
    const node = nodes.get(id);
    if (node === undefined) throw new Error(`the profile names a node ${id} that it does not hold`);
    const { functionName, url, lineNumber } = node.callFrame;
    const calls = (node.children ?? []).map(build).filter(({ total }) => total > 0);
    const self = selfTimes.get(id) ?? 0;
    return {
      name: functionName === '' ? '(anonymous)' : functionName,
      where: url === '' ? '' : `${shortPath(url)}:${lineNumber + 1}`,
      total: self + calls.reduce((sum, { total }) => sum + total, 0),
      ...{ self, calls: calls.sort((a, b) => b.total - a.total) },
    };
  };
  const [first] = profile.nodes;
  if (first === undefined) throw new Error('the profile is empty');
  return build(first.id);
}

function shortPath(url: string): string {
  return url.startsWith('file:') ? path.relative(ROOT, fileURLToPath(url)) : url;
}

/** The functions with the most time spent in themselves, the most expensive first. */
export function hottest(tree: Frame, limit: number): { name: string; where: string; self: number }[] {
  const totals = new Map<string, { name: string; where: string; self: number }>();
  const visit = ({ name, where, self, calls }: Frame) => {
    const entry = totals.get(`${name} ${where}`) ?? { name, where, self: 0 };
    entry.self += self;
    totals.set(`${name} ${where}`, entry);
    for (const call of calls) visit(call);
  };
  visit(tree);
  return [...totals.values()].sort((a, b) => b.self - a.self).slice(0, limit);
}

/**
 * The part of a profile between two times, for speedscope or a browser's developer tools.
 *
 * @param from in µs of the monotonic clock, as is `until`
 */
export function trimProfile(profile: CpuProfile, from: number, until: number): CpuProfile {
  let at = profile.startTime;
  const kept = profile.samples.flatMap((sample, index) => {
    const delta = profile.timeDeltas[index] ?? 0;
    at += delta;
    return at >= from && at <= until && delta > 0 ? [{ sample, delta }] : [];
  });
  return {
    nodes: profile.nodes,
    startTime: from,
    endTime: until,
    samples: kept.map(({ sample }) => sample),
    timeDeltas: kept.map(({ delta }) => delta),
  };
}
