/** The six blocks of a verification, and the checks after them: required binding, a person's yes, and replay protection. */
export type Block = 'A' | 'B' | 'C' | 'D' | 'E' | 'F' | 'binding' | 'approval' | 'replay';

export interface Row {
  readonly block: Block;
  readonly code: string;
  /** `{subject}`, `{member}`, `{claimed}`, `{time}`, `{expected}` and `{reason}` stand for the details of a failure. */
  readonly message: string;
  /** What the caller can do. */
  readonly suggestion: string;
}

/**
 * Every code that a verdict can carry, in the order in which blocks check. A code belongs to one block;
 * `docs/codes.md` explains each under an anchor of the same name.
 */
export const CATALOGUE = [
  {
    block: 'A',
    code: 'MALFORMED_BUNDLE',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion:
      'Send a JSON object with bundle_version "4.0", receipts (an array of JWT strings, root first) and invocation (a JWT string).',
  },
  {
    block: 'A',
    code: 'VERSION_MISMATCH',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Issue the chain and build the bundle for DRS 4.0.',
  },
  {
    block: 'A',
    code: 'EMPTY_CHAIN',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Put every delegation receipt, from the root to the leaf, into receipts.',
  },
  {
    block: 'A',
    code: 'CHAIN_TOO_DEEP',
    message: '{subject}: {member} holds {claimed} receipts, expected {expected}',
    suggestion: 'Delegate over fewer levels, or have the operator raise MAX_CHAIN_DEPTH.',
  },
  {
    block: 'A',
    code: 'MISSING_INVOCATION',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion:
      'Sign an invocation receipt for this call with the key of the last delegate and put it into invocation.',
  },
  {
    block: 'A',
    code: 'MALFORMED_RECEIPT',
    message: '{subject} is malformed: {reason}',
    suggestion: 'Have the issuer issue this receipt again, and pass it on byte for byte.',
  },
  {
    block: 'A',
    code: 'MALFORMED_INVOCATION',
    message: '{subject} is malformed: {reason}',
    suggestion: 'Have the last delegate sign the invocation again, and pass it on byte for byte.',
  },
  {
    block: 'A',
    code: 'WRONG_TYPE',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Put delegation receipts into receipts and the invocation receipt into invocation.',
  },
  {
    block: 'A',
    code: 'INVALID_JTI',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion:
      'Issue it again with an identifier of the form dr:<uuid> (receipts) or inv:<id> (invocations).',
  },
  {
    block: 'A',
    code: 'MISSING_CONSENT',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Record the consent of the person in drs_consent when the root receipt is issued.',
  },
  {
    block: 'A',
    code: 'INVALID_CONSENT',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Issue the root receipt again with a record of the consent as createConsent() makes it.',
  },
  {
    block: 'B',
    code: 'CHAIN_BREAK',
    message: '{subject}: prev_dr_hash is {claimed}, expected {expected}',
    suggestion:
      'Send the receipts unaltered and ordered from root to leaf, each issued under the one before it.',
  },
  {
    block: 'B',
    code: 'ISSUER_MISMATCH',
    message: '{subject}: iss is {claimed}, expected {expected}, the aud of the receipt before it',
    suggestion: 'Only the audience of a receipt can delegate further: have that key issue this receipt.',
  },
  {
    block: 'B',
    code: 'INVOKER_MISMATCH',
    message: '{subject}: iss is {claimed}, expected {expected}, the aud of the last receipt',
    suggestion:
      'Sign the invocation with the key of the last delegate, or delegate to the key that signs it.',
  },
  {
    block: 'B',
    code: 'CHAIN_REFERENCE_MISMATCH',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion:
      'Sign an invocation whose dr_chain lists the hash of every receipt of this bundle, root first.',
  },
  {
    block: 'C',
    code: 'UNSUPPORTED_ALGORITHM',
    message: "{subject}: the header's alg is {claimed}, expected {expected}",
    suggestion: 'Sign with Ed25519 and name it EdDSA (RFC 8037) or Ed25519 (RFC 9864) in the header.',
  },
  {
    block: 'C',
    code: 'UNRESOLVABLE_DID',
    message: '{subject}: iss is {claimed}, expected {expected}',
    suggestion:
      'Issue with a did:key of an Ed25519 key, without a fragment, or with a did:web that the operator has added (TRUSTED_ROOTS_FILE).',
  },
  {
    block: 'C',
    code: 'DID_RESOLUTION_FAILED',
    message: '{subject}: the keys of {claimed} are unknown, expected {expected}',
    suggestion:
      'Try again; the operator can see in the log and in the metrics why its document cannot be had.',
  },
  {
    block: 'C',
    code: 'INVALID_SIGNATURE',
    message: '{subject}: the signature is {claimed}, expected {expected}',
    suggestion: 'The receipt was altered or signed by another key: get it again from its issuer.',
  },
  {
    block: 'C',
    code: 'INVALID_INVOCATION_SIGNATURE',
    message: '{subject}: the signature is {claimed}, expected {expected}',
    suggestion: 'The invocation was altered or signed by another key: have the last delegate sign it again.',
  },
  {
    block: 'D',
    code: 'SUBJECT_MISMATCH',
    message: '{subject}: sub is {claimed}, expected {expected}',
    suggestion: 'Issue every receipt with the root principal, who issues the root receipt, as sub.',
  },
  {
    block: 'D',
    code: 'INVOCATION_SUBJECT_MISMATCH',
    message: '{subject}: sub is {claimed}, expected {expected}, the sub of the root',
    suggestion: 'Sign the invocation with the root principal as sub.',
  },
  {
    block: 'D',
    code: 'COMMAND_MISMATCH',
    message: '{subject}: cmd is {claimed}, expected {expected}',
    suggestion:
      'Sign for the command of this very request, at or below the one that was delegated, or have it delegated.',
  },
  {
    block: 'D',
    code: 'TOOL_SERVER_MISMATCH',
    message: '{subject}: tool_server is {claimed}, expected {expected}',
    suggestion: 'Sign the invocation for the tool server that receives the call.',
  },
  {
    block: 'D',
    code: 'UNTRUSTED_ROOT',
    message: '{subject}: the root principal is {claimed}, expected {expected}',
    suggestion:
      'Use a delegation of a principal that this verifier trusts, or have the operator add it (TRUSTED_ROOTS, or TRUSTED_ROOTS_FILE).',
  },
  {
    block: 'D',
    code: 'ROOT_POLICY_EXCEEDED',
    message:
      '{subject}: {member} is {claimed}, expected {expected}, as far as this verifier trusts the root principal',
    suggestion: 'Delegate and call within it, or have the operator trust the principal with more.',
  },
  {
    block: 'D',
    code: 'DELEGATION_NOT_ALLOWED',
    message: '{subject}: it is delegation {claimed} below {reason}, expected {expected}',
    suggestion:
      'Ask the principal for a delegation that may be passed on (max_delegations), or use the one above.',
  },
  {
    block: 'D',
    code: 'POLICY_ESCALATION',
    message: '{subject}: policy.{member} is {claimed}, expected at most {expected}, which its parent allows',
    suggestion: "Issue this receipt with a policy that stays within its parent's.",
  },
  {
    block: 'D',
    code: 'POLICY_VIOLATION',
    message: 'Invocation: args.{member} is {claimed}, expected {expected}, the policy of {subject}',
    suggestion: 'Call within the delegated policy, or ask the principal for a wider delegation.',
  },
  {
    block: 'E',
    code: 'ROOT_NOT_YET_VALID',
    message: '{subject}: this verifier trusts its root principal from {time}, expected {expected}',
    suggestion: 'Wait until then, or have the operator change not_before of the principal.',
  },
  {
    block: 'E',
    code: 'ROOT_EXPIRED',
    message: '{subject}: this verifier trusted its root principal until {time}, expected {expected}',
    suggestion: 'Have the operator change not_after of the principal, if it is still to be trusted.',
  },
  {
    block: 'E',
    code: 'NOT_YET_VALID',
    message: '{subject}: it is valid from {time}, expected {expected}',
    suggestion: 'Wait until the receipt is valid, and check the clocks of issuer and verifier.',
  },
  {
    block: 'E',
    code: 'EXPIRED',
    message: '{subject}: it expired at {time}, expected {expected}',
    suggestion: 'Ask for a new delegation.',
  },
  {
    block: 'E',
    code: 'TEMPORAL_BOUNDS_VIOLATION',
    message: '{subject}: {member} is {time}, expected {expected}, the window of its parent',
    suggestion: "Issue this receipt with a window inside its parent's.",
  },
  {
    block: 'F',
    code: 'RECEIPT_REVOKED',
    message: '{subject}: {member} {claimed} is revoked in {reason}, expected {expected}',
    suggestion: 'The delegation was withdrawn: ask for a new one.',
  },
  {
    block: 'F',
    code: 'KEY_REVOKED',
    message: '{subject}: {member} {claimed} is revoked in {reason}, expected {expected}',
    suggestion: 'Nobody accepts this key any more: have a new key, and delegate to it or by it anew.',
  },
  {
    block: 'F',
    code: 'STATUS_INDEX_OUT_OF_RANGE',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Issue the receipt with an index of the status list that this verifier reads.',
  },
  {
    block: 'F',
    code: 'REVOCATION_CHECK_FAILED',
    message: '{subject}: the state of status list index {claimed} is unknown, expected {expected}',
    suggestion:
      'Try again; the operator can see at /readyz and in the metrics why the status list cannot be had.',
  },
  {
    block: 'F',
    code: 'UNKNOWN_STATUS',
    message: '{subject}: {member} is a status that nobody here reads, expected {expected}',
    suggestion:
      'Issue without this claim: with an index of the list that this verifier reads, or revoke by receipt or key; or have its operator name the list for the root.',
  },
  {
    block: 'binding',
    code: 'BINDING_REQUIRED',
    message: '{subject}: {member} is {claimed}, expected {expected}',
    suggestion: 'Send the body of the call beside the bundle: this verifier accepts no call without it.',
  },
  {
    block: 'binding',
    code: 'BINDING_MISMATCH',
    message: 'Invocation: args are not {expected}: {reason}',
    suggestion: 'Sign the invocation with the arguments of this very call, and send them unaltered.',
  },
  {
    block: 'approval',
    code: 'APPROVAL_REQUIRED',
    message: '{subject}: the call of {claimed} needs a yes by {reason}, expected {expected}',
    suggestion: "Call what needs no person's yes, or have the operator set up who can give it.",
  },
  {
    block: 'replay',
    code: 'INVOCATION_STALE',
    message: '{subject}: iat is {time}, expected {expected}',
    suggestion: 'Sign a new invocation for each call, and check the clocks of agent and verifier.',
  },
  {
    block: 'replay',
    code: 'REPLAY_DETECTED',
    message: '{subject}: jti {claimed} was used before, expected {expected}',
    suggestion: 'Sign a new invocation, with a new jti, for each call.',
  },
  {
    block: 'replay',
    code: 'REPLAY_STORE_UNAVAILABLE',
    message: '{subject}: jti {claimed} cannot be checked for replay ({reason}), expected {expected}',
    suggestion: 'Try again; the operator should look at the replay store.',
  },
  {
    block: 'replay',
    code: 'LIMIT_REACHED',
    message: '{subject}: this call takes {claimed} of policy.{member}, expected {expected}',
    suggestion: 'Ask the principal for a new delegation: what this one allows is used up.',
  },
] as const satisfies readonly Row[];

