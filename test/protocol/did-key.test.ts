import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { didKeyOf, publicKeyOf } from '../../src/protocol/did-key.js';
import { hasVectors, vectorPath } from '../support/vectors.js';

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

  it('tells more keys apart than it remembers, however often it is asked', () => {
    const keyOf = (at: number) => Buffer.alloc(32, `key ${at} `);
    const dids = Array.from({ length: 5000 }, (_, at) => didKeyOf(keyOf(at)));
    for (let round = 0; round < 2; round++) {
      for (const [at, did] of dids.entries())
        expect(keyOf(at).equals(publicKeyOf(did) ?? Buffer.alloc(0))).toBe(true);
    }
  });

  it('refuses a key of another length', () => {
    expect(() => didKeyOf(new Uint8Array(31))).toThrow(RangeError);
  });
});

describe.skipIf(!hasVectors)('did:key vectors (shared/vectors/06-did-key)', () => {
  interface Derived {
    readonly vectors: readonly { readonly name: string; readonly did: string; readonly expect: string }[];
  }
  const read = (file: string) => JSON.parse(readFileSync(vectorPath('06-did-key', file), 'utf8')) as unknown;
  const derived = hasVectors ? (read('derived-did-key.json') as Derived).vectors : [];

  it.each(derived)('$name', ({ did, expect: expected }) => {
    const key = publicKeyOf(did);
    if (/^[0-9a-f]{64}$/.test(expected)) expect(Buffer.from(key ?? []).toString('hex')).toBe(expected);
    else if (expected === 'reject') expect(key).toBeNull();
    else expect(key).toHaveLength(32);
  });

  it('resolves the Ed25519 keys of the specification', () => {
    const vectors = Object.entries(read('ed25519-x25519.json') as Record<string, SpecVector>);
    expect(vectors.length).toBeGreaterThanOrEqual(5);
    for (const [did, vector] of vectors) {
      const method = vector.didDocument.verificationMethod[0];
      const jwk = method?.publicKeyJwk;
      const expected = jwk ? Buffer.from(jwk.x, 'base64url') : null;
      const key = publicKeyOf(did);
      expect(key).toHaveLength(32);
      if (expected !== null) expect(Buffer.from(key ?? [])).toEqual(expected);
      expect(didKeyOf(key as Uint8Array)).toBe(did);
    }
  });

  it.each(['x25519.json', 'secp256k1.json', 'nist-curves.json'])('refuses the keys of %s', (file) => {
    const dids = Object.keys(read(file) as object);
    expect(dids.length).toBeGreaterThan(0);
    for (const did of dids) expect(publicKeyOf(did)).toBeNull();
  });
});

interface SpecVector {
  readonly didDocument: {
    readonly verificationMethod: readonly { readonly publicKeyJwk?: { readonly x: string } }[];
  };
}
