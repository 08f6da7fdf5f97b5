import { CHAIN_CODES, Failure, rowsOf, type Details, type Row } from './codes.js';

// Apart from those of blocks A to E: whoever issues needs no more than these.

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

/** A code of block F, of the binding, or of replay protection. */
type LaterCode = (typeof LATER_CODES)[number]['code'];

const LATER_ROWS = rowsOf(LATER_CODES);

/** Why a bundle whose chain and invocation are in order is not valid all the same. */
export function laterFailure(code: LaterCode, details: Details): Failure {
  return new Failure(code, details, LATER_ROWS);
}

/**
 * Every code that a verdict can carry, in the order in which blocks check. A code belongs to one block;
 * `docs/codes.md` explains each under an anchor of the same name.
 */
export const CATALOGUE = [...CHAIN_CODES, ...LATER_CODES] as const;

/** A code of {@link CATALOGUE}. */
export type Code = (typeof CATALOGUE)[number]['code'];
