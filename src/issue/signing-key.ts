import { sodium } from '#ed25519';
import { decodeBase64url, encodeBase64url } from '#platform';
import { didKeyOf, PUBLIC_KEY_BYTES } from '../protocol/did-key.js';
import { isJsonObject } from '../protocol/json.js';
import { invalidKey } from './issue-error.js';
import type { Signer } from './signer.js';

const SEED_BYTES = 32;

/** An Ed25519 public key as a JWK; `kid` is its `did:key`. RFC 8037 §2 */
export interface PublicJwk {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly kid: string;
  /** The 32 bytes of the public key, base64url. */
  readonly x: string;
}

/** An Ed25519 private key as a JWK. Whoever has it can sign as its `kid`. RFC 8037 §2 */
export interface PrivateJwk extends PublicJwk {
  /** The 32 bytes of the seed, base64url. */
  readonly d: string;
}

/** An Ed25519 signing key. Only {@link SigningKey.toJwk} shows the secret; `console.log` and `JSON.stringify` do not. */
export class SigningKey implements Signer {
  /** `did:key:z6Mk…`, by which receipts name this key. */
  readonly did: string;
  /** 32 bytes. */
  readonly publicKey: Uint8Array = new Uint8Array(PUBLIC_KEY_BYTES);
  readonly #seed: Uint8Array;
  /** The seed and the public key, as libsodium keeps them. */
  readonly #secretKey = new Uint8Array(SEED_BYTES + PUBLIC_KEY_BYTES);

  /** @internal Use {@link generateKey} or {@link importKey}. */
  constructor(seed: Uint8Array) {
    this.#seed = Uint8Array.from(seed);
    // RFC 8032 §5.1.5
    sodium().crypto_sign_seed_keypair(this.publicKey, this.#secretKey, this.#seed);
    this.did = didKeyOf(this.publicKey);
  }

  /**
   * Signs bytes as they are.
   *
   * @returns the 64 bytes of the signature
   * @see RFC 8032 §5.1.6
   */
  sign(message: Uint8Array): Uint8Array {
    const signature = new Uint8Array(64);
    sodium().crypto_sign_detached(signature, message, this.#secretKey);
    return signature;
  }

  /** The private key as a JWK, to be stored where only its owner can read it. */
  toJwk(): PrivateJwk {
    return { ...this.toPublicJwk(), d: encodeBase64url(this.#seed) };
  }

  /** The public key as a JWK. */
  toPublicJwk(): PublicJwk {
    return { kty: 'OKP', crv: 'Ed25519', kid: this.did, x: encodeBase64url(this.publicKey) };
  }
}

/**
 * Makes a new Ed25519 key from the system's randomness.
 *
 * @example
 * const alice = generateKey();
 * await writeFile('alice.key', JSON.stringify(alice.toJwk()), { mode: 0o600, flag: 'wx' });
 */
export function generateKey(): SigningKey {
  const seed = new Uint8Array(SEED_BYTES);
  sodium().randombytes_buf(seed);
  return new SigningKey(seed);
}

/**
 * Reads a private key back from its JWK.
 *
 * @param jwk the parsed JSON. `x` must belong to `d`; `kid` and other members are ignored
 * @throws IssueError `INVALID_KEY`
 * @see RFC 8037 §2
 * @example const alice = importKey(JSON.parse(await readFile('alice.key', 'utf8')));
 */
export function importKey(jwk: unknown): SigningKey {
  const publicKey = readMember(jwk, 'x');
  const key = new SigningKey(readMember(jwk, 'd'));
  if (encodeBase64url(key.publicKey) !== encodeBase64url(publicKey))
    throw invalidKey(
      'the public key "x" of the JWK does not belong to its private key "d"',
      'use the key file as it was written, or generate a new key',
    );
  return key;
}

/**
 * The `did:key` of a JWK, public or private.
 *
 * @param jwk the parsed JSON
 * @throws IssueError `INVALID_KEY`
 * @example didOfJwk({ kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' });
 */
export function didOfJwk(jwk: unknown): string {
  return didKeyOf(readMember(jwk, 'x'));
}

function readMember(jwk: unknown, name: 'x' | 'd'): Uint8Array {
  const isKey = isJsonObject(jwk) && jwk['kty'] === 'OKP' && jwk['crv'] === 'Ed25519';
  const encoded = isKey ? jwk[name] : undefined;
  const bytes = typeof encoded === 'string' ? decodeBase64url(encoded) : null;
  if (bytes?.length === PUBLIC_KEY_BYTES) return bytes;
  const expected = `expected "kty": "OKP", "crv": "Ed25519" and "${name}", ${PUBLIC_KEY_BYTES} bytes in strict base64url`;
  throw invalidKey(
    isKey && encoded === undefined && name === 'd'
      ? `the JWK holds only a public key: ${expected}`
      : `this is not an Ed25519 key as a JWK: ${expected}`,
    'use the key file as `npx drs-verify keygen` wrote it, or make a key with generateKey()',
  );
}
