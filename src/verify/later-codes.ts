import { CHAIN_CODES, Failure, rowsOf, type ChainCode, type Details, type Row } from './codes.js';

// Apart from those of `codes.ts`: whoever issues needs no more than these.

/** Codes of blocks A to E, each before the one of {@link CHAIN_CODES} that follows it in the catalogue. */
const CODES_BEFORE = {
  VERSION_MISMATCH: [
    {
      block: 'A',
      code: 'MALFORMED_BUNDLE',
      message: '{subject}: {member} is {claimed}, expected {expected}',
      suggestion:
        'Send a JSON object with bundle_version "4.0", receipts (an array of JWT strings, root first) and invocation (a JWT string).',
    },
  ],
  MALFORMED_RECEIPT: [
    {
      block: 'A',
      code: 'MISSING_INVOCATION',
      message: '{subject}: {member} is {claimed}, expected {expected}',
      suggestion:
        'Sign an invocation receipt for this call with the key of the last delegate and put it into invocation.',
    },
  ],
  DELEGATION_NOT_ALLOWED: [
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
  ],
  NOT_YET_VALID: [
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
  ],
} as const satisfies { readonly [Code in ChainCode]?: readonly Row[] };

const LATER_CODES = [
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
    message: '{subject}: drs_status_list_index is {claimed}, expected {expected}',
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

const BEFORE: { readonly [Code in ChainCode]?: readonly Before[] } = CODES_BEFORE;
type Before = (typeof CODES_BEFORE)[keyof typeof CODES_BEFORE][number];

/** A code that only a verifier raises. */
type LaterCode = (Before | (typeof LATER_CODES)[number])['code'];

const LATER_ROWS = rowsOf([...Object.values(CODES_BEFORE).flat(), ...LATER_CODES]);

/** Why a bundle is not valid, if it is for something that issuing does not meet. */
export function laterFailure(code: LaterCode, details: Details): Failure {
  return new Failure(code, details, LATER_ROWS);
}

/**
 * Every code that a verdict can carry, in the order in which blocks check. A code belongs to one block;
 * `docs/codes.md` explains each under an anchor of the same name.
 */
export const CATALOGUE = [
  ...CHAIN_CODES.flatMap((row) => [...(BEFORE[row.code] ?? []), row]),
  ...LATER_CODES,
] as const;

/** A code of {@link CATALOGUE}. */
export type Code = (typeof CATALOGUE)[number]['code'];
