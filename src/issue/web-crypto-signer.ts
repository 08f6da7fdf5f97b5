import { didKeyOf } from '../protocol/did-key.js';
import { IssueError } from './issue-error.js';
import type { Signer } from './signer.js';

/** A key as WebCrypto hands it out. */
type WebKey = Parameters<typeof crypto.subtle.sign>[1];

/** The two keys of an Ed25519 pair of WebCrypto. The private one need not be extractable. */
export interface WebKeyPair {
  readonly publicKey: WebKey;
  readonly privateKey: WebKey;
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
  const names = [publicKey, privateKey].map(({ algorithm }) => algorithm.name);
  if (names.some((name) => name !== 'Ed25519')) {
    throw new IssueError(
      'INVALID_KEY',
      `the key pair is of ${names.join(' and ')}, expected Ed25519`,
      'make it with crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])',
    );
  }
  const did = didKeyOf(new Uint8Array(await crypto.subtle.exportKey('raw', publicKey)));
  return {
    did,
    sign: async (bytes) =>
      new Uint8Array(await crypto.subtle.sign('Ed25519', privateKey, Uint8Array.from(bytes))),
  };
}
