import type { Difference } from './run.js';

/**
 * Differences that are known and accepted for now, each with its reason. A run counts them and does not fail over them.
 * Empty when the code does what the specification says.
 */
export const knownDifferences: readonly {
  readonly reason: string;
  readonly applies: (difference: Difference) => boolean;
}[] = [];

export function knownReason(difference: Difference): string | undefined {
  return knownDifferences.find(({ applies }) => applies(difference))?.reason;
}
