/**
 * The known name that a wrong one was most likely meant to be, or `null` if none is near.
 *
 * @example nearestName('maxCostUsd', ['max_cost_usd', 'max_calls']); // 'max_cost_usd'
 */
export function nearestName(name: string, known: readonly string[]): string | null {
  const plain = plainForm(name);
  // Anything is near to a very short name; and nobody misspells one at such length.
  if (plain.length < 3 || plain.length > MAX_COMPARED) return null;
  let nearest: string | null = null;
  let least = Math.max(2, plain.length / 3);
  for (const candidate of known) {
    const cost = costOf(plain, plainForm(candidate));
    if (cost <= least && (nearest === null || cost < least)) [nearest, least] = [candidate, cost];
  }
  return nearest;
}

const MAX_COMPARED = 64;

/** `maxCostUsd`, `max-cost-usd` and `max_cost_usd` are one name to a person. */
function plainForm(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}

// People leave words out (`tools`, `max_cost`) far more often than they put wrong ones in.
const LEFT_OUT = 0.25;

/** The least cost to get from one text to the other: 1 a character deleted or replaced, less for one added. */
function costOf(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at * LEFT_OUT);
  for (let at = 1; at <= from.length; at++) {
    const next = [at];
    for (let other = 1; other <= to.length; other++) {
      const replaced = (row[other - 1] ?? 0) + (from[at - 1] === to[other - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[other] ?? 0) + 1, (next[other - 1] ?? 0) + LEFT_OUT));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
