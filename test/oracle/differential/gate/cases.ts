import { fromHex, toHex } from '../cases.js';
import type { GateDifference } from './run.js';

/** A stored counterexample. It can be replayed without a generator. */
export interface GateCase extends Omit<GateDifference, 'world' | 'request'> {
  readonly world: Omit<GateDifference['world'], 'remote'> & { readonly remote: string };
}

export function toGateCase({ way, expected, actual, world, steps }: GateDifference): GateCase {
  return { way, expected, actual, world: { ...world, remote: toHex(world.remote) }, steps };
}

export const gateWorldOf = ({ world }: GateCase): GateDifference['world'] => ({
  ...world,
  remote: fromHex(world.remote),
});
