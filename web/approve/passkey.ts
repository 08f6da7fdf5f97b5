import { decodeBase64url, encodeBase64url } from '#platform';
import type { Approver, PasskeyKey } from '../../src/verify/approval.js';

const text = (bytes: ArrayBuffer) => encodeBase64url(new Uint8Array(bytes));

/** What a passkey signed, as a gate takes it. */
export interface Signed {
  readonly id: string;
  readonly clientDataJSON: string;
  readonly authenticatorData: string;
  readonly signature: string;
}

/**
 * Asks for a signature.
 *
 * @param ids those of passkeys that may sign
 */
export async function sign(challenge: BufferSource, ids: readonly string[]): Promise<Signed> {
  const credential = await navigator.credentials.get({
    publicKey: {
      challenge,
      rpId: location.hostname,
      allowCredentials: ids.map((id) => ({
        type: 'public-key',
        id: (decodeBase64url(id) ?? new Uint8Array()) as BufferSource,
      })),
      userVerification: 'required',
    },
  });
  const { id, response } = credential as PublicKeyCredential & { response: AuthenticatorAssertionResponse };
  return {
    id,
    clientDataJSON: text(response.clientDataJSON),
    authenticatorData: text(response.authenticatorData),
    signature: text(response.signature),
  };
}

const [ED25519, ES256, RS256] = [-8, -7, -257];
const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** Makes a passkey for this page. @returns what an operator needs to know of it */
export async function register(name: string): Promise<Approver> {
  const credential = await navigator.credentials.create({
    publicKey: {
      rp: { id: location.hostname, name: 'drs-verify: approve calls' },
      user: { id: random(16), name, displayName: name },
      challenge: random(32),
      pubKeyCredParams: [ED25519, ES256, RS256].map((alg) => ({ type: 'public-key', alg })),
      authenticatorSelection: { residentKey: 'preferred', userVerification: 'required' },
      attestation: 'none',
    },
  });
  const { id, response } = credential as PublicKeyCredential & { response: AuthenticatorAttestationResponse };
  const key = response.getPublicKey();
  if (key === null)
    throw new Error(
      'This browser cannot read the key of this passkey. Use another browser, or a security key.',
    );
  return { name, id, key: await keyOf(response.getPublicKeyAlgorithm(), key), origin: location.origin };
}

/** What precedes the 32 bytes of an Ed25519 key in its SPKI (RFC 8410). Not every WebCrypto knows such keys. */
const ED25519_SPKI_PREFIX = 12;

async function keyOf(algorithm: number, spki: ArrayBuffer): Promise<PasskeyKey> {
  if (algorithm === ED25519) return { kty: 'OKP', crv: 'Ed25519', x: text(spki.slice(ED25519_SPKI_PREFIX)) };
  const isEc = algorithm === ES256;
  const params = isEc
    ? { name: 'ECDSA', namedCurve: 'P-256' }
    : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  const { x, y, n, e } = (await crypto.subtle.exportKey(
    'jwk',
    await crypto.subtle.importKey('spki', spki, params, true, ['verify']),
  )) as Record<'x' | 'y' | 'n' | 'e', string>;
  return isEc ? { kty: 'EC', crv: 'P-256', x, y } : { kty: 'RSA', n, e };
}

/** Why there is no passkey, and what to do. */
export function wordsOf(error: unknown): string {
  const { name, message } = error as Error;
  if (error instanceof TypeError && !('PublicKeyCredential' in window))
    return 'This browser has no passkeys at this address. Open the page by its https: address, or in another browser.';
  if (name === 'NotAllowedError')
    return 'No passkey signed: it was cancelled, took too long, or is not on this device. Try again, or open the page on the device that has it.';
  if (name === 'SecurityError')
    return `Passkeys do not work at ${location.hostname}. Open the page by a name, not by a number.`;
  return message;
}
