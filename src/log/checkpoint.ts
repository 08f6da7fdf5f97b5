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
const SIGNATURE_BYTES = 64;

/** Tells keys of one name apart. */
const idOf = (name: string, key: Uint8Array): Buffer =>
  hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(ED25519), key]), 'buffer').subarray(
    0,
    ID_BYTES,
  );

const bodyOf = ({ origin, size, root }: Checkpoint): string => `${origin}\n${size}\n${encodeBase64(root)}\n`;

/** A key that signs checkpoints. It never shows its secret half. */
export interface NoteKey {
  readonly publicKey: Buffer;
  sign(message: Uint8Array): Buffer;
}

/** @param seed the 32 bytes of an Ed25519 seed in base64url */
export function noteKeyOf(seed: string): NoteKey {
  const publicKey = Buffer.alloc(sodium.crypto_sign_PUBLICKEYBYTES);
  const secretKey = sodium.sodium_malloc(sodium.crypto_sign_SECRETKEYBYTES);
  const bytes = Buffer.from(seed, 'base64url');
  sodium.crypto_sign_seed_keypair(publicKey, secretKey, bytes);
  bytes.fill(0);
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

const CHECKPOINT = /^([^\n]+)\n(0|[1-9]\d{0,15})\n([\w+/=]{44})\n$/;
/** More than a checkpoint with the signatures of sixteen witnesses. */
const MAX_NOTE = 16_384;

/**
 * The text of a signed note. Signatures of others, such as witnesses, may stand beside it.
 *
 * @param nameOf who must have signed it, by its text
 * @returns `null` if it is none, or this key has not signed it under that name
 */
export function readNote(
  note: string,
  publicKey: Uint8Array,
  nameOf: (text: string) => string | undefined,
): string | null {
  const end = note.lastIndexOf('\n\n') + 1;
  const text = note.slice(0, end);
  const name = nameOf(text);
  if (note.length > MAX_NOTE || name === undefined || !note.endsWith('\n')) return null;
  const id = idOf(name, publicKey);
  const isSigned = note
    .slice(end + 1, -1)
    .split('\n')
    .some((line) => {
      const start = `— ${name} `;
      const bytes = line.startsWith(start) ? decodeBase64(line.slice(start.length)) : null;
      if (bytes?.length !== ID_BYTES + SIGNATURE_BYTES || !id.equals(bytes.subarray(0, ID_BYTES)))
        return false;
      const signature = Buffer.from(bytes.subarray(ID_BYTES));
      return verifyEd25519(signature, Buffer.from(text), Buffer.from(publicKey));
    });
  return isSigned ? text : null;
}

/** Reads a checkpoint that a log has signed under its own name. Extension lines are refused: this log writes none. */
export function readCheckpoint(note: string, publicKey: Uint8Array): Checkpoint | null {
  const parts = (text: string) => CHECKPOINT.exec(text) ?? [];
  const text = readNote(note, publicKey, (of) => parts(of)[1]);
  if (text === null) return null;
  const [, origin = '', size, root64 = ''] = parts(text);
  const root = decodeBase64(root64);
  if (root?.length !== 32 || !Number.isSafeInteger(Number(size))) return null;
  return { origin, size: Number(size), root: Buffer.from(root) };
}