/** A code of {@link CATALOGUE}. */
export type Code = (typeof CATALOGUE)[number]['code'];

/** What a failure is about: the bundle, the receipt at an index (0 is the root), or the invocation. */
export type Subject = 'bundle' | 'invocation' | number;

export interface Details {
  readonly subject: Subject;
  readonly member?: string;
  /** The value that was found; left out if there is none. */
  readonly claimed?: unknown;
  /** The time that was found, in Unix seconds; left out if there is none. */
  readonly time?: number | undefined;
  /** The value that would have passed, in words. */
  readonly expected?: string;
  readonly reason?: string;
}

/** Why a bundle is not valid. */
export class Failure {
  readonly block: Block;
  readonly code: Code;
  readonly message: string;
  readonly suggestion: string;
  /** What it is about, and the member of that, for who marks the cause. */
  readonly subject: Subject;
  readonly member: string | undefined;

  constructor(code: Code, details: Details) {
    const row = ROWS.get(code);
    if (row === undefined) throw new RangeError(`no such code: ${code}`);
    this.block = row.block;
    this.code = code;
    this.message = row.parts
      .map((part, at) => (at % 2 === 0 ? part : describe(part as keyof Details, details)))
      .join('');
    this.suggestion = row.suggestion;
    this.subject = details.subject;
    this.member = details.member;
  }
}

