import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { generateKeyPair, CompactSign } from 'jose';
import { describe, expect, test } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { readStatusList, resolveIssuer } from '../../src/revocation/lists/read-status-list.js';
import { isBitSet } from '../../src/revocation/lists/bitstring.js';
import { findProofDefect } from '../../src/revocation/lists/data-integrity.js';
import { base58 } from '@scure/base';
import { bitsWith, credentialWith, encode, newIssuer, toJwt, withProof } from './lists.js';

const NOW = Date.parse('2026-06-01T12:00:00Z');
const issuer = newIssuer();
const mallory = newIssuer();
const signed = (revoked: number[], changes = {}) =>
  credentialWith(revoked, { issuer: issuer.did, ...changes });

function read(contentType: string, body: unknown, pinned?: string) {
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const issuer = pinned === undefined ? undefined : resolveIssuer(pinned, DEFAULT_KEYS);
  return readStatusList(bytes, contentType, { issuer, nowMs: NOW });
}

async function revokedIn(contentType: string, body: unknown, pinned?: string): Promise<number[]> {
  const { bits, entries } = await read(contentType, body, pinned);
  return Array.from({ length: entries }, (_, index) => index).filter((index) => isBitSet(bits, index));
}

describe('every form of a status list', () => {
  test.each([
    'application/vc',
    'application/json',
    'application/vc+ld+json; charset=utf-8',
    'Application/LD+JSON',
    ' application/vc ;v=2',
  ])('a credential as %s', async (type) => {
    expect(await revokedIn(type, credentialWith([0, 7, 8, 131_071]))).toEqual([0, 7, 8, 131_071]);
  });

  test('the older form: StatusList2021, encodedList without "u", in base64url or base64', async () => {
    const bits = bitsWith([5, 94_567]);
    for (const encodedList of [gzipSync(bits).toString('base64url'), gzipSync(bits).toString('base64')]) {
      const credential = credentialWith([], {
        type: ['VerifiableCredential', 'StatusList2021Credential'],
        issuanceDate: '2026-01-01T00:00:00Z',
        credentialSubject: { type: 'StatusList2021', encodedList },
      });
      expect(await revokedIn('application/json', credential)).toEqual([5, 94_567]);
    }
  });

  test('the older form with both digits that base64 has of its own, and with each padding', async () => {
    const seen = new Set<string>();
    for (let bytes = 64; seen.size < 5; bytes++) {
      const bits = randomBytes(bytes);
      const encodedList = gzipSync(bits).toString('base64');
      const list = await read('application/vc', credentialWith([], { credentialSubject: { encodedList } }));
      expect(list.bits.equals(bits)).toBe(true);
      for (const digit of ['+', '/']) if (encodedList.includes(digit)) seen.add(digit);
      seen.add(`padding ${encodedList.replace(/[^=]/g, '').length}`);
    }
  });

  test('the example list of the specification is all zeros', async () => {
    const encodedList = 'uH4sIAAAAAAAAA-3BMQEAAADCoPVPbQwfoAAAAAAAAAAAAAAAAAAAAIC3AYbSVKsAQAAA';
    const list = await read('application/vc', credentialWith([], { credentialSubject: { encodedList } }));
    expect(list.bits.equals(Buffer.alloc(16_384))).toBe(true);
  });

  test.each(['application/vc+jwt', 'application/jwt'])('a credential signed by jose, as %s', async (type) => {
    const jwt = await toJwt(signed([3, 999]), issuer);
    expect(await revokedIn(type, jwt, issuer.did)).toEqual([3, 999]);
    expect(await revokedIn(type, `${jwt}\n`)).toEqual([3, 999]);
    const named = await toJwt(signed([4]), issuer, { alg: 'Ed25519' });
    expect(await revokedIn(type, named, issuer.did)).toEqual([4]);
  });

  test('a credential with an eddsa-jcs-2022 proof, alone or one of several', async () => {
    const document = withProof(signed([3, 999]), issuer);
    expect(await revokedIn('application/vc', document, issuer.did)).toEqual([3, 999]);
    const bare = signed([3, 999]);
    const proof = [
      withProof(bare, mallory)['proof'],
      withProof(bare, issuer, { '@context': undefined })['proof'],
    ];
    expect(await revokedIn('application/vc', { ...bare, proof }, issuer.did)).toEqual([3, 999]);
  });

  test('a proof covers the first contexts of a document, and a document without them is not its own', async () => {
    const document = withProof(signed([3]), issuer);
    const context = document['@context'] as string[];
    const later = { ...document, '@context': [...context, 'https://lists.example/later'] };
    expect(await revokedIn('application/vc', later, issuer.did)).toEqual([3]);
    for (const other of [
      ['https://lists.example/later', ...context],
      [],
      'https://lists.example/later',
      undefined,
      null,
    ]) {
      await expect(
        read('application/vc', { ...document, '@context': other }, issuer.did),
      ).rejects.toMatchObject({
        fault: 'untrusted',
      });
    }
  });

  test('a context that is a text is no beginning of a longer one', async () => {
    const document = withProof(signed([3], { '@context': 'https://lists.example/' }), issuer);
    expect(await revokedIn('application/vc', document, issuer.did)).toEqual([3]);
    const longer = { ...document, '@context': 'https://lists.example/other' };
    await expect(read('application/vc', longer, issuer.did)).rejects.toMatchObject({ fault: 'untrusted' });
  });

  test('a raw bitstring', async () => {
    expect(await revokedIn('application/octet-stream', bitsWith([1, 6, 64]))).toEqual([1, 6, 64]);
    const { validFromMs, validUntilMs } = await read('binary/octet-stream', bitsWith([]));
    expect([validFromMs, validUntilMs]).toEqual([-Infinity, Infinity]);
  });

  test('64 Mi entries, where a check stays a bit test', async () => {
    const entries = 64 * 1024 * 1024;
    const encodedList = encode(bitsWith([0, 33_554_433, entries - 1], entries));
    const list = await read('application/vc', credentialWith([], { credentialSubject: { encodedList } }));
    expect(list.entries).toBe(entries);
    expect([0, 1, 33_554_433, entries - 2, entries - 1].map((index) => isBitSet(list.bits, index))).toEqual([
      true,
      false,
      true,
      false,
      true,
    ]);
  });

  test('any bits come through any form', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(1023)), async (revoked) => {
        revoked.sort((a, b) => a - b);
        const encodedList = encode(bitsWith(revoked, 1024));
        const credential = signed([], { credentialSubject: { encodedList } });
        expect(await revokedIn('application/vc', credential)).toEqual(revoked);
        expect(await revokedIn('application/vc+jwt', await toJwt(credential, issuer), issuer.did)).toEqual(
          revoked,
        );
        expect(await revokedIn('application/vc', withProof(credential, issuer), issuer.did)).toEqual(revoked);
        expect(await revokedIn('application/octet-stream', bitsWith(revoked, 1024))).toEqual(revoked);
      }),
      { numRuns: 30 },
    );
  });
});

