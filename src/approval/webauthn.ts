import { Buffer } from 'node:buffer';
import { createPublicKey, hash, verify } from 'node:crypto';
import { decodeUtf8, encodeBase64url } from '#platform';
import { isJsonObject, parseStrictJson } from '../protocol/json.js';
import type { Reading } from '../protocol/options.js';
import { verifyEd25519 } from '../signatures/in-thread.js';
import type { Approver, PasskeyKey } from '../verify/approval.js';
import { show } from '../verify/codes.js';

/** What a page gets of `navigator.credentials.get()`: the members of its `response`. */
export interface Assertion {
  readonly clientDataJSON: Buffer;
  readonly authenticatorData: Buffer;
  readonly signature: Buffer;
}

/** Browsers write 150 bytes, and may add more. */
const MAX_CLIENT_DATA_BYTES = 4096;

/** The hash of the RP ID, the flags, and the counter. Credential data and extensions would follow. */
const AUTHENTICATOR_DATA_BYTES = 37;
const [FLAGS_AT, COUNTER_AT] = [32, 33];
const FLAGS = {
  present: 1,
  verified: 4,
  mayBeCopied: 8,
  isCopied: 16,
  hasCredential: 64,
  hasExtensions: 128,
};

const sha256 = (data: string | Uint8Array) => hash('sha256', data, 'buffer');

/**
 * Verifies what a passkey has signed. No library does it: of `@simplewebauthn/server` and `@oslojs/webauthn`, what an assertion needs is this
 * file, and the rest (CBOR, certificates, attestation) is larger than the approval of calls, and reads JSON that hides members.
 *
 * @returns the counter of signatures, or why it is no yes of this approver to this challenge
 * @see WebAuthn Level 3 §7.2; docs/spec/approval.md has what that leaves open
 */
export function checkAssertion(
  { clientDataJSON, authenticatorData, signature }: Assertion,
  { key, origin }: Approver,
  challenge: Uint8Array,
): Reading<number> {
  if (clientDataJSON.length > MAX_CLIENT_DATA_BYTES)
    return refused('clientDataJSON', `${clientDataJSON.length} bytes`, `at most ${MAX_CLIENT_DATA_BYTES}`);
  // First: nothing that it says counts before.
  const signed = Buffer.concat([authenticatorData, sha256(clientDataJSON)]);
  if (!isSignedBy(key, signed, signature)) return { problem: 'the signature is not one of this passkey' };
  const text = decodeUtf8(clientDataJSON);
  const client = text === null ? undefined : parseStrictJson(text).value;
  if (!isJsonObject(client)) return { problem: 'clientDataJSON is no object in strict JSON' };
  const wanted = { type: 'webauthn.get', challenge: encodeBase64url(challenge), origin };
  for (const [member, expected] of Object.entries(wanted))
    if (client[member] !== expected) return refused(member, show(client[member]), show(expected));
  const { crossOrigin, topOrigin } = client;
  if (crossOrigin !== undefined && crossOrigin !== false)
    return refused('crossOrigin', show(crossOrigin), 'a page that is not framed');
  if (topOrigin !== undefined) return refused('topOrigin', show(topOrigin), 'a page that is not framed');

  const rpId = new URL(origin).hostname;
  if (!authenticatorData.subarray(0, FLAGS_AT).equals(sha256(rpId)))
    return { problem: `the RP ID is another one, expected ${rpId}` };
  const has = (flag: keyof typeof FLAGS) => ((authenticatorData[FLAGS_AT] ?? 0) & FLAGS[flag]) !== 0;
  if (!has('present')) return { problem: 'the user was not present (UP), expected a touch' };
  if (!has('verified'))
    return { problem: 'the user was not verified (UV), expected a PIN, a finger or a face' };
  if (has('isCopied') && !has('mayBeCopied'))
    return { problem: 'the passkey is backed up (BS) and may not be (BE)' };
  const { length } = authenticatorData;
  if (has('hasCredential') || has('hasExtensions') || length !== AUTHENTICATOR_DATA_BYTES)
    return refused('authenticatorData', `${length} bytes`, `${AUTHENTICATOR_DATA_BYTES}, without extensions`);
  return { value: authenticatorData.readUInt32BE(COUNTER_AT) };
}

function refused(member: string, found: string, expected: string) {
  return { problem: `${member} is ${found}, expected ${expected}` };
}

function isSignedBy(key: PasskeyKey, message: Buffer, signature: Buffer): boolean {
  if (key.kty === 'OKP') return verifyEd25519(signature, message, Buffer.from(key.x, 'base64url'));
  const publicKey = createPublicKey({ key, format: 'jwk' });
  // Of RSA, PKCS #1 v1.5 is the default.
  if (key.kty === 'RSA') return verify('sha256', message, publicKey, signature);
  const raw = rawOf(signature);
  return raw !== null && verify('sha256', message, { key: publicKey, dsaEncoding: 'ieee-p1363' }, raw);
}

const [SEQUENCE, INTEGER] = [0x30, 0x02];
const COORDINATE_BYTES = 32;

/**
 * The two numbers of a signature of P-256 from its DER. Only one text is right: other readers of DER take superfluous
 * zeros and bytes at the end, and then one signature has many forms.
 *
 * @returns each in 32 bytes, or `null` if it is anything else
 */
function rawOf(der: Buffer): Buffer | null {
  // A length of more than 127 bytes has another form, and no such signature has it.
  if (der[0] !== SEQUENCE || der[1] !== der.length - 2) return null;
  const raw = Buffer.alloc(2 * COORDINATE_BYTES);
  let at = 2;
  for (const end of [COORDINATE_BYTES, raw.length]) {
    const length = der[at + 1] ?? 0;
    const value = der.subarray(at + 2, at + 2 + length);
    const [first = 0, second = 0] = value;
    if (der[at] !== INTEGER || value.length !== length || first >= 0x80) return null;
    // A zero stands only in front of what would be negative without it.
    if (first === 0 && second < 0x80) return null;
    const digits = first === 0 ? value.subarray(1) : value;
    if (digits.length > COORDINATE_BYTES) return null;
    raw.set(digits, end - digits.length);
    at += 2 + length;
  }
  return at === der.length ? raw : null;
}