/**
 * Rows by code. `parts` has the text and the names of a message in turn: split once, since somebody may send many bad
 * signatures, and each refusal makes a message.
 */
const ROWS: ReadonlyMap<string, Row & { readonly parts: readonly string[] }> = new Map(
  CATALOGUE.map((row) => [row.code, { ...row, parts: row.message.split(/\{(\w+)\}/) }]),
);

function describe(name: keyof Details, details: Details): string {
  if (name === 'claimed') return show(details.claimed);
  if (name === 'time') return showTime(details.time);
  if (name !== 'subject') return details[name] ?? '?';
  const { subject } = details;
  return typeof subject === 'number' ? `Receipt ${subject}` : SUBJECTS[subject];
}

const SUBJECTS = { bundle: 'Bundle', invocation: 'Invocation' } as const;

/**
 * A time for a message: Unix seconds, and in brackets as ISO 8601, which people can read.
 *
 * @example showTime(1_700_000_000); // '1700000000 (2023-11-14T22:13:20Z)'
 */
export function showTime(seconds: number | undefined): string {
  if (seconds === undefined) return 'missing';
  const date = new Date(seconds * 1000);
  // Claims may be later than any date of JavaScript.
  if (Number.isNaN(date.getTime())) return String(seconds);
  return `${seconds} (${date.toISOString().replace('.000Z', 'Z')})`;
}

