import { DRS_VERSION, INVOCATION_TYPE, type InvocationClaims } from '../protocol/claims.js';
import type { JsonObject } from '../protocol/json.js';
import { readInvocation } from '../verify/judge.js';
import { count, flag, type GivenOptions, type Table } from '../protocol/options.js';
import {
  CORRECT_IT,
  DEFAULT_MAX_CHAIN_DEPTH,
  orThrow,
  readChain,
  requireDepth,
  requireValid,
} from './chain.js';
import { claim, clock, issueOptions, receipts, time } from './options.js';
import { SIGNER, signReceipt } from './signer.js';

const OPTIONS = {
  /** The key of the last delegate. */
  key: SIGNER,
  /** All receipts, root first. */
  chain: { kind: receipts, required: true },
  /** The call's arguments, as the tool server will receive them: `tool`, `estimated_cost_usd` and the tool's own. */
  args: { kind: claim<JsonObject>(), required: true },
  /** The tool server that this call is for: its `did:key`, or the URL by which it knows itself. */
  toolServer: { kind: claim<string>(), required: true },
  /** Default: the leaf's command. */
  command: { kind: claim<string>() },
  /** The time of issuing in Unix seconds; default: the clock. */
  now: { kind: time, default: clock },
  /** Default: `inv:` and a random UUID. */
  jti: { kind: claim<string>(), default: () => `inv:${crypto.randomUUID()}` },
  /** The verifiers' limit for the number of receipts; default 16, like theirs. */
  maxChainDepth: { kind: count(1), default: DEFAULT_MAX_CHAIN_DEPTH },
  /**
   * Skip blocks B to E, to sign something that a verifier must refuse. The shape of the invocation is still checked.
   * For tests of a verifier; default false.
   */
  unchecked: { kind: flag, default: false },
} satisfies Table;

/** Options of {@link issueInvocation}. */
export interface InvocationOptions extends GivenOptions<typeof OPTIONS> {}

/**
 * Issues the receipt of one call under a chain. Refuses a call that would not verify now, since every verifier would
 * reject its receipt. See docs/spec/issuing.md.
 *
 * @returns the invocation receipt as a compact JWT, its payload in RFC 8785 form
 * @throws IssueError with the code of the verdict that the bundle would get: `INVOKER_MISMATCH`, `POLICY_VIOLATION`,
 *   `COMMAND_MISMATCH`, `NOT_YET_VALID`, `EXPIRED`, `MALFORMED_INVOCATION`, `INVALID_JTI`, and any code of blocks A
 *   to E for the chain
 * @example
 * const invocation = await issueInvocation({
 *   key: helper,
 *   chain: [root, sub],
 *   args: { tool: 'search', query: 'weather', estimated_cost_usd: 0.02 },
 *   toolServer: 'did:key:z6Mk…',
 * });
 */
export async function issueInvocation(given: InvocationOptions): Promise<string> {
  const options = issueOptions(given, OPTIONS);
  const { key, now } = options;
  const chain = readChain(options.chain);
  const [root] = chain;
  const leaf = chain.at(-1) ?? root;
  const claims: InvocationClaims = {
    drs_type: INVOCATION_TYPE,
    drs_v: DRS_VERSION,
    iss: key.did,
    sub: root.claims.sub,
    cmd: options.command ?? leaf.claims.cmd,
    args: options.args,
    dr_chain: chain.map(({ digest }) => digest),
    iat: now,
    jti: options.jti,
    tool_server: options.toolServer,
  };
  const jwt = await signReceipt(claims, key, 'invocation');
  requireDepth(chain, options.maxChainDepth);
  const invocation = orThrow(readInvocation(jwt), CORRECT_IT);
  if (!options.unchecked) await requireValid(chain, invocation, now, jwt);
  return jwt;
}
