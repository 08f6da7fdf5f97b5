import { DRS_VERSION, INVOCATION_TYPE, type InvocationClaims } from '../protocol/claims.js';
import type { JsonObject } from '../protocol/json.js';
import { readInvocation } from '../verify/claims-alone.js';
import { CORRECT_IT, orThrow, readChain, requireDepth, requireValid } from './chain.js';
import { clock, keyOf, requireKnownOptions, requireNearTimes } from './options.js';
import { signReceipt } from './sign-claims.js';
import { after, issueWith, type AnySigner, type Eventual, type Signer } from './signer.js';
import type { SigningKey } from './signing-key.js';

/** Options of {@link issueInvocation}. Times in Unix seconds. */
export interface InvocationOptions<Key extends AnySigner = SigningKey> {
  /** The key of the last delegate, or a {@link Signer} that has it elsewhere. */
  readonly key: Key;
  /** All receipts, root first. */
  readonly chain: readonly string[];
  /** The call's arguments, as the tool server will receive them: `tool`, `estimated_cost_usd` and the tool's own. */
  readonly args: JsonObject;
  /** The tool server that this call is for: its `did:key`, or the URL by which it knows itself. */
  readonly toolServer: string;
  /** Default: the leaf's command. */
  readonly command?: string;
  /** The time of issuing; default: the clock. */
  readonly now?: number;
  /** Default: `inv:` and a random UUID. */
  readonly jti?: string;
  /** The verifiers' limit for the number of receipts; default 16, like theirs. */
  readonly maxChainDepth?: number;
  /**
   * Skip blocks B to E, to sign something that a verifier must refuse. The shape of the invocation is still checked.
   * For tests of a verifier; default false.
   */
  readonly unchecked?: boolean;
}

/**
 * Issues the receipt of one call under a chain. Refuses a call that would not verify now, since every verifier would
 * reject its receipt. See docs/spec/issuing.md.
 *
 * @returns the invocation receipt as a compact JWT, its payload in RFC 8785 form; for a {@link Signer}, a promise of it
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
export function issueInvocation(options: InvocationOptions): string;
export function issueInvocation(options: InvocationOptions<Signer>): Promise<string>;
export function issueInvocation(options: InvocationOptions<AnySigner>): Eventual<string>;
export function issueInvocation(options: InvocationOptions<AnySigner>): Eventual<string> {
  return issueWith(keyOf(options), () => {
    requireKnownOptions(options, INVOCATION_OPTIONS);
    const { key } = options;
    const now = options.now ?? clock();
    requireNearTimes({ now });
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
      jti: options.jti ?? `inv:${crypto.randomUUID()}`,
      tool_server: options.toolServer,
    };
    return after(signReceipt(claims, key, 'invocation'), (jwt) => {
      requireDepth(chain, options.maxChainDepth);
      const invocation = orThrow(readInvocation(jwt), CORRECT_IT);
      if (options.unchecked === true) return jwt;
      return after(requireValid(key, chain, invocation, now), () => jwt);
    });
  });
}

const INVOCATION_OPTIONS = {
  key: true,
  chain: true,
  args: true,
  toolServer: true,
  command: true,
  now: true,
  jti: true,
  maxChainDepth: true,
  unchecked: true,
} as const;
