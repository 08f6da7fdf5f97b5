import fc from 'fast-check';
import { createPublicKey, sign, verify } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { compactVerify, importJWK } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseCompactJwt, type SignatureCheck } from '../../src/protocol/jwt.js';
import { InThreadVerifier, verifyEd25519 } from '../../src/signatures/in-thread.js';
import { PoolVerifier } from '../../src/signatures/pool.js';
import type { SignatureVerifier } from '../../src/signatures/signature-verifier.js';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { party, signJwt } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { readVectors } from '../support/vectors.js';
import { newKeyPair } from '../support/key-pair.js';

const NODE = Number(process.versions.node.split('.')[0]);

const spkiOf = (key: Buffer) =>
  createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: key.toString('base64url') }, format: 'jwk' });

const settle = async (verifier: SignatureVerifier, checks: readonly SignatureCheck[]) =>
  await verifier.verify(checks);

function checkOf(jwt: string, publicKey: Uint8Array): SignatureCheck {
  const parts = parseCompactJwt(jwt);
  if (parts.defect !== undefined) throw new Error(parts.defect);
  return { jwt, publicKey, signature: parts.signature, signingInputLength: parts.signingInputLength };
}

/** A key pair, and JWTs that it did and did not sign. */
class Signer {
  readonly #own = party();
  readonly #other = party();
  readonly #publicKey = publicKeyOf(this.#own.did) as Uint8Array;
  readonly #signed = new Map<string, SignatureCheck>();

  /** Signs each of them once. */
  jwts(count: number, isGood: (at: number) => boolean, payloadBytes = 200): SignatureCheck[] {
    return Array.from({ length: count }, (_, at) => {
      const name = `${at} ${isGood(at)} ${payloadBytes}`;
      const known = this.#signed.get(name);
      if (known !== undefined) return known;
      const payload = { at, pad: 'x'.repeat(payloadBytes) };
      const check = checkOf(signJwt(payload, isGood(at) ? this.#own : this.#other), this.#publicKey);
      this.#signed.set(name, check);
      return check;
    });
  }
}

/** For tests in which jobs need not differ in their key. */
const signer = new Signer();
const signedJwts: Signer['jwts'] = (count, isGood, payloadBytes) => signer.jwts(count, isGood, payloadBytes);

/** The bytes of a new public key, and what its private key signs. */
function keyAndSigner() {
  const { publicKey, privateKey } = newKeyPair();
  const key = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url');
  return { key, signatureOf: (text: string) => sign(null, Buffer.from(text), privateKey) };
}

/** These bytes, cut or filled with zeros to another length. */
const resized = (bytes: Uint8Array, length: number) =>
  Buffer.concat([bytes, Buffer.alloc(64)]).subarray(0, length);

describe('Ed25519', () => {
  it('agrees with node:crypto and jose on signed and changed messages', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.json(),
        fc.option(fc.tuple(fc.constantFrom(0, 1, 2), fc.nat())),
        async (payload, change) => {
          const { publicKey, privateKey } = newKeyPair();
          const jwk = publicKey.export({ format: 'jwk' });
          const segments = signJwt(`{"payload":${payload}}`, { did: '', key: privateKey }).split('.');
          if (change !== null) {
            const [at, bit] = change;
            const bytes = Buffer.from(segments[at] as string, 'base64url');
            const index = bit % (bytes.length * 8);
            bytes[index >> 3] = (bytes[index >> 3] as number) ^ (1 << (index & 7));
            segments[at] = bytes.toString('base64url');
          }
          const message = Buffer.from(`${segments[0]}.${segments[1]}`);
          const signature = Buffer.from(segments[2] as string, 'base64url');
          const verdict = verifyEd25519(signature, message, Buffer.from(jwk.x as string, 'base64url'));
          expect(verdict).toBe(verify(null, message, publicKey, signature));
          expect(verdict).toBe(change === null);
          const byJose = await compactVerify(segments.join('.'), await importJWK(jwk, 'EdDSA')).then(
            () => true,
            () => false,
          );
          expect(verdict).toBe(byJose);
        },
      ),
      { numRuns: 200 },
    );
  });

  it.each([
    ...[0, 1, 63, 65, 128].map((length) => ['signature', length] as const),
    ...[0, 31, 33].map((length) => ['key', length] as const),
  ])('refuses a %s of %i bytes', (what, length) => {
    const { key, signatureOf } = keyAndSigner();
    const signature = signatureOf('m');
    const isVerified =
      what === 'key'
        ? verifyEd25519(signature, Buffer.from('m'), resized(key, length))
        : verifyEd25519(resized(signature, length), Buffer.from('m'), key);
    expect(isVerified).toBe(false);
  });

  it('needs a copy of what is in shared memory, at which libsodium looks only from Node 22 on', () => {
    const { key, signatureOf } = keyAndSigner();
    const shared = Buffer.from(new SharedArrayBuffer(64));
    shared.set(signatureOf('m'));
    expect(verifyEd25519(shared, Buffer.from('m'), key)).toBe(NODE >= 22);
    expect(verifyEd25519(shared, Buffer.from('another'), key)).toBe(false);
    expect(verifyEd25519(Buffer.from(shared), Buffer.from('m'), key)).toBe(true);
  });

  it('refuses the small-order key under which OpenSSL accepts a forgery, before Node 24', () => {
    // The neutral element as key and as R, and S = 0: "valid" for every message unless small order is refused.
    const key = Buffer.from(`01${'00'.repeat(31)}`, 'hex');
    const signature = Buffer.concat([key, Buffer.alloc(32)]);
    expect(verify(null, Buffer.from('anything'), spkiOf(key), signature)).toBe(NODE < 24);
    expect(verifyEd25519(signature, Buffer.from('anything'), key)).toBe(false);
  });
});

