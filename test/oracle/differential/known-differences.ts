import type { Difference } from './run.js';

/**
 * Differences that are known and accepted for now, each with its reason. A run counts them and does not fail over them.
 * Empty when the code does what the specification says.
 */
export const knownDifferences: {
  readonly reason: string;
  readonly applies: (difference: Difference) => boolean;
}[] = [];

/** Makes known differences count like any other, those whose reason has this word: that a run finds them shows that it looks. */
export function forgetKnownDifferences(word: string): void {
  const kept = knownDifferences.filter(({ reason }) => !reason.includes(word));
  knownDifferences.splice(0, knownDifferences.length, ...kept);
}

export function knownReason(difference: Difference): string | undefined {
  return knownDifferences.find(({ applies }) => applies(difference))?.reason;
}
