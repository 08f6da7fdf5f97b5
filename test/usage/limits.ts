import type { CountedLimits } from '../../src/verify/limits.js';
import type { Charge, ReplayStore, Use } from '../../src/usage/usage-store.js';

export const NOW = Math.floor(Date.now() / 1000);

/** The limits of one receipt. Its digest follows from a name. */
export function limitOf(name: string, limits: Partial<CountedLimits> = {}): CountedLimits {
  const receipt = `sha256:${Buffer.from(name).toString('hex').padStart(64, '0')}`;
  return {
    level: 0,
    receipt,
    maxCalls: null,
    maxTotalMicroUsd: null,
    nbf: NOW - 60,
    exp: NOW + 3_600,
    ...limits,
  };
}

export function chargeOf(limits: readonly CountedLimits[], costMicroUsd = 0): Charge {
  return { limits, costMicroUsd };
}

let serial = 0;

/** Charges a call with an invocation that was not used before. */
export function call(
  store: ReplayStore,
  limits: readonly CountedLimits[],
  cost = 0,
  now = NOW,
): Promise<Use> {
  return store.use(`call ${process.pid} ${++serial}`, now, 961, chargeOf(limits, cost));
}
