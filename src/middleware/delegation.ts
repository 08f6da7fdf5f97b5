import { createBundle, encodeBundle } from '../protocol/bundle.js';
import { issueInvocation } from '../issue/invocation.js';
import { after, type AnySigner, type Eventual } from '../issue/signer.js';
import type { SigningKey } from '../issue/signing-key.js';
import type { JsonObject } from '../protocol/json.js';

/** What an agent needs to sign its calls. */
export interface Delegation<Key extends AnySigner = SigningKey> {
  /** The key of the last delegate, in memory or a `Signer`. */
  readonly key: Key;
  /** All receipts, root first. */
  readonly chain: readonly string[];
  /** The tool server that the calls are for: its `did:key`, or the URL by which it knows itself. */
  readonly toolServer: string;
}

/**
 * Signs one call under a delegation.
 *
 * @param command `null` for the command of the delegation itself
 * @returns the bundle, encoded as for the header; for a `Signer`, a promise of it
 * @throws IssueError if the delegation does not allow the call
 */
export function signCall(delegation: Delegation, command: string | null, args: JsonObject): string;
export function signCall(
  delegation: Delegation<AnySigner>,
  command: string | null,
  args: JsonObject,
): Eventual<string>;
export function signCall(
  { key, chain, toolServer }: Delegation<AnySigner>,
  command: string | null,
  args: JsonObject,
): Eventual<string> {
  const call = { key, chain, toolServer, ...(command === null ? {} : { command }), args };
  return after(issueInvocation(call), (invocation) =>
    encodeBundle(createBundle({ receipts: chain, invocation })),
  );
}
