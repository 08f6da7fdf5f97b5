import { openA2a } from '../../gate/a2a.js';
import { findDrsContext } from '../context.js';
import { Guard } from '../guard.js';
import { answer, guardNode, headOf, readBody, type NodeMiddleware } from '../node.js';
import { BODY, checkProtection, PROTECTION, type BodyOptions, type ProtectionOptions } from '../options.js';

/** Options of {@link drsA2a}. The binding is always enforced, and the command is that of the method. */
export type A2aOptions = ProtectionOptions & Pick<BodyOptions, 'maxBodyBytes'>;

/**
 * Lets only verified requests reach an A2A agent, over JSON-RPC and REST. Every method is a call with the command
 * `/a2a/<method>`, bound to `{ tool: method, ...params }`; over REST, path and query are bound, too. Put it in front of
 * the SDK's `jsonRpcHandler` and `restHandler`, and of every body parser. It must see the path as callers send it. The
 * agent card and OPTIONS pass unchecked; all that is no call is refused.
 *
 * @returns middleware; a refused request gets the HTTP status, and over JSON-RPC an error with the reason in `data`, over
 *   REST the same body as from `drsMiddleware`
 * @throws TypeError naming every problem with the options
 * @example
 * const drs = drsA2a({ verifier, trustedRoots, serverIdentity, replayStore });
 * app.use('/a2a', drs, jsonRpcHandler({ requestHandler, userBuilder: drsUserBuilder }));
 */
export function drsA2a(given: A2aOptions): NodeMiddleware {
  const options = checkProtection(given, { ...PROTECTION, ...BODY });
  const guard = new Guard('a2a', options);
  const { maxBodyBytes } = options;
  return (req, res, next) =>
    guardNode(guard, req, res, next, answer, async () => {
      const body = await readBody(req, maxBodyBytes);
      return body === 'gone' ? body : openA2a({ ...headOf(req), body });
    });
}

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
