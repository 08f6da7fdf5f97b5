import { randomUUID } from 'node:crypto';
import { invoke, makeChain, type Chain, type Overrides, type TestBundle } from '../support/chain.js';

/** Calls that are valid now, since the middleware uses the real clock. */

const now = () => Math.floor(Date.now() / 1000);
const window = () => ({ iat: now() - 60, nbf: now() - 60, exp: now() + 3600 });

/** A chain that is valid now. */
export function liveChain(depth = 3, overrides: Overrides = {}): Chain {
  // All receipts have the same window: if a second passed between two receipts, the child would end after its parent.
  const claims = { ...window(), ...overrides };
  return makeChain(depth, Object.fromEntries(Array.from({ length: depth }, (_, at) => [at, claims])));
}

/** A bundle for a call now. */
export function liveCall(chain: Chain, args: unknown, overrides: Overrides = {}): TestBundle {
  return invoke(chain, { args, iat: now(), jti: `inv:${randomUUID()}`, ...overrides });
}

export const encode = (text: string | object) =>
  Buffer.from(typeof text === 'string' ? text : JSON.stringify(text)).toString('base64url');

export { now };

/** Options that explicitly trust everybody. */
export const OPEN = { trustedRoots: 'any', serverIdentity: 'any', replayStore: 'none' } as const;

/** The same for a route. */
export const OPEN_ROUTE = { ...OPEN, tool: 'any' } as const;