it('agrees with the 88 valid and 63 invalid signatures of Wycheproof', () => {
  const counts = { valid: 0, invalid: 0 };
  const decode = (text: string) => Buffer.from(text, 'base64url');
  for (const { id, key, message, signature, valid } of readVectors('ed25519')) {
    expect([id, verifyEd25519(decode(signature), decode(message), decode(key))]).toEqual([id, valid]);
    counts[valid ? 'valid' : 'invalid']++;
  }
  expect(counts).toEqual({ valid: 88, invalid: 63 });
});

// Each job has a key of its own.
const JOBS = Array.from({ length: 60 }, (_, job) => {
  const isGood = (at: number) => (job + at) % 3 !== 0;
  const bytes = job % 40 === 0 ? 50_000 : (job * 37) % 900;
  const checks = new Signer().jwts(1 + (job % 19), isGood, bytes);
  return { checks, expected: checks.map((__, at) => isGood(at)) };
});

describe.each([
  ['in-thread', () => new InThreadVerifier()],
  ['a pool of one', () => new PoolVerifier(1)],
  ['a pool of three', () => new PoolVerifier(3)],
])('%s', (_, open) => {
  let verifier: SignatureVerifier;
  beforeAll(() => {
    verifier = open();
  });
  afterAll(() => verifier.close());

  it('tells each signature of many jobs apart, whatever their size and order', async () => {
    const before = verifier.stats;
    await Promise.all(
      JOBS.map(async ({ checks, expected }) => expect(await settle(verifier, checks)).toEqual(expected)),
    );
    const { pending, inThread, pooled } = verifier.stats;
    expect(pending).toBe(0);
    expect(inThread + pooled - before.inThread - before.pooled).toBe(
      JOBS.reduce((sum, { checks }) => sum + checks.length, 0),
    );
  });

  it('verifies what is larger than a slot', async () => {
    const checks = [...signedJwts(3, (at) => at !== 1, 300_000), ...signedJwts(2, () => true)];
    expect(await settle(verifier, checks)).toEqual([true, false, true, true, true]);
  });

  it('settles what was submitted before it closes', async () => {
    const closing = open();
    const settled = settle(
      closing,
      signedJwts(40, () => true),
    );
    await closing.close();
    expect(await settled).toEqual(Array(40).fill(true));
  });

  it('refuses signatures of any length but 64', async () => {
    const [good] = signedJwts(1, () => true) as [SignatureCheck];
    const others = [0, 63, 65, 128].map((length) => ({
      ...good,
      signature: resized(good.signature, length),
    }));
    expect(await settle(verifier, [good, ...others])).toEqual([true, false, false, false, false]);
  });
});

it('this thread refuses keys of any length but 32, and counts what it verified', () => {
  const verifier = new InThreadVerifier();
  const [good] = signedJwts(1, () => true) as [SignatureCheck];
  const others = [0, 31, 33].map((length) => ({ ...good, publicKey: resized(good.publicKey, length) }));
  expect(verifier.verify([good, ...others])).toEqual([true, false, false, false]);
  const nothing = { pending: 0, pooled: 0, batches: 0, repeated: 0, workers: 0 };
  expect([verifier.stats, verifier.waitMs]).toEqual([{ ...nothing, inThread: 4 }, 0]);
  expect(verifier.close()).toBeInstanceOf(Promise);
});

describe('a pool', () => {
  const cores = availableParallelism();
  const helping = ['inThread', 'pooled'] as const;
  const opened: PoolVerifier[] = [];
  const open = (...options: ConstructorParameters<typeof PoolVerifier>) => {
    const verifier = new PoolVerifier(...options);
    opened.push(verifier);
    return verifier;
  };
  afterEach(async () => {
    for (const verifier of opened.splice(0)) await verifier.close();
  });

  it.each([
    [4, true],
    [5, false],
  ])('that is idle has verified %i signatures by the time submit returns: %s', async (count, isAtOnce) => {
    const verifier = open(1);
    for (let bad = 0; bad < count; bad++) {
      const checks = signedJwts(count, (at) => at !== bad);
      const settled = settle(verifier, checks);
      expect(verifier.stats.pending).toBe(isAtOnce ? 0 : count);
      expect(await settled).toEqual(checks.map((_, at) => at !== bad));
      await nextTurn();
    }
  });

  it.each([
    // [workers, signatures of one job alone, where they are verified]
    [1, 17, cores > 1 ? helping : ['pooled']],
    [1, 40, cores > 1 ? helping : ['pooled']],
    [2, 17, cores > 2 ? helping : ['pooled']],
    [cores, 17, ['pooled']],
  ] as const)(
    'of %i tells %i signatures apart that come alone, verifying %j',
    async (workers, count, where) => {
      // A worker that a busy machine stops for seconds is not lost.
      const verifier = open(workers, {}, 60_000);
      // While a worker starts, this thread takes back all that it was handed.
      const many = signedJwts(40, () => true);
      await eventually(async () => {
        await settle(verifier, many);
        expect(verifier.stats.pooled).toBeGreaterThan(0);
      });
      const before = verifier.stats;
      const placesUsed = () => helping.filter((place) => verifier.stats[place] > before[place]);
      // It may go on so for a while where the system has other work for the worker's core.
      for (let bad = 0; bad < count || placesUsed().length < where.length; bad++) {
        const checks = signedJwts(count, (at) => at !== bad % count);
        expect(await settle(verifier, checks)).toEqual(checks.map((_, at) => at !== bad % count));
        await nextTurn();
        const { inThread, pooled } = verifier.stats;
        expect(inThread + pooled - before.inThread - before.pooled).toBe((bad + 1) * count);
      }
      expect(placesUsed()).toEqual(where);
    },
  );
});
