import { randomUUID } from 'node:crypto';
import { DRS_VERSION, INVOCATION_TYPE, type InvocationClaims } from '../protocol/claims.js';
import type { JsonObject } from '../protocol/json.js';
import { findViolation } from '../verify/call-policy.js';
import { show } from '../verify/codes.js';
import {
  DEFAULT_MAX_CHAIN_DEPTH,
  readChain,
  requireCommand,
  requireInvocation,
  requireValidChain,
  type Link,
} from './chain.js';
import { clock } from './delegation.js';
import { refusal } from './issue-error.js';
import { signClaims } from './sign-claims.js';
import type { SigningKey } from './signing-key.js';

/** Options of {@link issueInvocation}. Times in Unix seconds. */
export interface InvocationOptions {
  /** The key of the last delegate. */
  readonly key: SigningKey;
  /** All receipts, root first. */
  readonly chain: readonly string[];
  /** The call's arguments, as the tool server will see them: `tool`, `estimated_cost_usd` and the tool's own. */
  readonly args: JsonObject;
  /** The tool server that this call is for: its `did:key`, or the URL by which it knows itself. */
  readonly toolServer: string;
  /** Default: the leaf's command. */
  readonly command?: string;
  /** The time of issuing; default: the clock. */
  readonly now?: number;
  /** Default: `inv:` and a random UUID. */
  readonly jti?: string;
  /** The most receipts that the verifiers accept; default 16, as theirs. */
  readonly maxChainDepth?: number;
  /**
   * Sign also what a verifier must refuse (blocks B to E); the shape of the invocation is still checked. For trying
   * out a verifier; default false.
   */
  readonly unchecked?: boolean;
}

/**
 * Issues the receipt of one call under a chain. Refuses a call that would not verify now: a signed record of a call
 * that no policy allows has no use but to be rejected. Service document 2.3.
 *
 * @returns the invocation receipt as a compact JWT, its payload in RFC 8785 form
 * @throws IssueError with the code of the verdict that the bundle would get: `INVOKER_MISMATCH`, `POLICY_VIOLATION`,
 *   `COMMAND_MISMATCH`, `NOT_YET_VALID`, `EXPIRED`, `MALFORMED_INVOCATION`, `INVALID_JTI`, and any code of blocks A
 *   to E for the chain
 * @example
 * const invocation = issueInvocation({
 *   key: helper,
 *   chain: [root, sub],
 *   args: { tool: 'search', query: 'weather', estimated_cost_usd: 0.02 },
 *   toolServer: 'did:key:z6Mk…',
 * });
 */
export function issueInvocation(options: InvocationOptions): string {
  const { key, maxChainDepth = DEFAULT_MAX_CHAIN_DEPTH, unchecked = false } = options;
  const now = options.now ?? clock();
  const chain = readChain(options.chain, maxChainDepth);
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
    jti: options.jti ?? `inv:${randomUUID()}`,
    tool_server: options.toolServer,
  };
  const jwt = signInvocation(key, claims);
  requireInvocation(jwt);
  if (unchecked) return jwt;
  requireValidChain(chain, now);
  if (key.did !== leaf.claims.aud) {
    throw refusal('INVOKER_MISMATCH', {
      subject: 'invocation',
      claimed: key.did,
      expected: show(leaf.claims.aud),
    });
  }
  requireCommand(leaf.claims.cmd, claims.cmd, 'invocation');
  chain.forEach((link, at) => {
    requireAllowed(link, at, options.args);
    requireStarted(link, at, now);
  });
  return jwt;
}

function requireAllowed({ claims }: Link, at: number, args: JsonObject): void {
  const violation = findViolation(claims.policy, args);
  if (violation === null) return;
  throw refusal('POLICY_VIOLATION', {
    subject: at,
    member: violation.argument,
    claimed: violation.claimed,
    expected: `what policy.${violation.member} ${show(violation.allowed)} allows`,
  });
}

function requireStarted({ claims }: Link, at: number, now: number): void {
  if (claims.nbf <= now) return;
  throw refusal('NOT_YET_VALID', {
    subject: at,
    claimed: claims.nbf,
    expected: `at most ${now}, the time of issuing`,
  });
}

function signInvocation(key: SigningKey, claims: InvocationClaims): string {
  try {
    return signClaims(claims, key);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw refusal('MALFORMED_INVOCATION', { subject: 'invocation', reason: error.message });
  }
}