describe('what is no status list, or not one to rely on', () => {
  const json = 'application/json';
  const subject = (changes: object) => credentialWith([], { credentialSubject: { ...changes } });
  const gzip = gzipSync(bitsWith([1]));

  test.each<[string, string, unknown, string, string]>([
    [
      'HTML',
      'text/html',
      '<p>',
      'content_type',
      'its Content-Type is "text/html", expected one of application/vc+jwt, ',
    ],
    ['no content type', '', credentialWith([]), 'content_type', 'its Content-Type is "", expected one of'],
    [
      'a long content type',
      `x/${'y'.repeat(1000)}`,
      '',
      'content_type',
      `its Content-Type is "x/${'y'.repeat(78)}", expected one of`,
    ],
    ['an empty body', json, '', 'malformed', 'it is not strict JSON: '],
    [
      'half the JSON',
      json,
      JSON.stringify(credentialWith([])).slice(0, 200),
      'malformed',
      'it is not strict JSON: ',
    ],
    ['no object', json, [credentialWith([])], 'malformed', 'it is not a JSON object'],
    ['bytes that are not UTF-8', json, Buffer.from([0x7b, 0xff, 0x7d]), 'malformed', 'it is not UTF-8'],
    [
      'a duplicate member',
      json,
      `{"type":"x",${JSON.stringify(credentialWith([])).slice(1)}`,
      'malformed',
      'it is not strict JSON: the member name "type" occurs twice',
    ],
    [
      'another credential',
      json,
      credentialWith([], { type: ['VerifiableCredential'] }),
      'malformed',
      'its type is ["VerifiableCredential"], expected BitstringStatusListCredential or StatusList2021Credential',
    ],
    [
      'another subject',
      json,
      subject({ type: 'Person' }),
      'malformed',
      'its credentialSubject.type is "Person", expected BitstringStatusList or StatusList2021',
    ],
    [
      'an array of subjects',
      json,
      { ...credentialWith([]), credentialSubject: [] },
      'malformed',
      'its credentialSubject is [], expected one object',
    ],
    [
      'no issuer',
      json,
      credentialWith([], { issuer: undefined }),
      'malformed',
      'its issuer is missing, expected a URL',
    ],
    [
      'no encodedList',
      json,
      subject({ encodedList: undefined }),
      'malformed',
      'its credentialSubject.encodedList is missing, expected a string',
    ],
    [
      'no base64url',
      json,
      subject({ encodedList: 'u!!!' }),
      'malformed',
      'its encodedList is not base64url, expected "u" and base64url',
    ],
    [
      'padded multibase',
      json,
      subject({ encodedList: `u${gzip.toString('base64')}` }),
      'malformed',
      'its encodedList is not base64url, expected "u" and base64url',
    ],
    [
      'padding in the middle',
      json,
      subject({ encodedList: gzip.toString('base64url').replace(/^.{8}/, '$&==') }),
      'malformed',
      'its encodedList is not base64url, expected "u" and base64url',
    ],
    [
      'no GZIP',
      json,
      subject({ encodedList: 'uAAAA' }),
      'malformed',
      'its encodedList is not whole GZIP data: incorrect header',
    ],
    [
      'truncated GZIP',
      json,
      subject({ encodedList: `u${gzip.subarray(0, -9).toString('base64url')}` }),
      'malformed',
      'its encodedList is not whole GZIP data: unexpected end',
    ],
    [
      'an empty list',
      json,
      subject({ encodedList: encode(Buffer.alloc(0)) }),
      'malformed',
      'it has no entries',
    ],
    ['an empty raw list', 'application/octet-stream', Buffer.alloc(0), 'malformed', 'it has no entries'],
    [
      'another purpose',
      json,
      subject({ statusPurpose: 'suspension' }),
      'wrong_purpose',
      'its statusPurpose is "suspension", expected "revocation"',
    ],
    [
      'no purpose',
      json,
      subject({ statusPurpose: undefined }),
      'wrong_purpose',
      'its statusPurpose is missing, expected "revocation"',
    ],
    [
      'other purposes',
      json,
      subject({ statusPurpose: ['suspension', 'message'] }),
      'wrong_purpose',
      'its statusPurpose is ["suspension","message"], expected "revocation"',
    ],
    [
      'two bits an entry',
      json,
      subject({ statusSize: 2 }),
      'wrong_purpose',
      'its statusSize is 2, expected 1 bit an entry',
    ],
    [
      'a list of tomorrow',
      json,
      credentialWith([], { validFrom: '2026-06-02T00:00:00Z' }),
      'out_of_validity',
      'it becomes valid at 2026-06-02T00:00:00.000Z; the clock here says 2026-06-01T12:00:00.000Z',
    ],
    [
      'a list of a second later',
      json,
      credentialWith([], { validFrom: '2026-06-01T12:00:01Z' }),
      'out_of_validity',
      'it becomes valid at 2026-06-01T12:00:01.000Z',
    ],
    [
      'a list of yesterday',
      json,
      credentialWith([], { validUntil: '2026-06-01T14:00:00+02:30' }),
      'out_of_validity',
      'it was valid until 2026-06-01T11:30:00.000Z; the clock here says',
    ],
    [
      'an older one of yesterday',
      json,
      credentialWith([], { expirationDate: '2026-05-31T00:00:00Z' }),
      'out_of_validity',
      'it was valid until 2026-05-31T00:00:00.000Z',
    ],
    [
      'an older one of tomorrow',
      json,
      credentialWith([], { issuanceDate: '2026-06-02T00:00:00Z' }),
      'out_of_validity',
      'it becomes valid at 2026-06-02T00:00:00.000Z',
    ],
    [
      'no time',
      json,
      credentialWith([], { validUntil: 'tomorrow' }),
      'malformed',
      'its validUntil is "tomorrow", expected an ISO 8601 time with a zone',
    ],
    [
      'a time without a zone',
      json,
      credentialWith([], { validUntil: '2027-01-01T00:00:00' }),
      'malformed',
      'its validUntil is "2027-01-01T00:00:00", expected',
    ],
    ['JSON called a JWT', 'application/vc+jwt', credentialWith([]), 'malformed', 'it is not a JWT: it has'],
    [
      'times of other formats',
      json,
      credentialWith([], { validFrom: '2026-01-01' }),
      'malformed',
      'its validFrom is',
    ],
    [
      'a time before it',
      json,
      credentialWith([], { validFrom: 'x2026-01-01T00:00:00Z' }),
      'malformed',
      'its validFrom is',
    ],
    [
      'a time and more',
      json,
      credentialWith([], { validFrom: '2026-01-01T00:00:00Zx' }),
      'malformed',
      'its validFrom is',
    ],
    [
      'a number as time',
      json,
      credentialWith([], { validFrom: 1 }),
      'malformed',
      'its validFrom is 1, expected',
    ],
    [
      'a month 13',
      json,
      credentialWith([], { validFrom: '2026-13-01T00:00:00Z' }),
      'malformed',
      'its validFrom is',
    ],
    [
      'a time in an array',
      json,
      credentialWith([], { validFrom: ['2026-01-01T00:00:00Z'] }),
      'malformed',
      'its validFrom is ["2026-01-01T00:00:00Z"], expected',
    ],
    ['no type', json, credentialWith([], { type: undefined }), 'malformed', 'its type is missing'],
    [
      'no subject',
      json,
      { ...credentialWith([]), credentialSubject: undefined },
      'malformed',
      'its credentialSubject is missing',
    ],
    [
      'an issuer without an id',
      json,
      credentialWith([], { issuer: { name: 'x' } }),
      'malformed',
      'its issuer is {"name":"x"}',
    ],
    [
      'many values',
      json,
      `[${'1,'.repeat(40_000)}1]`,
      'malformed',
      'it has more than 16384 values, expected a credential with one long encodedList',
    ],
    ['as many values as it may have', json, `[${'1,'.repeat(16_383)}1]`, 'malformed', 'not a JSON object'],
    ['one more', json, `[${'1,'.repeat(16_384)}1]`, 'malformed', 'it has more than 16384 values'],
    [
      'many values in a JWT',
      'application/jwt',
      `e30.${Buffer.from(`[${'1,'.repeat(40_000)}1]`).toString('base64url')}.AAAA`,
      'malformed',
      'it has more than 16384 values',
    ],
    ['many lists', json, '['.repeat(40_000), 'malformed', 'it has more than 16384 values'],
    ['many objects', json, '{'.repeat(40_000), 'malformed', 'it has more than 16384 values'],
  ])('%s', async (_, type, body, fault, says) => {
    const message = expect.stringContaining(says) as string;
    await expect(read(type, body)).rejects.toMatchObject({ name: 'StatusListError', fault, message });
  });

  test('a list of now, of one purpose among others, of one bit an entry, is accepted', async () => {
    const changes = { validFrom: '2026-06-01T12:00:00Z', validUntil: '2026-06-01T12:00:00.001Z' };
    const credentialSubject = { statusPurpose: ['suspension', 'revocation'], statusSize: 1 };
    const list = await read(json, credentialWith([], { ...changes, credentialSubject }));
    expect(list.validUntilMs).toBe(NOW + 1);
  });

  test('a bomb is refused while it unpacks: in bounded memory, and off the event loop', async () => {
    // 64 MiB of zeros, sixteen times over, as one GZIP file of many members.
    const member = gzipSync(Buffer.alloc(64 * 1024 * 1024));
    const encodedList = `u${Buffer.concat(Array.from({ length: 16 }, () => member)).toString('base64url')}`;
    const body = Buffer.from(JSON.stringify(subject({ encodedList })));
    const before = process.memoryUsage().arrayBuffers;
    let highest = 0;
    let turns = 0;
    const watch = setInterval(() => {
      turns++;
      highest = Math.max(highest, process.memoryUsage().arrayBuffers);
    }, 1);
    await expect(read(json, body)).rejects.toMatchObject({
      fault: 'too_large',
      message: `its encodedList unpacks to more than ${64 * 1024 * 1024} bytes`,
    });
    clearInterval(watch);
    expect(turns).toBeGreaterThan(2);
    expect(highest - before).toBeLessThan(160 * 1024 * 1024);
  });
});

