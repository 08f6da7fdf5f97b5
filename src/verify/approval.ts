import type { JsonObject, JsonValue } from '../protocol/json.js';
import { asksFor, isMoney, type PolicyLimit } from '../protocol/policy.js';
import { Failure, show } from './codes.js';
import { saidOf, type Tool } from './tools.js';

/** The public key of a passkey, as a JWK (RFC 7517) with exactly these members. */
export type PasskeyKey =
  | { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
  | { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string }
  | { readonly kty: 'RSA'; readonly n: string; readonly e: string };

/** Somebody who may say yes to calls, with one passkey. See docs/spec/approval.md. */
export interface Approver {
  /** Of the person: somebody with two passkeys has it twice. */
  readonly name: string;
  /** The id of the credential, in base64url. */
  readonly id: string;
  readonly key: PasskeyKey;
  /** Of the page on which the passkey signs. Its host is the RP ID. */
  readonly origin: string;
}

/** Who may say yes to calls under a root, as the operator's entry says now. */
export interface Approvers {
  readonly approvers: readonly Approver[];
  /** How many persons must say yes. */
  readonly needed: number;
}

/** What an operator's entry of a root says of yeses. */
export interface EntryApproval extends Approvers {
  /** Calls of these tools need one; `null`: not for their tool. */
  readonly tools: readonly string[] | null;
  /** Calls that cost more need one, in US dollars; `null`: not for their cost. */
  readonly aboveUsd: number | null;
  /** Whether a passkey is asked for before a call is shown: its link goes through the agent. */
  readonly isPrivate: boolean;
}

/** The yes that an allowed call used. */
export interface Approved {
  /** The SHA-256 of the statement, in base64url. */
  readonly statement: string;
  readonly by: readonly { readonly name: string; /** Unix seconds. */ readonly at: number }[];
}

interface Level {
  readonly limits: readonly PolicyLimit[];
}

/** What says that calls need a yes. */
export interface Sources {
  readonly chain: {
    /** Root first. */
    readonly receipts: readonly Level[];
    /** Whether any of them asks, whatever is called. */
    readonly asks: boolean;
  };
  readonly invocation: { readonly claims: { readonly args: JsonObject } };
  readonly tool: Tool | null;
  readonly root: { readonly approval: EntryApproval | null; readonly policy: Level | null };
}

/** A call that needs a person's yes is refused where nobody asks for it. */
export function checkApproval(sources: Sources): Failure | null {
  const reason = whoAsks(sources);
  return reason === null ? null : unapproved(sources, reason);
}

/**
 * The refusal of a call without the yes that it needs.
 *
 * @param reason what says that it needs one
 * @param expected what would have passed, in words; left out: nobody asks
 */
export function unapproved({ root, invocation }: Sources, reason: string, expected?: string): Failure {
  const names = new Set(root.approval?.approvers.map(({ name }) => name));
  const missing =
    names.size === 0
      ? 'approvers, which the line of the root principal in TRUSTED_ROOTS_FILE does not have'
      : `a gate that asks ${[...names].map(show).join(', ')}`;
  const claimed = invocation.claims.args['tool'];
  const details = { claimed, reason, expected: expected ?? missing };
  return new Failure('APPROVAL_REQUIRED', { subject: 'invocation', ...details });
}

/**
 * What says first that a call needs a yes, in words; `null` if nothing does. Most calls need none, and only look whether anything asks.
 *
 * @param byRoute whether its route needs one for each call
 */
export function whoAsks({ chain, root, invocation, tool }: Sources, byRoute = false): string | null {
  const { approval, policy } = root;
  const { args } = invocation.claims;
  const called = args['tool'];
  if (approval?.tools && asksFor(approval.tools, called)) return "approve.tools of the root's entry";
  const aboveUsd = approval?.aboveUsd ?? null;
  if (aboveUsd !== null && isAbove(aboveUsd, args, tool))
    return `approve.above_usd ${aboveUsd} of the root's entry`;
  if (policy !== null && asksIn(policy, called)) return "policy.approve_tools of the root's entry";
  const level = chain.asks ? chain.receipts.findIndex((receipt) => asksIn(receipt, called)) : -1;
  if (level >= 0) return `policy.approve_tools of receipt ${level}`;
  return byRoute ? 'approve of its route (GATE_ROUTES)' : null;
}

const asksIn = ({ limits }: Level, called: JsonValue | undefined): boolean =>
  limits.some(
    ({ member, value }) => member.name === 'approve_tools' && !member.kind.allows(value, called ?? null),
  );

/** Whether a call costs more, by its operator or its own word, or nobody says what. */
function isAbove(usd: number, args: JsonObject, tool: Tool | null): boolean {
  const { estimated_cost_usd: stated } = args;
  const said = saidOf(tool, 'estimated_cost_usd', args);
  const byTool = said === null ? [] : 'values' in said ? said.values : [undefined];
  const costs = stated === undefined ? byTool : [...byTool, stated];
  return costs.length === 0 || costs.some((cost) => !isMoney(cost) || cost > usd);
}
