import { coversCommand } from '../../protocol/claims.js';
import { findEscalation } from '../attenuation.js';
import { Failure, show, type Subject } from '../codes.js';
import type { Root, Rules } from '../parts.js';
import type { Invocation, Receipt } from '../receipt.js';
import { findViolation, type Stating, type Tool, type Violation } from '../tools.js';
import type { Structure } from './a-b-form.js';

/**
 * Block D for receipts: the root is trusted, and each stays within the one before it.
 *
 * @param trusted what the operator says of the root; `null` if it is not trusted
 */
export function checkReceiptPolicies(receipts: readonly Receipt[], trusted: Root | null): Failure | null {
  const root = receipts[0] as Receipt;
  return checkRootSubject(root) ?? checkRoot(root, trusted) ?? checkDelegations(receipts);
}

/** The part of block D for receipts that says what each lets the next one do. */
function checkDelegations(receipts: readonly Receipt[]): Failure | null {
  const root = receipts[0] as Receipt;
  let depth = tighter(null, root, 0);
  for (let index = 1; index < receipts.length; index++) {
    const receipt = receipts[index] as Receipt;
    const failure = checkDelegation(root, receipts[index - 1] as Receipt, receipt, index, depth);
    if (failure !== null) return failure;
    depth = tighter(depth, receipt, index);
  }
  return null;
}

/** The `max_delegations` by which a chain must end first. */
interface DepthLimit {
  /** The receipt that has it. */
  readonly level: number;
  /** The last receipt that it allows. */
  readonly last: number;
}

function maxDelegationsOf(limits: Receipt['limits']): number | undefined {
  return limits.find(({ member }) => member.name === 'max_delegations')?.value as number | undefined;
}

/** Of the limit of the receipts above and that of this one the tighter; if both end equally, the upper one. */
function tighter(above: DepthLimit | null, { limits }: Receipt, level: number): DepthLimit | null {
  const own = maxDelegationsOf(limits);
  if (own === undefined || (above !== null && above.last <= level + own)) return above;
  return { level, last: level + own };
}

/**
 * The part of block D that can change while receipts stay the same, so that it is checked for known chains, too: the root
 * is trusted, and stays within what the operator lets it delegate.
 */
export function checkRoot(receipt: Receipt, trusted: Root | null): Failure | null {
  if (trusted === null) return untrustedRoot(receipt);
  const { policy, kept } = trusted;
  if (policy === null || kept.has(receipt)) return null;
  const escalation = findEscalation(policy, receipt);
  if (escalation === null) {
    kept.add(receipt);
    return null;
  }
  const { claimed, allowed } = escalation;
  return rootExceeded(0, `policy.${escalation.member}`, claimed, `at most ${show(allowed)}`);
}

/** The root of a chain is nobody whom the operator trusts. */
export function untrustedRoot({ claims }: Receipt): Failure {
  const expected = 'one that this verifier trusts';
  return new Failure('UNTRUSTED_ROOT', { subject: 0, claimed: claims.iss, expected });
}

/** The call is for this server. @param identity its name; `null` for any, `undefined` where nobody has said it */
export function checkToolServer(
  { claims: { tool_server: claimed } }: Invocation,
  identity: string | null | undefined,
): Failure | null {
  if (identity === null || claimed === identity) return null;
  const unnamed = 'the name of this tool server, which its operator has to set (SERVER_IDENTITY)';
  const expected = identity === undefined ? unnamed : show(identity);
  return new Failure('TOOL_SERVER_MISMATCH', { subject: 'invocation', claimed, expected });
}

/** A command is the expected one. @param orBelow whether it may be a path below that */
export function checkCommand(
  subject: Subject,
  claimed: string,
  command: string,
  orBelow = true,
): Failure | null {
  if (orBelow ? coversCommand(command, claimed) : claimed === command) return null;
  const expected = orBelow ? `${show(command)} or a path below it` : show(command);
  return new Failure('COMMAND_MISMATCH', { subject, claimed, expected });
}

/** Block D for the call: it stays within the policies of all levels, and of what is said of the root. */
export function checkCallPolicy(
  { receipts, invocation }: Pick<Structure, 'receipts' | 'invocation'>,
  trusted: Root | null,
  rules: Pick<Rules, 'serverIdentity' | 'allowsUnstated'>,
  tool: Tool | null,
): Failure | null {
  const stating = { tool, allowsUnstated: rules.allowsUnstated };
  return (
    checkInvocation(invocation, receipts[0] as Receipt, receipts.at(-1) as Receipt) ??
    checkSettings(invocation, receipts, trusted, rules, stating) ??
    checkLevels(invocation, receipts, stating)
  );
}

