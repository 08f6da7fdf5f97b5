// The messages of an ssh-agent that are used here (draft-ietf-sshm-ssh-agent; formats of RFC 4251 §5 and RFC 8709).

/** The type of the keys that are used. */
export const KEY_TYPE = 'ssh-ed25519';

/** Maximum size of a message in bytes, as in OpenSSH. */
export const MAX_MESSAGE_BYTES = 256 * 1024;
const LENGTH_BYTES = 4;
const PUBLIC_KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;

/** Collects one answer of an agent. */
export class AgentReader {
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #expected = 0;

  /**
   * @returns the message without its length, as soon as all of it is there
   * @throws Error if it is empty, too long, or more than one
   */
  read(chunk: Buffer): Buffer | null {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size < LENGTH_BYTES) return null;
    if (this.#expected === 0) {
      const length = Buffer.concat(this.#chunks).readUInt32BE(0);
      if (length === 0 || length > MAX_MESSAGE_BYTES)
        throw new Error(`its answer has ${length} bytes, expected 1 to ${MAX_MESSAGE_BYTES}`);
      this.#expected = LENGTH_BYTES + length;
    }
    if (this.#size > this.#expected) throw new Error('its answer is longer than it says');
    return this.#size < this.#expected ? null : Buffer.concat(this.#chunks).subarray(LENGTH_BYTES);
  }
}

/** A text, or bytes, as a `string` of RFC 4251: its length in four bytes, then the bytes. Messages have the same form. */
export function stringOf(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** Reads the values of a message one after another. */
class Fields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  number(): number {
    return this.#take(LENGTH_BYTES).readUInt32BE(0);
  }

  string(): Buffer {
    return this.#take(this.number());
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw new Error('its answer goes on after its end');
  }

  #take(length: number): Buffer {
    if (length > this.#bytes.length - this.#at) throw new Error('its answer ends too early');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}

/** An Ed25519 key that an agent holds. */
export interface Identity {
  readonly publicKey: Buffer;
  /** Often an address, or the name of the key's file. */
  readonly comment: string;
}

/** The Ed25519 keys in the answer to a request for identities; others are left out. */
export function readIdentities(answer: Buffer): Identity[] {
  const fields = new Fields(answer);
  const found: Identity[] = [];
  // Each takes eight bytes at least, so the size of the answer bounds their number.
  for (let left = fields.number(); left > 0; left--) {
    const blob = fields.string();
    const comment = fields.string().toString('utf8');
    const publicKey = publicKeyIn(blob);
    if (publicKey !== null) found.push({ publicKey, comment });
  }
  fields.end();
  return found;
}

function publicKeyIn(blob: Buffer): Buffer | null {
  const fields = new Fields(blob);
  if (fields.string().toString('latin1') !== KEY_TYPE) return null;
  const key = fields.string();
  fields.end();
  if (key.length !== PUBLIC_KEY_BYTES)
    throw new Error(`a key of its answer has ${key.length} bytes, expected ${PUBLIC_KEY_BYTES}`);
  return key;
}

/** The Ed25519 signature in the answer to a request to sign. */
export function readSignature(answer: Buffer): Buffer {
  const outer = new Fields(answer);
  const inner = new Fields(outer.string());
  outer.end();
  const kind = inner.string().toString('latin1');
  const signature = inner.string();
  inner.end();
  if (kind === KEY_TYPE && signature.length === SIGNATURE_BYTES) return signature;
  throw new Error(`its signature is ${signature.length} bytes of ${JSON.stringify(kind.slice(0, 40))}`);
}
