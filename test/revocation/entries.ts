import type { LocalRevocation, Target } from '../../src/revocation/entry.js';

/** The entry for something, as the line of a file without a comment has it. */
export function entryOf(target: Target, facts: Partial<LocalRevocation> = {}): LocalRevocation {
  return { target, at: null, reason: null, exp: null, ...facts };
}

/** What somebody asks to revoke. */
export const asked = (target: Target) => ({ target, reason: null, exp: null });

/** A receipt's digest. */
export const digest = (digit: string) => `sha256:${digit.repeat(64)}`;
