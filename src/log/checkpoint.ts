import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';
import { decodeBase64, encodeBase64 } from '#platform';
import { verifyEd25519 } from '../signatures/in-thread.js';
import { sodium } from '../signatures/sodium.js';

/** What a checkpoint says of a log: https://c2sp.org/tlog-checkpoint. */
export interface Checkpoint {
  /** Names the log, and the key. */
  readonly origin: string;
  readonly size: number;
  readonly root: Buffer;
}

/** The type of Ed25519 keys in a signed note: https://c2sp.org/signed-note. */
const ED25519 = 1;
const ID_BYTES = 4;

/** Tells keys of one name apart. */
const idOf = (name: string, key: Uint8Array): Buffer =>
  hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(ED25519), key]), 'buffer').subarray(
    0,
    ID_BYTES,
  );

const bodyOf = ({ origin, size, root }: Checkpoint): string => `${origin}\n${size}\n${encodeBase64(root)}\n`;

/** The names that a signature line can have: without spaces, and without the plus sign, after which a key would follow. */
export const isOrigin = (text: string): boolean => /^[^\s+\p{C}]{1,200}$/u.test(text);

/** A key that signs checkpoints. It never shows its secret half. */
export interface NoteKey {
  readonly publicKey: Buffer;
  sign(message: Uint8Array): Buffer;
}

/** @param seed 32 bytes, which are overwritten */
export function noteKeyOf(seed: Uint8Array): NoteKey {
  const publicKey = Buffer.alloc(sodium.crypto_sign_PUBLICKEYBYTES);
  const secretKey = sodium.sodium_malloc(sodium.crypto_sign_SECRETKEYBYTES);
  sodium.crypto_sign_seed_keypair(publicKey, secretKey, Buffer.from(seed));
  seed.fill(0);
  return {
    publicKey,
    sign: (message) => {
      const signature = Buffer.alloc(sodium.crypto_sign_BYTES);
      sodium.crypto_sign_detached(signature, Buffer.from(message), secretKey);
      return signature;
    },
  };
}

/** A checkpoint as a signed note. */
export function noteOf(checkpoint: Checkpoint, key: NoteKey): string {
  const body = bodyOf(checkpoint);
  const signature = Buffer.concat([idOf(checkpoint.origin, key.publicKey), key.sign(Buffer.from(body))]);
  return `${body}\n— ${checkpoint.origin} ${encodeBase64(signature)}\n`;
}

const NOTE = /^([^\n]+)\n(0|[1-9]\d{0,15})\n([\w+/=]{44})\n\n((?:— [^ \n]+ [\w+/=]+\n)+)$/;

/**
 * Reads a signed note. Signatures of others, such as witnesses, may stand beside it. Extension lines are refused: this log writes none.
 *
 * @returns `null` if it is none, or has no signature of this key under the name of its log
 */
export function readNote(note: string, publicKey: Uint8Array): Checkpoint | null {
  const [, origin = '', size = '', root64 = '', lines = ''] = NOTE.exec(note) ?? [];
  const root = decodeBase64(root64);
  if (root?.length !== 32 || !isOrigin(origin) || !Number.isSafeInteger(Number(size))) return null;
  const checkpoint = { origin, size: Number(size), root: Buffer.from(root) };
  const id = idOf(origin, publicKey);
  const isSigned = lines.split('\n').some((line) => {
    const [, name, text = ''] = line.split(' ');
    const bytes = name === origin ? decodeBase64(text) : null;
    if (bytes?.length !== ID_BYTES + 64 || !id.equals(bytes.subarray(0, ID_BYTES))) return false;
    return verifyEd25519(
      Buffer.from(bytes.subarray(ID_BYTES)),
      Buffer.from(bodyOf(checkpoint)),
      Buffer.from(publicKey),
    );
  });
  return isSigned ? checkpoint : null;
}
