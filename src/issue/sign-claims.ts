import { encodeBase64url } from '../protocol/base64url.js';
import { toJcs } from '../protocol/jcs.js';
import type { JsonValue } from '../protocol/json.js';
import { ISSUED_HEADER } from '../protocol/jwt.js';
import type { SigningKey } from './signing-key.js';

/**
 * Signs any claims as a compact JWT without any check, for example to make receipts that a verifier must refuse. To
 * delegate and to invoke, use {@link issueRootDelegation}, {@link issueSubDelegation} and {@link issueInvocation}.
 *
 * @param claims the payload; it is written in RFC 8785 (JCS) form under the header `{"alg":"EdDSA","typ":"JWT"}`
 * @throws RangeError if the claims have no RFC 8785 form
 * @see RFC 7515 §3.1, RFC 8037 §3.1
 * @example const forged = signClaims({ ...claims, policy: { max_cost_usd: 1e6 } }, mallory);
 */
export function signClaims(claims: object, key: SigningKey): string {
  // The cast is safe: JCS only reads, and refuses at run time what JSON cannot express.
  const payload = toJcs(claims as JsonValue);
  const signingInput = `${ISSUED_HEADER}.${encodeBase64url(Buffer.from(payload, 'utf8'))}`;
  return `${signingInput}.${encodeBase64url(key.sign(Buffer.from(signingInput, 'latin1')))}`;
}