describe('a pinned issuer', () => {
  const jwtType = 'application/vc+jwt';
  const untrusted = { name: 'StatusListError', fault: 'untrusted' };
  const untrustedFor = (says: string) => ({
    ...untrusted,
    message: expect.stringContaining(says) as string,
  });

  test('says what it refuses', async () => {
    const jwtOf = async (credential: object, header: object = {}) => toJwt(credential, issuer, header);
    const other = credentialWith([], { issuer: 'https://issuer.example' });
    const proof = withProof(signed([]), issuer)['proof'] as Record<string, unknown>;
    const cases: [string, unknown, string][] = [
      [
        'application/octet-stream',
        bitsWith([]),
        `it is a raw bitstring, expected a vc+jwt signature or an eddsa-jcs-2022 proof by ${issuer.did}`,
      ],
      ['application/vc', signed([]), 'it has no proof by that issuer, expected a vc+jwt signature'],
      ['application/vc', { ...signed([]), proof: ['x', null] }, 'it has no proof by that issuer'],
      [
        jwtType,
        await jwtOf(credentialWith([], { issuer: `x:${'y'.repeat(1000)}` })),
        `its issuer is "x:${'y'.repeat(78)}", expected ${issuer.did}`,
      ],
      [jwtType, await jwtOf(other), `its issuer is "https://issuer.example", expected ${issuer.did}`],
      [
        jwtType,
        await jwtOf({ ...signed([]), iss: mallory.did }),
        `its iss claim is "${mallory.did}", expected its issuer "${issuer.did}"`,
      ],
      [jwtType, await toJwt(signed([]), mallory), `its signature does not verify under ${issuer.did}`],
      [
        jwtType,
        `${Buffer.from('{"alg":"none"}').toString('base64url')}.e30.AAAA`,
        'its alg is "none", expected "EdDSA"',
      ],
      ['application/vc', { ...signed([1]), proof }, `its proof does not verify (issuer ${issuer.did})`],
      [
        'application/vc',
        { ...signed([]), proof: { ...proof, proofPurpose: 'x' } },
        'the proofPurpose of its proof is not "assertionMethod"',
      ],
      [
        'application/vc',
        { ...signed([]), proof: { ...proof, cryptosuite: 'x' } },
        'its proof is "DataIntegrityProof" with "x", expected DataIntegrityProof with eddsa-jcs-2022',
      ],
      [
        'application/vc',
        { ...signed([]), proof: { ...proof, type: 1 } },
        'its proof is unnamed with "eddsa-jcs-2022"',
      ],
      [
        'application/vc',
        { ...signed([]), proof: { ...proof, proofValue: 'z0' } },
        'its proofValue is not "z" and base58btc',
      ],
      [
        'application/vc',
        { ...signed([]), proof: { ...proof, proofValue: `z${'1'.repeat(89)}` } },
        'its proofValue is not "z" and base58btc',
      ],
      [
        'application/vc',
        { ...signed([]), proof, '@context': ['x'] },
        "its @context does not begin with its proof's",
      ],
    ];
    for (const [type, body, says] of cases)
      await expect(read(type, body, issuer.did)).rejects.toMatchObject(untrustedFor(says));
    expect(() => resolveIssuer('did:web:x', DEFAULT_KEYS)).toThrow(
      expect.objectContaining({
        fault: 'untrusted',
        message: 'the pinned issuer did:web:x is not a did:key of an Ed25519 key',
      }) as Error,
    );
    await expect(read(jwtType, await jwtOf({ ...signed([]), nbf: '1' }), issuer.did)).rejects.toMatchObject({
      fault: 'malformed',
      message: 'its nbf claim is "1", expected Unix seconds',
    });
  });

  test('refuses what nobody signed', async () => {
    await expect(read('application/octet-stream', bitsWith([]), issuer.did)).rejects.toMatchObject(untrusted);
    await expect(read('application/vc', signed([]), issuer.did)).rejects.toMatchObject(untrusted);
  });

  test('refuses what somebody else signed, whatever it claims', async () => {
    for (const credential of [signed([]), credentialWith([], { issuer: mallory.did })]) {
      await expect(read(jwtType, await toJwt(credential, mallory), issuer.did)).rejects.toMatchObject(
        untrusted,
      );
      await expect(read('application/vc', withProof(credential, mallory), issuer.did)).rejects.toMatchObject(
        untrusted,
      );
      const posing = withProof(credential, mallory, { verificationMethod: issuer.method });
      await expect(read('application/vc', posing, issuer.did)).rejects.toMatchObject(untrusted);
    }
  });

  test('refuses its own signature under the name of another', async () => {
    const other = credentialWith([], { issuer: mallory.did });
    await expect(read(jwtType, await toJwt(other, issuer), issuer.did)).rejects.toMatchObject(untrusted);
    await expect(read('application/vc', withProof(other, issuer), issuer.did)).rejects.toMatchObject(
      untrusted,
    );
    const contrary = { ...signed([]), iss: mallory.did };
    await expect(read(jwtType, await toJwt(contrary, issuer), issuer.did)).rejects.toMatchObject(untrusted);
  });

  test('knows its issuer also as an object with an id', async () => {
    const jwt = await toJwt(credentialWith([4], { issuer: { id: issuer.did, name: 'Lists' } }), issuer);
    expect(await revokedIn(jwtType, jwt, issuer.did)).toEqual([4]);
  });

  test('refuses other algorithms and critical headers', async () => {
    const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from(JSON.stringify(signed([]))).toString('base64url')}.AAAA`;
    await expect(read(jwtType, none, issuer.did)).rejects.toMatchObject(untrusted);
    const { privateKey } = await generateKeyPair('ES256');
    const es256 = await new CompactSign(Buffer.from(JSON.stringify(signed([]))))
      .setProtectedHeader({ alg: 'ES256' })
      .sign(privateKey);
    await expect(read(jwtType, es256, issuer.did)).rejects.toMatchObject(untrusted);
    await expect(read(jwtType, es256)).rejects.toMatchObject(untrusted);
  });

  test('checks nbf and exp of a vc+jwt', async () => {
    const at = async (claims: object) =>
      read(jwtType, await toJwt({ ...signed([]), ...claims }, issuer), issuer.did);
    const secs = NOW / 1000;
    await expect(at({ nbf: secs + 1 })).rejects.toMatchObject({ fault: 'out_of_validity' });
    await expect(at({ exp: secs })).rejects.toMatchObject({ fault: 'out_of_validity' });
    await expect(at({ exp: 'soon' })).rejects.toMatchObject({ fault: 'malformed' });
    expect((await at({ nbf: secs, exp: secs + 60, iss: issuer.did })).validUntilMs).toBe(NOW + 60_000);
    // The last moment that a date can say, and one that none can.
    for (const [nbf, says] of [
      [8.64e12, 'it becomes valid at +275760-09-13T00:00:00.000Z; the clock here says 2026-'],
      [1e15, 'it becomes valid at 1000000000000000000 ms; the clock here says 2026-'],
    ] as const) {
      await expect(at({ nbf })).rejects.toMatchObject({
        fault: 'out_of_validity',
        message: expect.stringContaining(says) as string,
      });
    }
  });

  test('refuses a signature over anything else: each byte of it, each member of the proof', async () => {
    const jwt = await toJwt(signed([]), issuer);
    const [header, payload, signature] = jwt.split('.') as [string, string, string];
    const flipped = Buffer.from(signature, 'base64url');
    flipped[40] = (flipped[40] ?? 0) ^ 1;
    const withAnother = Buffer.from(JSON.stringify(signed([1]))).toString('base64url');
    for (const forged of [
      `${header}.${payload}.${flipped.toString('base64url')}`,
      `${header}.${withAnother}.${signature}`,
      `${header}.${payload}.${signature}AAAA`,
      `${header}.${payload}.AAAA`,
    ]) {
      await expect(read(jwtType, forged, issuer.did)).rejects.toMatchObject(untrusted);
    }
    const document = withProof(signed([]), issuer);
    const proof = document['proof'] as Record<string, unknown>;
    for (const change of [
      { created: '2026-01-01T00:00:01Z' },
      { proofPurpose: 'authentication' },
      { cryptosuite: 'eddsa-rdfc-2022' },
      { type: 'Ed25519Signature2020' },
      { '@context': ['https://www.w3.org/2018/credentials/v1'] },
      { proofValue: undefined },
      { proofValue: 'z' },
      { proofValue: 'z0OIl' },
      { proofValue: `u${String(proof['proofValue']).slice(1)}` },
      { proofValue: `z${base58.encode(Buffer.alloc(64))}` },
      { extra: true },
    ]) {
      const forged = { ...document, proof: { ...proof, ...change } };
      await expect(read('application/vc', forged, issuer.did)).rejects.toMatchObject(untrusted);
    }
    await expect(read('application/vc', { ...document, name: 'x' }, issuer.did)).rejects.toMatchObject(
      untrusted,
    );
    // Nor does one count that verifies, but says of itself that it is something else.
    for (const change of [
      { proofPurpose: 'authentication' },
      { cryptosuite: 'eddsa-rdfc-2022' },
      { type: 'Ed25519Signature2020' },
    ]) {
      const other = withProof(signed([]), issuer, change);
      await expect(read('application/vc', other, issuer.did)).rejects.toMatchObject(untrusted);
    }
  });
});

test('the eddsa-jcs-2022 vector of W3C vc-di-eddsa verifies', () => {
  // W3C vc-di-eddsa, appendix B (eddsa-jcs-2022), W3C software and document licence.
  const context = ['https://www.w3.org/ns/credentials/v2', 'https://www.w3.org/ns/credentials/examples/v2'];
  const key = 'z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2';
  const proof = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: '2023-02-24T23:36:38Z',
    verificationMethod: `https://vc.example/issuers/5678#${key}`,
    proofPurpose: 'assertionMethod',
    '@context': context,
    proofValue: 'z63t83Y53KfzJ5ZosfKTnqfMcKB2dmTrfjSaQjeNNjAD5srBowQfmWqeRb8rRjmeEuCBEsddF9LsVogtuTsijJKh4',
  };
  const document = {
    '@context': context,
    id: 'urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33',
    type: ['VerifiableCredential', 'AlumniCredential'],
    name: 'Alumni Credential',
    description: 'A minimum viable example of an Alumni Credential.',
    issuer: 'https://vc.example/issuers/5678',
    validFrom: '2023-01-01T00:00:00Z',
    credentialSubject: { id: 'did:example:abcdefgh', alumniOf: 'The School of Examples' },
    proof,
  };
  const publicKey = Buffer.from(base58.decode(key.slice(1))).subarray(2);
  expect(findProofDefect(document, proof, publicKey)).toBe(null);
  expect(findProofDefect({ ...document, name: 'Alumni credential' }, proof, publicKey)).toContain(
    'not verify',
  );
});
