import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { base58 } from '@scure/base';
import { didKeyOf, publicKeyOf } from '../../src/protocol/did-key.js';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { readVectors } from '../support/vectors.js';

describe('did:key', () => {
  it('names a key and gives it back', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (key) => {
        const did = didKeyOf(key);
        expect(did).toHaveLength(56);
        expect(Buffer.from(publicKeyOf(did) ?? [])).toEqual(Buffer.from(key));
      }),
    );
  });

  it('refuses every single changed character, or names another key', () => {
    const did = didKeyOf(new Uint8Array(32).fill(7));
    fc.assert(
      fc.property(
        fc.nat(did.length - 1),
        fc.string({ minLength: 1, maxLength: 1, unit: 'binary-ascii' }),
        (at, character) => {
          fc.pre(did[at] !== character);
          const key = publicKeyOf(did.slice(0, at) + character + did.slice(at + 1));
          expect(key === null || !Buffer.from(key).equals(Buffer.alloc(32, 7))).toBe(true);
        },
      ),
    );
  });

  it('refuses a key of another kind', () => {
    const did = (...kind: number[]) =>
      `did:key:z${base58.encode(Uint8Array.of(...kind, ...Buffer.alloc(32, 7)))}`;
    expect(publicKeyOf(did(0xed, 0x01))).toHaveLength(32);
    // Each is as long as that of an Ed25519 key.
    for (const other of [did(0xec, 0x01), did(0xed, 0x02)]) {
      expect(other).toHaveLength(56);
      expect(publicKeyOf(other)).toBeNull();
    }
  });

  it('names itself in a proof', () => {
    expect(DEFAULT_KEYS.verificationMethodOf('did:key:zAbc')).toBe('did:key:zAbc#zAbc');
  });

  it('refuses a key of another length', () => {
    expect(() => didKeyOf(new Uint8Array(31))).toThrow(
      new RangeError('an Ed25519 public key has 32 bytes; this one has 31'),
    );
  });
});

describe('did:key vectors', () => {
  const vectors = readVectors('did-key');

  it.each(vectors)('$did names $key', ({ did: start, key: expected, times = 0 }) => {
    const did = start + 'z'.repeat(times);
    const key = publicKeyOf(did);
    expect(key && Buffer.from(key).toString('hex')).toBe(expected);
    if (key !== null) expect(didKeyOf(key)).toBe(did);
  });

  it('hold keys that resolve and keys that must not, from W3C and from here', () => {
    const count = (from: string, resolves: boolean) =>
      vectors.filter((vector) => vector.from === from && (vector.key !== null) === resolves).length;
    expect([count('w3c', true), count('w3c', false), count('here', true), count('here', false)]).toEqual([
      5, 17, 16, 25,
    ]);
  });
});
