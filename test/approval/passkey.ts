import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import type { Assertion } from '../../src/approval/webauthn.js';
import type { Approver, PasskeyKey } from '../../src/verify/approval.js';

const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();

/** What a forger may put in place of what the browser and the authenticator say. */
export interface Said {
  readonly client?: Readonly<Record<string, unknown>>;
  /** The whole text. */
  readonly clientText?: string | Uint8Array;
  readonly rpId?: string;
  readonly flags?: number;
  readonly counter?: number;
  /** What follows the counter. */
  readonly rest?: Uint8Array;
}

/** Present and verified. */
const YES = 0x05;

/** A passkey in software: an approver, and what its authenticator signs. */
export class Passkey {
  readonly approver: Approver;
  readonly #privateKey: KeyObject;
  #counter = 0;

  constructor(kind: 'Ed25519' | 'P-256' | 'RSA' = 'Ed25519', approver: Partial<Approver> = {}) {
    const pair =
      kind === 'Ed25519'
        ? generateKeyPairSync('ed25519')
        : kind === 'P-256'
          ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
          : generateKeyPairSync('rsa', { modulusLength: 2048 });
    this.#privateKey = pair.privateKey;
    const key = pair.publicKey.export({ format: 'jwk' }) as PasskeyKey;
    const id = sha256(JSON.stringify(key)).subarray(0, 16).toString('base64url');
    this.approver = { name: 'Alice', id, key, origin: 'https://drs.example', ...approver };
  }

  assert(challenge: Uint8Array, said: Said = {}): Assertion {
    const { origin } = this.approver;
    const client = {
      type: 'webauthn.get',
      challenge: Buffer.from(challenge).toString('base64url'),
      origin,
      crossOrigin: false,
      ...said.client,
    };
    const clientDataJSON = Buffer.from(said.clientText ?? JSON.stringify(client));
    const { rpId = new URL(origin).hostname, flags = YES, counter = ++this.#counter, rest = [] } = said;
    const numbers = Buffer.alloc(5);
    numbers.writeUInt8(flags, 0);
    numbers.writeUInt32BE(counter, 1);
    const authenticatorData = Buffer.concat([sha256(rpId), numbers, Uint8Array.from(rest)]);
    return { clientDataJSON, authenticatorData, signature: this.sign(authenticatorData, clientDataJSON) };
  }

  sign(authenticatorData: Uint8Array, clientDataJSON: Uint8Array): Buffer {
    const message = Buffer.concat([authenticatorData, sha256(clientDataJSON)]);
    return sign(this.approver.key.kty === 'OKP' ? null : 'sha256', message, this.#privateKey);
  }
}
