/**
 * Finds the known name that is closest to a wrong one; `null` if none is close.
 *
 * @example nearestName('maxCostUsd', ['max_cost_usd', 'max_calls']); // 'max_cost_usd'
 */
export function nearestName(name: string, known: readonly string[]): string | null {
  const plain = plainForm(name);
  // Every name is close to a very short text, and a very long text is not a misspelt name.
  if (plain.length < 3 || plain.length > MAX_COMPARED) return null;
  let nearest: string | null = null;
  let least = Math.max(2, plain.length / 3);
  for (const candidate of known) {
    const cost = editDistance(plain, plainForm(candidate), LEFT_OUT);
    if (cost <= least && (nearest === null || cost < least)) [nearest, least] = [candidate, cost];
  }
  return nearest;
}

/**
 * Asks whether the known name was meant that is closest to a wrong one; empty if none is close.
 *
 * @example didYouMean('maxCalls', ['max_calls']); // '; did you mean max_calls?'
 */
export function didYouMean(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  return near === null ? '' : `; did you mean ${near}?`;
}

// People leave words out (`tools`, `max_cost`) far more often than they put wrong ones in.
const LEFT_OUT = 0.25;
const MAX_COMPARED = 64;

/** Maps `maxCostUsd`, `max-cost-usd` and `max_cost_usd` to the same text, since people mix them up. */
function plainForm(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}

/**
 * The edit distance between two texts: 1 for each character that is deleted or replaced and for two neighbours that are
 * swapped, `added` for one that is added.
 */
export function editDistance(from: string, to: string, added = 1): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, at) => at * added);
  for (let at = 1; at <= from.length; at++) {
    const next = [at];
    for (let other = 1; other <= to.length; other++) {
      const replaced = (row[other - 1] ?? 0) + (from[at - 1] === to[other - 1] ? 0 : 1);
      const isSwapped = from[at - 1] === to[other - 2] && from[at - 2] === to[other - 1];
      const swapped = isSwapped ? (before[other - 2] ?? 0) + 1 : Infinity;
      next.push(Math.min(replaced, swapped, (row[other] ?? 0) + 1, (next[other - 1] ?? 0) + added));
    }
    [before, row] = [row, next];
  }
  return row[to.length] ?? 0;
}
