import type { Verdict, VerdictError } from '../verifier/verdict.js';
import type { Binding } from '../verify/binding.js';
import type { Code, Failure } from '../verify/codes.js';

/** The body of an answer to a refused call. Decisions section 7 */
export type RefusalBody =
  /** There is no verdict: nothing could be judged. */
  | { readonly error: string; readonly code: RefusalCode }
  /** The verdict on a chain that is not valid, or on an invocation that was used before. */
  | { readonly valid: false; readonly error: VerdictError }
  /** The chain is valid, but for another call. */
  | {
      readonly valid: true;
      readonly binding: Exclude<Binding, 'match'>;
      readonly error: {
        readonly code: 'BINDING_MISMATCH';
        readonly message: string;
        readonly suggestion: string;
      };
    };

/** Why a call was refused before there was a verdict. */
export type RefusalCode = 'MISSING_BUNDLE' | 'MALFORMED_BUNDLE' | 'BODY_TOO_LARGE' | 'VERIFIER_UNAVAILABLE';

/** Why a call is not handed to its handler. */
export interface Refusal {
  /** As over HTTP, also where the call came another way. */
  readonly status: 400 | 401 | 403 | 409 | 413 | 503;
  readonly body: RefusalBody;
}

/** The message of a refusal, for a person. */
export function messageOf({ body }: Refusal): string {
  return typeof body.error === 'string' ? body.error : `${body.error.code}: ${body.error.message}`;
}

/** The header in which bundles come, as it is written. */
export const BUNDLE_HEADER = 'X-DRS-Bundle';

/** No bundle. */
export function missingBundle(where: string): Refusal {
  const error = `${where}: send the bundle of this call, base64url-encoded`;
  return { status: 401, body: { error, code: 'MISSING_BUNDLE' } };
}

/** A bundle that cannot be decoded. */
export function malformedBundle(reason: string): Refusal {
  return { status: 400, body: { error: reason, code: 'MALFORMED_BUNDLE' } };
}

/** More body than is read. */
export function bodyTooLarge(most: number): Refusal {
  const error = `the body is larger than ${most} bytes; send less, or have maxBodyBytes raised`;
  return { status: 413, body: { error, code: 'BODY_TOO_LARGE' } };
}

/** No verdict could be had. The reason is the operator's, and goes to `onError`. */
export function verifierUnavailable(): Refusal {
  const error = 'the call could not be verified, which says nothing about it; try again in a moment';
  return { status: 503, body: { error, code: 'VERIFIER_UNAVAILABLE' } };
}

/** A verdict that is not valid. */
export function invalidVerdict({ error }: Extract<Verdict, { valid: false }>): Refusal {
  return { status: statusOf(error.code), body: { valid: false, error } };
}

/** A failure that was found here, in the form of a verdict. */
export function failed({ code, message, suggestion }: Failure): Refusal {
  return invalidVerdict({ valid: false, error: { code, message, suggestion } });
}

/** A valid bundle that was signed for another call. */
export function bindingMismatch(binding: Exclude<Binding, 'match'>, reason: string): Refusal {
  const suggestion = 'Sign the invocation with the arguments of this very call, and send them unaltered.';
  return {
    status: 403,
    body: { valid: true, binding, error: { code: 'BINDING_MISMATCH', message: reason, suggestion } },
  };
}

function statusOf(code: Code): Refusal['status'] {
  switch (code) {
    case 'REPLAY_DETECTED':
    case 'INVOCATION_STALE':
      return 409;
    case 'REPLAY_STORE_UNAVAILABLE':
      return 503;
    default:
      return 403;
  }
}
