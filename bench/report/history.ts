import { intervalOf } from '../measure/interval.js';
import { NOISY } from '../compare/outcome.js';
import type { Results } from '../run/results.js';

/** One figure at one commit. */
export interface HistoryEntry {
  readonly commit: string;
  /** When it was measured, ISO 8601. */
  readonly at: string;
  readonly machine: string;
  readonly figure: string;
  readonly unit: string;
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly runs: number;
  /** The same in floors, which can be compared between machines; `null` if the figure is not a time or a rate. */
  readonly floors: number | null;
  /** Whether others had more than a tenth of the cores in any of its runs. */
  readonly isNoisy: boolean;
}

/** The figures that are followed from commit to commit. */
const FOLLOWED =
  /^(closed-loop\/\w+\/(warm|cold)\/d(1|4|16)\/c32\/cpu|latency\/(warm|cold)\/d(1|4|16)\/at50\/p(50|99))$/;

/** Takes the followed figures from a result. */
export function entriesOf(results: Results): HistoryEntry[] {
  const { machine, versions, interference, commit, startedAt } = results;
  return results.figures
    .filter(({ id }) => FOLLOWED.test(id))
    .map(({ id, unit, samples, floors }) => {
      const { estimate: median, low, high } = intervalOf(samples);
      const around = interference.filter((one) => id.startsWith(`${one.id}/`));
      return {
        ...{ commit, at: startedAt, figure: id, unit, median, low, high, runs: samples.length, floors },
        machine: `${machine['processor'] ?? 'unknown'}, ${machine['cores'] ?? '?'} cores, Node ${versions['node'] ?? '?'}`,
        isNoisy: around.some(({ others, stolen }) => others + stolen > NOISY),
      };
    });
}

/** Adds entries. They replace those of the same commit, machine and figure. */
export function addEntries(known: readonly HistoryEntry[], added: readonly HistoryEntry[]): HistoryEntry[] {
  const keyOf = ({ commit, machine, figure }: HistoryEntry) => `${commit} ${machine} ${figure}`;
  const replaced = new Set(added.map(keyOf));
  return [...known.filter((entry) => !replaced.has(keyOf(entry))), ...added].sort((x, y) =>
    x.at < y.at ? -1 : x.at > y.at ? 1 : 0,
  );
}
