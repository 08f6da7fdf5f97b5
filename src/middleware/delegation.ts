import { createBundle, encodeBundle } from '../protocol/bundle.js';
import { issueInvocation } from '../issue/delegation.js';
import type { Signer } from '../issue/signer.js';
import type { JsonObject } from '../protocol/json.js';

/** What an agent needs to sign its calls. */
export interface Delegation {
  /** The key of the last delegate, in memory or elsewhere. */
  readonly key: Signer;
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
export async function signCall(
  { key, chain, toolServer }: Delegation,
  command: string | null,
  args: JsonObject,
): Promise<string> {
  const call = { key, chain, toolServer, ...(command === null ? {} : { command }), args };
  return encodeBundle(createBundle({ receipts: chain, invocation: await issueInvocation(call) }));
}
