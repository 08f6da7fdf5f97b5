import { coversCommand } from '../../protocol/claims.js';
import { findEscalation } from '../attenuation.js';
import { Failure, show, type Subject } from '../codes.js';
import type { Root, Rules } from '../parts.js';
import type { Invocation, Receipt } from '../receipt.js';
import { findViolation, type Tool, type Violation } from '../tools.js';
import type { Structure } from './a-b-form.js';

/**
 * Block D for receipts: the root is trusted, and each stays within the one before it.
 *
 * @param trusted what the operator says of the root; `null` if it is not trusted
 */
export function checkReceiptPolicies(receipts: readonly Receipt[], trusted: Root | null): Failure | null {
  const root = receipts[0] as Receipt;
  const { sub, iss } = root.claims;
  if (sub !== iss) {
    const expected = `${show(iss)}, its iss: the root principal speaks for itself`;
    return new Failure('SUBJECT_MISMATCH', { subject: 0, claimed: sub, expected });
  }
  const refused = checkRoot(root, trusted);
  if (refused !== null) return refused;
  // The `max_delegations` by which the chain must end first: the receipt that has it, and the last one that it allows. If
  // two end equally, that of the upper receipt.
  let [level, last] = [0, maxDelegationsOf(root.limits) ?? Infinity];
  for (let subject = 1; subject < receipts.length; subject++) {
    const parent = receipts[subject - 1] as Receipt;
    const child = receipts[subject] as Receipt;
    const { claims } = child;
    if (claims.sub !== sub) {
      const expected = `${show(sub)}, the sub of the root`;
      return new Failure('SUBJECT_MISMATCH', { subject, claimed: claims.sub, expected });
    }
    const astray = checkCommand(subject, claims.cmd, parent.claims.cmd);
    if (astray !== null) return astray;
    if (subject > last) {
      const [claimed, reason] = [subject - level, `receipt ${level}`];
      const expected = `at most ${last - level}, its policy.max_delegations`;
      return new Failure('DELEGATION_NOT_ALLOWED', { subject, claimed, reason, expected });
    }
    const escalation = findEscalation(parent, child);
    if (escalation !== null) {
      const { member, claimed, allowed } = escalation;
      return new Failure('POLICY_ESCALATION', { subject, member, claimed, expected: show(allowed) });
    }
    const own = subject + (maxDelegationsOf(child.limits) ?? Infinity);
    if (own < last) [level, last] = [subject, own];
  }
  return null;
}

function maxDelegationsOf(limits: Receipt['limits']): number | undefined {
  return limits.find(({ member }) => member.name === 'max_delegations')?.value as number | undefined;
}

/**
 * The part of block D that can change while receipts stay the same, so that it is checked for known chains, too: the root
 * is trusted, and stays within what the operator lets it delegate.
 */
export function checkRoot(receipt: Receipt, trusted: Root | null): Failure | null {
  if (trusted === null) return untrustedRoot(receipt);
  const { policy, withinPolicy } = trusted;
  if (policy === null || withinPolicy.has(receipt)) return null;
  const escalation = findEscalation(policy, receipt);
  if (escalation !== null) {
    const { member, claimed, allowed } = escalation;
    return rootExceeded(0, `policy.${member}`, claimed, `at most ${show(allowed)}`);
  }
  withinPolicy.add(receipt);
  return null;
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
  { serverIdentity, allowsUnstated }: Pick<Rules, 'serverIdentity' | 'allowsUnstated'>,
  tool: Tool | null,
): Failure | null {
  const { args, sub: claimed, cmd } = invocation.claims;
  const { sub } = (receipts[0] as Receipt).claims;
  // What is invoked is what was delegated, for the same principal.
  if (claimed !== sub) {
    const details = { subject: 'invocation', claimed, expected: show(sub) } as const;
    return new Failure('INVOCATION_SUBJECT_MISMATCH', details);
  }
  const refused =
    checkCommand('invocation', cmd, (receipts.at(-1) as Receipt).claims.cmd) ??
    checkToolServer(invocation, serverIdentity);
  if (refused !== null) return refused;
  const limits = trusted?.policy?.limits;
  if (limits !== undefined) {
    const [delegations, max] = [receipts.length - 1, maxDelegationsOf(limits) ?? Infinity];
    if (delegations > max) return rootExceeded(0, 'policy.max_delegations', delegations, `at most ${max}`);
    const violation = findViolation(limits, args, tool, allowsUnstated);
    if (violation !== null)
      return rootExceeded(
        'invocation',
        `args.${violation.argument}`,
        violation.claimed,
        expectedBy(violation),
      );
  }
  for (let subject = 0; subject < receipts.length; subject++) {
    const violation = findViolation((receipts[subject] as Receipt).limits, args, tool, allowsUnstated);
    if (violation === null) continue;
    const { argument: member, claimed } = violation;
    return new Failure('POLICY_VIOLATION', { subject, member, claimed, expected: expectedBy(violation) });
  }
  return null;
}

function rootExceeded(subject: Subject, member: string, claimed: unknown, expected: string): Failure {
  return new Failure('ROOT_POLICY_EXCEEDED', { subject, member, claimed, expected });
}

/** What would have passed, and who can say so. */
function expectedBy({ member, allowed, by }: Violation): string {
  const words = `what ${member} ${show(allowed)} allows`;
  if (by === 'call') return words;
  if (by === 'tool') return `${words}, by what the operator says of the tool`;
  return `${allowed === false ? 'false' : words}: state it, or have the operator say what the tool does`;
}
