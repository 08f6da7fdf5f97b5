import { verifyAll } from '#ed25519';
import { encodeBase64url, encodeUtf8 } from '#platform';
import { bytesIn } from '../protocol/bytes.js';
import { didKeyOf } from '../protocol/did-key.js';
import { documentUrlOf } from '../protocol/did-web.js';
import { toJcs } from '../protocol/jcs.js';
import type { JsonValue } from '../protocol/json.js';
import { ISSUED_HEADER } from '../protocol/jwt.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { having } from '../protocol/options.js';
import { show, type Subject } from '../verify/codes.js';
import { invalidKey, refusal } from './issue-error.js';
import { issueOptions } from './options.js';

/**
 * An Ed25519 key that signs: in memory (`generateKey`), in WebCrypto, an agent, a token, a service. What it signs is verified.
 *
 * @example
 * const signer: Signer = { did: didOfJwk(jwk), sign: async (bytes) => (await kms.sign(keyId, bytes)).signature };
 */
export interface Signer {
  /** `did:key:z6Mk…` of the key, or the `did:web` that has it: see {@link signAs}. */
  readonly did: string;
  /** What the header says of the key: its identifier in the document of a `did:web`. */
  readonly kid?: string | undefined;
  /** The 32 bytes of the key, for a `did:web`. */
  readonly publicKey?: Uint8Array | undefined;
  /**
   * Signs bytes as they are (Ed25519, not Ed25519ph).
   *
   * @returns the 64 bytes of the signature
   */
  sign(bytes: Uint8Array): Promise<Uint8Array | ArrayBuffer> | Uint8Array | ArrayBuffer;
}

/** The option `key` of the functions that issue. */
export const SIGNER = {
  kind: having<Signer>('sign', 'a SigningKey or a Signer'),
  required: true,
  isSecret: true,
} as const;

/**
 * Signs any claims as a compact JWT without any check, for example to make receipts that a verifier must refuse. To
 * delegate and to invoke, use {@link issueRootDelegation}, {@link issueSubDelegation} and {@link issueInvocation}.
 *
 * @param claims the payload; it is written in RFC 8785 (JCS) form under the header `{"alg":"EdDSA","typ":"JWT"}`
 * @throws RangeError if the claims have no RFC 8785 form
 * @see RFC 7515 §3.1, RFC 8037 §3.1
 * @example const forged = await signClaims({ ...claims, policy: { max_cost_usd: 1e6 } }, mallory);
 */
export async function signClaims(claims: object, key: Signer): Promise<string> {
  issueOptions({ key }, { key: SIGNER });
  return signInput(signingInputOf(claims, key), key);
}

/**
 * The same key under another name: a `did:web`, whose document must have it for verifiers to accept what it signs.
 *
 * @param id the `did:web`, or with a fragment the identifier of the key in its document, which spares verifiers some work
 * @throws IssueError `INVALID_KEY` if it is none
 * @example const acme = signAs(importKey(jwk), 'did:web:acme.example#2027');
 */
export function signAs(key: Signer, id: string): Signer {
  const [did = '', fragment] = id.split(/#(.+)/s);
  const publicKey = DEFAULT_KEYS.publicKeyOf(key.did);
  if (publicKey === null || documentUrlOf(did) === null)
    throw invalidKey(
      `${show(key.did)} would sign as ${show(id)}, expected a did:key and a did:web`,
      'name it did:web:<host>, with #<key> where its document has several keys',
    );
  return { did, kid: fragment === undefined ? undefined : id, publicKey, sign: (bytes) => key.sign(bytes) };
}

/** Signs the claims of a receipt, or of an invocation, for a verifier to accept. */
export async function signReceipt(claims: object, key: Signer, subject: Subject): Promise<string> {
  let input: string;
  try {
    input = signingInputOf(claims, key);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const code = subject === 'invocation' ? 'MALFORMED_INVOCATION' : 'MALFORMED_RECEIPT';
    throw refusal(code, { subject, reason: error.message });
  }
  return signInput(input, key);
}

function signingInputOf(claims: object, { kid }: Signer): string {
  const header =
    kid === undefined ? ISSUED_HEADER : encodeBase64url(encodeUtf8(toJcs({ alg: 'EdDSA', kid, typ: 'JWT' })));
  // The cast is safe: JCS only reads, and refuses at run time what JSON cannot express.
  return `${header}.${encodeBase64url(encodeUtf8(toJcs(claims as JsonValue)))}`;
}

const SIGNATURE_BYTES = 64;

/**
 * Appends the signature to the signing input of a JWT.
 *
 * @throws IssueError `INVALID_KEY` if what the signer gives is not a signature of its own DID
 */
async function signInput(input: string, key: Signer): Promise<string> {
  const did: unknown = key.did;
  const own = typeof did === 'string' ? DEFAULT_KEYS.publicKeyOf(did) : null;
  const publicKey = own ?? (documentUrlOf(String(did)) && key.publicKey);
  if (!publicKey)
    throw invalidKey(
      `the did of the signer is ${JSON.stringify(String(did).slice(0, 100))}, expected ${DEFAULT_KEYS.expected}`,
      'make it with didOfJwk() from the public key',
    );
  const signed: unknown = await key.sign(encodeUtf8(input));
  const signature = bytesIn(signed);
  if (signature?.length !== SIGNATURE_BYTES) {
    const found = signature === null ? typeof signed : `${signature.length} bytes`;
    throw invalidKey(
      `the signer of ${key.did} gave ${found}, expected the ${SIGNATURE_BYTES} bytes of an Ed25519 signature`,
      'return the raw signature as a Uint8Array',
    );
  }
  const check = { jwt: input, signingInputLength: input.length, signature, publicKey };
  const [isItsOwn] = await verifyAll([check]);
  if (isItsOwn === true) return `${input}.${encodeBase64url(signature)}`;
  throw invalidKey(
    `the signer's signature does not verify under its did ${key.did}`,
    'give it the did of its own key, and sign the bytes as given',
  );
}

/** The two keys of an Ed25519 pair of WebCrypto. The private one need not be extractable. */
export interface WebKeyPair {
  readonly publicKey: Parameters<typeof crypto.subtle.sign>[1];
  readonly privateKey: Parameters<typeof crypto.subtle.sign>[1];
}

/**
 * A {@link Signer} over a key pair of WebCrypto, whose private key no script can read if it is not extractable.
 *
 * @param pair of the algorithm `Ed25519`, with the usages `sign` and `verify`; it can be kept in IndexedDB
 * @throws IssueError `INVALID_KEY` if it is of another algorithm
 * @example
 * const pair = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
 * const root = await issueRootDelegation({ ...delegation, key: await webCryptoSigner(pair) });
 */
export async function webCryptoSigner({ publicKey, privateKey }: WebKeyPair): Promise<Signer> {
  const names = [publicKey, privateKey].map(({ algorithm }) => algorithm.name).join(' and ');
  if (names !== 'Ed25519 and Ed25519')
    throw invalidKey(
      `the key pair is of ${names}, expected Ed25519`,
      'make it with crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])',
    );
  const did = didKeyOf(new Uint8Array(await crypto.subtle.exportKey('raw', publicKey)));
  return { did, sign: (bytes) => crypto.subtle.sign('Ed25519', privateKey, Uint8Array.from(bytes)) };
}
