import { encodeBase64url, encodeUtf8 } from '#platform';
import { toJcs } from '../protocol/jcs.js';
import type { JsonValue } from '../protocol/json.js';
import { ISSUED_HEADER } from '../protocol/jwt.js';
import type { Subject } from '../verify/codes.js';
import { refusal } from './issue-error.js';
import { after, issueWith, signText, type AnySigner, type Eventual, type Signer } from './signer.js';
import type { SigningKey } from './signing-key.js';

/**
 * Signs any claims as a compact JWT without any check, for example to make receipts that a verifier must refuse. To
 * delegate and to invoke, use {@link issueRootDelegation}, {@link issueSubDelegation} and {@link issueInvocation}.
 *
 * @param claims the payload; it is written in RFC 8785 (JCS) form under the header `{"alg":"EdDSA","typ":"JWT"}`
 * @returns the JWT; for a {@link Signer}, a promise of it
 * @throws RangeError if the claims have no RFC 8785 form
 * @see RFC 7515 §3.1, RFC 8037 §3.1
 * @example const forged = signClaims({ ...claims, policy: { max_cost_usd: 1e6 } }, mallory);
 */
export function signClaims(claims: object, key: SigningKey): string;
export function signClaims(claims: object, key: Signer): Promise<string>;
export function signClaims(claims: object, key: AnySigner): Eventual<string>;
export function signClaims(claims: object, key: AnySigner): Eventual<string> {
  return issueWith(key, () => signInput(signingInputOf(claims), key));
}

/** Signs the claims of a receipt, or of an invocation, for a verifier to accept. Call it within {@link issueWith}. */
export function signReceipt(claims: object, key: AnySigner, subject: Subject): Eventual<string> {
  let input: string;
  try {
    input = signingInputOf(claims);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const code = subject === 'invocation' ? 'MALFORMED_INVOCATION' : 'MALFORMED_RECEIPT';
    throw refusal(code, { subject, reason: error.message });
  }
  return signInput(input, key);
}

function signingInputOf(claims: object): string {
  // The cast is safe: JCS only reads, and refuses at run time what JSON cannot express.
  return `${ISSUED_HEADER}.${encodeBase64url(encodeUtf8(toJcs(claims as JsonValue)))}`;
}

function signInput(input: string, key: AnySigner): Eventual<string> {
  return after(signText(key, input), (signature) => `${input}.${encodeBase64url(signature)}`);
}