const MAX_SHOWN = 160;

/**
 * A claimed value as JSON, cut to what a message can hold. It comes from the caller and may be large or deep, so no
 * more of it is read than is shown.
 *
 * @example show(['a', 1]); // '["a",1]'
 */
export function show(value: unknown): string {
  if (value === undefined) return 'missing';
  const text = preview(value, MAX_SHOWN);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

/** The JSON of a value, or its first characters, more than `limit` of them. If the limit is below 0, enough is shown. */
function preview(value: unknown, limit: number): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, Math.max(0, limit)));
  // A value that JSON does not have, or a toJSON method, can only come from a caller in this process.
  if (typeof value !== 'object' || value === null) return String(value);
  const isArray = Array.isArray(value);
  let text = isArray ? '[' : '{';
  const names = isArray ? null : Object.keys(value);
  const length = names === null ? (value as unknown[]).length : names.length;
  for (let at = 0; at < length; at++) {
    if (text.length > limit) return text;
    if (at > 0) text += ',';
    const name = names?.[at];
    if (name !== undefined) text += `${preview(name, limit - text.length)}:`;
    const item = (value as Record<string | number, unknown>)[name ?? at];
    text += item === undefined ? 'null' : preview(item, limit - text.length);
  }
  return text + (isArray ? ']' : '}');
}
