import { createBundle, encodeBundle } from '../protocol/bundle.js';
import { issueInvocation } from '../issue/invocation.js';
import type { SigningKey } from '../issue/signing-key.js';
import type { JsonObject } from '../protocol/json.js';

/** What an agent needs to sign its calls. */
export interface Delegation {
  /** The key of the last delegate. */
  readonly key: SigningKey;
  /** All receipts, root first. */
  readonly chain: readonly string[];
  /** The tool server that the calls are for: its `did:key`, or the URL by which it knows itself. */
  readonly toolServer: string;
}

/**
 * Signs one call under a delegation.
 *
 * @param command `null` for the command of the delegation itself
 * @returns the bundle, encoded as for the header
 * @throws IssueError if the delegation does not allow the call
 */
export function signCall(delegation: Delegation, command: string | null, args: JsonObject): string {
  const { key, chain, toolServer } = delegation;
  const invocation = issueInvocation({
    key,
    chain,
    toolServer,
    ...(command === null ? {} : { command }),
    args,
  });
  return encodeBundle(createBundle({ receipts: chain, invocation }));
}
