import { randomFillSync } from 'node:crypto';
import { gunzipSync, inflateSync } from 'node:zlib';
import { compactVerify, importJWK } from 'jose';
import { expect, test } from 'vitest';
import { generateKey } from '../../src/issue/signing-key.js';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { resolveIssuer } from '../../src/revocation/lists/list-issuer.js';
import { readTokenList } from '../../src/revocation/lists/read-token-list.js';
import { valueAt } from '../../src/revocation/lists/bitstring.js';
import {
  createStatusList,
  DEFAULT_STATUS_LIST_ENTRIES,
  openStatusList,
  setRevoked,
  signStatusList,
} from '../../src/revocation/lists/make-status-list.js';
import { readStatusList } from '../../src/revocation/lists/read-status-list.js';

const key = generateKey();
const id = 'https://lists.example/1';
const SIGNED = { signer: key, validFrom: new Date('2026-01-01T00:00:00.500Z') };

test('a list made here verifies with jose, and says what W3C wants it to say', async () => {
  const list = createStatusList({ id, entries: DEFAULT_STATUS_LIST_ENTRIES });
  for (const index of [0, 9, 94_567, 131_071]) setRevoked(list, index);
  setRevoked(list, 9, false);
  const jwt = await signStatusList(list, { ...SIGNED, validUntil: new Date('2027-01-01T00:00:00Z') });

  const publicKey = await importJWK({ ...key.toPublicJwk() }, 'EdDSA');
  const { payload, protectedHeader } = await compactVerify(jwt, publicKey);
  const kid = `${key.did}#${key.did.slice(8)}`;
  expect(protectedHeader).toEqual({ alg: 'EdDSA', typ: 'vc+jwt', cty: 'vc', kid });
  const credential = JSON.parse(Buffer.from(payload).toString()) as {
    credentialSubject: { encodedList: string };
  };
  const { encodedList } = credential.credentialSubject;
  expect(credential).toEqual({
    '@context': ['https://www.w3.org/ns/credentials/v2'],
    id,
    type: ['VerifiableCredential', 'BitstringStatusListCredential'],
    issuer: key.did,
    validFrom: '2026-01-01T00:00:00Z',
    validUntil: '2027-01-01T00:00:00Z',
    credentialSubject: {
      id: `${id}#list`,
      type: 'BitstringStatusList',
      statusPurpose: 'revocation',
      encodedList,
    },
  });
  expect(encodedList.startsWith('uH4sI')).toBe(true);
  const bits = gunzipSync(Buffer.from(encodedList.slice(1), 'base64url'));
  expect([bits.length, bits[0], bits[1], bits[16_383]]).toEqual([16_384, 0x80, 0, 1]);
});

test('a list is read by the verifier that pins its issuer, and can be taken up again', async () => {
  const list = createStatusList({ id, entries: 1024 });
  setRevoked(list, 7);
  const again = await openStatusList(`${await signStatusList(list, SIGNED)}\n`);
  expect([again.id, again.issuer]).toEqual([id, key.did]);
  // In the same byte as 7, and in the next.
  for (const index of [2, 8, 3]) setRevoked(again, index);
  setRevoked(again, 3, false);
  const body = Buffer.from(await signStatusList(again, SIGNED));
  const options = { form: 'credential', id, issuer: key.did, nowMs: Date.now() } as const;
  const { bits } = await readStatusList(body, 'application/vc+jwt', options);
  expect(bits).toHaveLength(128);
  const all = Array.from({ length: 1024 }, (_, index) => index);
  expect(all.filter((index) => valueAt({ bits, tokenBits: null }, index) === 1)).toEqual([2, 7, 8]);
});

test('a Token Status List made here verifies with jose, is read by the verifier, and can be taken up again', async () => {
  const list = createStatusList({ id, entries: 1024, form: 'token' });
  for (const index of [0, 9, 1023]) setRevoked(list, index);
  setRevoked(list, 9, false);
  const jwt = await signStatusList(list, { ...SIGNED, validUntil: new Date('2027-01-01T00:00:00Z') });
  const { payload, protectedHeader } = await compactVerify(
    jwt,
    await importJWK({ ...key.toPublicJwk() }, 'EdDSA'),
  );
  const kid = `${key.did}#${key.did.slice(8)}`;
  expect(protectedHeader).toEqual({ alg: 'EdDSA', typ: 'statuslist+jwt', kid });
  const claims = JSON.parse(Buffer.from(payload).toString()) as { status_list: { lst: string } };
  const { lst } = claims.status_list;
  const times = { iat: 1_767_225_600, exp: 1_798_761_600 };
  expect(claims).toEqual({ iss: key.did, sub: id, ...times, status_list: { bits: 1, lst } });
  const bits = inflateSync(Buffer.from(lst, 'base64url'));
  expect([bits.length, bits[0], bits[1], bits[127]]).toEqual([128, 1, 0, 0x80]);

  const again = await openStatusList(`${jwt}\n`);
  expect([again.id, again.issuer, again.tokenBits]).toEqual([id, key.did, 1]);
  setRevoked(again, 1);
  const issuer = resolveIssuer(key.did, DEFAULT_KEYS);
  const body = Buffer.from(await signStatusList(again, SIGNED));
  const read = await readTokenList(body, {
    name: id,
    issuer,
    maxBytes: 128,
    nowMs: Date.now(),
    clockSkewSecs: 30,
  });
  const all = Array.from({ length: 1024 }, (_, index) => index);
  expect(all.filter((index) => valueAt(read, index) === 1)).toEqual([0, 1, 1023]);
});

test.each([2, 4, 8])(
  'entries of %i bits, which others made, can be revoked and reinstated',
  async (tokenBits) => {
    const list = { id, bits: Buffer.alloc(8, 0xff), tokenBits };
    setRevoked(list, 3);
    setRevoked(list, 4, false);
    const again = await openStatusList(await signStatusList(list, SIGNED));
    const most = 2 ** tokenBits - 1;
    expect([2, 3, 4, 5].map((index) => valueAt(again, index))).toEqual([most, 1, 0, most]);
  },
);

test('what cannot be made is refused', async () => {
  for (const entries of [0, -8, 7, 1.5, Number.NaN, 2 ** 27 + 8]) {
    const message = `a status list cannot have ${entries} entries, expected a multiple of 8 up to 134217728`;
    expect(() => createStatusList({ id, entries })).toThrow(new RangeError(message));
  }
  expect(createStatusList({ id, entries: 2 ** 27 }).bits).toHaveLength(2 ** 24);
  // Such a list is one of a root.
  expect(() => createStatusList({ id, entries: 2 ** 25 + 8, form: 'token' })).toThrow('up to 33554432');
  const list = createStatusList({ id, entries: 16 });
  for (const index of [-1, 16, 0.5, 2 ** 32]) {
    const message = `the list has no entry ${index}, expected 0 … 15`;
    expect(() => setRevoked(list, index)).toThrow(new RangeError(message));
  }
  const full = createStatusList({ id, entries: 2 ** 23 });
  randomFillSync(full.bits);
  const tooLong = /^the list has 1\d{6} bytes, expected fewer than 1048576$/;
  await expect(signStatusList(full, SIGNED)).rejects.toThrow(tooLong);
  await expect(openStatusList('{}')).rejects.toThrow(/the list is not a JWT: it has 1 segments/);
});
