import { findDrsContext } from '../context.js';

/** A caller, in the form of the A2A SDK. */
export interface DrsUser {
  readonly isAuthenticated: boolean;
  /** The DID of the agent that signed the request; empty if nobody did. */
  readonly userName: string;
}

/**
 * The `userBuilder` for the A2A SDK behind `drsA2a`. The user of a request is the agent that signed it;
 * `drsContext().root_principal` says for whom the agent acts.
 *
 * @example jsonRpcHandler({ requestHandler, userBuilder: drsUserBuilder });
 */
export function drsUserBuilder(request: object): Promise<DrsUser> {
  const context = findDrsContext(request);
  return Promise.resolve({ isAuthenticated: context !== null, userName: context?.agent ?? '' });
}
