import type { Difference } from './run.js';

/**
 * Differences that are known and accepted for now, each with its reason. A run counts them, but does not fail because
 * of them. The list is empty if the code follows the specification.
 */
const knownDifferences: {
  readonly reason: string;
  readonly applies: (difference: Difference) => boolean;
}[] = [];

/** Removes the known differences whose reason contains a word. A run that then fails shows that it can find them. */
export function forgetKnownDifferences(word: string): void {
  const kept = knownDifferences.filter(({ reason }) => !reason.includes(word));
  knownDifferences.splice(0, knownDifferences.length, ...kept);
}

export function knownReason(difference: Difference): string | undefined {
  return knownDifferences.find(({ applies }) => applies(difference))?.reason;
}