/** The root principal speaks for itself. */
function checkRootSubject({ claims }: Receipt): Failure | null {
  if (claims.sub === claims.iss) return null;
  const expected = `${show(claims.iss)}, its iss: the root principal speaks for itself`;
  return new Failure('SUBJECT_MISMATCH', { subject: 0, claimed: claims.sub, expected });
}

/** The part of block D for the call that the operator decides: which server this is, and what the root may have. */
function checkSettings(
  invocation: Invocation,
  receipts: readonly Receipt[],
  trusted: Root | null,
  { serverIdentity }: Pick<Rules, 'serverIdentity'>,
  stating: Stating,
): Failure | null {
  const foreign = checkToolServer(invocation, serverIdentity);
  if (foreign !== null) return foreign;
  const limits = trusted?.policy?.limits;
  if (limits === undefined) return null;
  const [delegations, most] = [receipts.length - 1, maxDelegationsOf(limits)];
  if (most !== undefined && delegations > most)
    return rootExceeded(0, 'policy.max_delegations', delegations, `at most ${most}`);
  const violation = findViolation(limits, invocation.claims.args, stating);
  if (violation === null) return null;
  const { argument, claimed } = violation;
  return rootExceeded('invocation', `args.${argument}`, claimed, expectedBy(violation));
}

function rootExceeded(subject: Subject, member: string, claimed: unknown, expected: string): Failure {
  return new Failure('ROOT_POLICY_EXCEEDED', { subject, member, claimed, expected });
}

function checkDelegation(
  root: Receipt,
  parent: Receipt,
  child: Receipt,
  subject: number,
  depth: DepthLimit | null,
): Failure | null {
  const { sub, cmd } = child.claims;
  if (sub !== root.claims.sub) {
    const expected = `${show(root.claims.sub)}, the sub of the root`;
    return new Failure('SUBJECT_MISMATCH', { subject, claimed: sub, expected });
  }
  const astray = checkCommand(subject, cmd, parent.claims.cmd);
  if (astray !== null) return astray;
  if (depth !== null && subject > depth.last) {
    const { level, last } = depth;
    return new Failure('DELEGATION_NOT_ALLOWED', {
      subject,
      claimed: subject - level,
      reason: `receipt ${level}`,
      expected: `at most ${last - level}, its policy.max_delegations`,
    });
  }
  const escalation = findEscalation(parent, child);
  if (escalation === null) return null;
  return new Failure('POLICY_ESCALATION', {
    subject,
    member: escalation.member,
    claimed: escalation.claimed,
    expected: show(escalation.allowed),
  });
}

/** What is invoked is what was delegated, for the same principal. */
function checkInvocation(invocation: Invocation, root: Receipt, leaf: Receipt): Failure | null {
  const subject = 'invocation';
  const { sub, cmd } = invocation.claims;
  if (sub !== root.claims.sub) {
    const expected = show(root.claims.sub);
    return new Failure('INVOCATION_SUBJECT_MISMATCH', { subject, claimed: sub, expected });
  }
  return checkCommand(subject, cmd, leaf.claims.cmd);
}

/** The arguments of the call are within the policy of each receipt. */
function checkLevels({ claims }: Invocation, receipts: readonly Receipt[], stating: Stating): Failure | null {
  for (let subject = 0; subject < receipts.length; subject++) {
    const violation = findViolation((receipts[subject] as Receipt).limits, claims.args, stating);
    if (violation === null) continue;
    const { argument, claimed } = violation;
    return new Failure('POLICY_VIOLATION', {
      subject,
      member: argument,
      claimed,
      expected: expectedBy(violation),
    });
  }
  return null;
}

/** What would have passed, and who can say so. */
function expectedBy({ member, allowed, by }: Violation): string {
  const words = `what ${member} ${show(allowed)} allows`;
  switch (by) {
    case 'call':
      return words;
    case 'tool':
      return `${words}, by what the operator says of the tool`;
    case 'nobody':
      return `${allowed === false ? 'false' : words}: state it, or have the operator say what the tool does`;
  }
}
