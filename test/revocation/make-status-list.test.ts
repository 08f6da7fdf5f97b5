import { randomFillSync } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { compactVerify, importJWK } from 'jose';
import { describe, expect, test } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { generateKey } from '../../src/issue/signing-key.js';
import { isBitSet } from '../../src/revocation/lists/bitstring.js';
import {
  createStatusList,
  openStatusList,
  setRevoked,
  signStatusList,
  toCredential,
} from '../../src/revocation/lists/make-status-list.js';
import { readStatusList, resolveIssuer } from '../../src/revocation/lists/read-status-list.js';

const key = generateKey();
const id = 'https://lists.example/1';

describe('a list made here', () => {
  test('verifies with jose, and says what W3C wants it to say', async () => {
    const list = createStatusList({ id });
    for (const index of [0, 9, 94_567, 131_071]) setRevoked(list, index);
    setRevoked(list, 9, false);
    const validFrom = new Date('2026-01-01T00:00:00.500Z');
    const jwt = await signStatusList(list, {
      signer: key,
      validFrom,
      validUntil: new Date('2027-01-01T00:00:00Z'),
    });

    const { payload, protectedHeader } = await compactVerify(
      jwt,
      await importJWK({ ...key.toPublicJwk() }, 'EdDSA'),
    );
    expect(protectedHeader).toMatchObject({
      alg: 'EdDSA',
      typ: 'vc+jwt',
      cty: 'vc',
      kid: `${key.did}#${key.did.slice(8)}`,
    });
    const credential = JSON.parse(Buffer.from(payload).toString()) as {
      credentialSubject: { encodedList: string };
    };
    expect(credential).toMatchObject({
      '@context': ['https://www.w3.org/ns/credentials/v2'],
      id,
      type: ['VerifiableCredential', 'BitstringStatusListCredential'],
      issuer: key.did,
      validFrom: '2026-01-01T00:00:00Z',
      validUntil: '2027-01-01T00:00:00Z',
      credentialSubject: { id: `${id}#list`, type: 'BitstringStatusList', statusPurpose: 'revocation' },
    });
    const { encodedList } = credential.credentialSubject;
    expect(encodedList.startsWith('uH4sI')).toBe(true);
    const bits = gunzipSync(Buffer.from(encodedList.slice(1), 'base64url'));
    expect([bits.length, bits[0], bits[1], bits[16_383]]).toEqual([16_384, 0x80, 0, 1]);
  });

  test('is read by the verifier that pins its issuer, and can be taken up again', async () => {
    const list = createStatusList({ id, entries: 1024 });
    setRevoked(list, 7);
    const again = await openStatusList(`${await signStatusList(list, { signer: key })}\n`);
    expect(again.id).toBe(id);
    // In the same byte as 7, and in the next.
    for (const index of [2, 8, 3]) setRevoked(again, index);
    setRevoked(again, 3, false);
    const body = Buffer.from(await signStatusList(again, { signer: key }));
    const { bits } = await readStatusList(body, 'application/vc+jwt', {
      form: 'credential',
      issuer: resolveIssuer(key.did, DEFAULT_KEYS),
      nowMs: Date.now(),
    });
    expect(bits).toHaveLength(128);
    const revoked = Array.from({ length: 1024 }, (_, index) => index).filter((index) =>
      isBitSet(bits, index),
    );
    expect(revoked).toEqual([2, 7, 8]);
  });

  test('can be served unsigned', async () => {
    const list = createStatusList({ id });
    setRevoked(list, 5);
    const credential = await toCredential(list, { issuer: 'https://issuer.example' });
    expect(Object.keys(credential)).toEqual(['@context', 'id', 'type', 'issuer', 'credentialSubject']);
    const body = Buffer.from(JSON.stringify(credential));
    const { bits } = await readStatusList(body, 'application/vc', {
      form: 'credential',
      nowMs: Date.now(),
    });
    expect([isBitSet(bits, 5), isBitSet(bits, 6)]).toEqual([true, false]);
  });
});

test('what cannot be made is refused', async () => {
  for (const entries of [0, -8, 7, 1.5, Number.NaN, 2 ** 27 + 8]) {
    expect(() => createStatusList({ id, entries })).toThrow(
      new RangeError(
        `a status list cannot have ${entries} entries, expected a multiple of 8 up to 134217728`,
      ),
    );
  }
  expect(createStatusList({ id, entries: 2 ** 27 }).bits).toHaveLength(2 ** 24);
  const list = createStatusList({ id, entries: 16 });
  for (const index of [-1, 16, 0.5, 2 ** 32])
    expect(() => setRevoked(list, index)).toThrow(
      new RangeError(`the list has no entry ${index}, expected 0 … 15`),
    );
  const full = createStatusList({ id, entries: 2 ** 23 });
  randomFillSync(full.bits);
  await expect(signStatusList(full, { signer: key })).rejects.toThrow(
    /^the list has 1\d{6} bytes, expected fewer than 1048576$/,
  );
  await expect(openStatusList('{}')).rejects.toThrow(/the list is not a JWT: it has 1 segments/);
  const jwt = await signStatusList(createStatusList({ id, entries: 8 }), { signer: key });
  const [header, payload = '', signature] = jwt.split('.');
  const other = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
  const withId = (value: unknown) =>
    `${header}.${Buffer.from(JSON.stringify({ ...other, id: value })).toString('base64url')}.${signature}`;
  expect((await openStatusList(withId(7))).id).toBe('');
  expect((await openStatusList(withId('x'))).id).toBe('x');
});
