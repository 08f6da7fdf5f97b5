import { randomUUID } from 'node:crypto';
import { invoke, makeChain, type Chain, type Overrides, type TestBundle } from '../support/chain.js';

/** Calls that are valid now: what the middleware checks, it checks by the clock. */

const now = () => Math.floor(Date.now() / 1000);
const window = () => ({ iat: now() - 60, nbf: now() - 60, exp: now() + 3600 });

/** A chain that is valid now. */
export function liveChain(depth = 3, overrides: Overrides = {}): Chain {
  // One window for all: a second that passes between two receipts would let the child end after its parent.
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

/** What an operator says who opens everything, in so many words. */
export const OPEN = { trustedRoots: 'any', serverIdentity: 'any', replayStore: 'none' } as const;

/** The same for a route. */
export const OPEN_ROUTE = { ...OPEN, tool: 'any' } as const;
