import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { generateKeyPair, CompactSign } from 'jose';
import { describe, expect, test } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import {
  findProofDefect,
  readStatusList,
  resolveIssuer,
} from '../../src/revocation/lists/read-status-list.js';
import { isBitSet } from '../../src/revocation/lists/bitstring.js';
import { base58 } from '@scure/base';
import { bitsWith, credentialWith, encode, newIssuer, toJwt, withProof } from './lists.js';

const NOW = Date.parse('2026-06-01T12:00:00Z');
const issuer = newIssuer();
const mallory = newIssuer();
const signed = (revoked: number[], changes = {}) =>
  credentialWith(revoked, { issuer: issuer.did, ...changes });

function read(
  contentType: string,
  body: unknown,
  pinned?: string,
  form: 'credential' | 'raw' = 'credential',
) {
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const issuer = pinned === undefined ? undefined : resolveIssuer(pinned, DEFAULT_KEYS);
  return readStatusList(bytes, contentType, { form, issuer, nowMs: NOW });
}

async function revokedIn(
  contentType: string,
  body: unknown,
  pinned?: string,
  form?: 'raw',
): Promise<number[]> {
  const { bits } = await read(contentType, body, pinned, form);
  return Array.from({ length: bits.length * 8 }, (_, index) => index).filter((index) =>
    isBitSet(bits, index),
  );
}

describe('every form of a status list', () => {
  // What it is, it says itself: object stores call a file without a type octet-stream.
  test.each(['application/vc', 'application/octet-stream', 'binary/octet-stream', 'text/plain', ''])(
    'a credential as %s',
    async (type) => {
      expect(await revokedIn(type, credentialWith([0, 7, 8, 131_071]))).toEqual([0, 7, 8, 131_071]);
      const jwt = await toJwt(signed([800]), issuer);
      expect(await revokedIn(type, jwt, issuer.did)).toEqual([800]);
      expect(await revokedIn(type, `\n ${jwt}`)).toEqual([800]);
    },
  );

  test('a JWT whose header is written with white space', async () => {
    const header = Buffer.from('{\n  "alg": "EdDSA"\n}').toString('base64url');
    const payload = Buffer.from(JSON.stringify(signed([3]))).toString('base64url');
    expect(header.slice(0, 2)).toBe('ew');
    expect(await revokedIn('application/vc+jwt', `${header}.${payload}.AAAA`)).toEqual([3]);
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

  test('raw bits, if the operator says so', async () => {
    const type = 'Application/octet-stream; charset=x';
    expect(await revokedIn(type, bitsWith([1, 6, 64]), undefined, 'raw')).toEqual([1, 6, 64]);
    const { validFromMs, validUntilMs } = await read('binary/octet-stream', bitsWith([]), undefined, 'raw');
    expect([validFromMs, validUntilMs]).toEqual([-Infinity, Infinity]);
  });

  test.each([
    ['a credential', JSON.stringify(credentialWith([800]))],
    ['JSON behind a byte order mark and white space', '\ufeff \r\n\t{}'],
    ['an array', '[]'],
    ['a JWT', 'eyJhbGciOiJFZERTQSJ9.e30.AAAA'],
    ['a JWT with white space', 'ewogImFsZyI6IkVkRFNBIn0.e30.AAAA'],
    ['GZIP data', gzipSync(bitsWith([800]))],
    ['a web page', '\n<!doctype html><title>Service unavailable</title>'],
  ])('%s is never read as raw bits', async (_, body) => {
    const start = Buffer.from(body).toString('latin1').replace('\xef\xbb\xbf', '').trim().slice(0, 16);
    for (const type of ['application/octet-stream', 'binary/octet-stream'])
      await expect(read(type, body, undefined, 'raw')).rejects.toMatchObject({
        fault: 'malformed',
        message: `it begins with ${JSON.stringify(start)} like a JWT, JSON, a web page or GZIP data, expected raw bits that do not; unset STATUS_LIST_FORM for a credential`,
      });
  });

  test.each(['', 'text/plain', 'application/vc', `x/${'y'.repeat(1000)}`])(
    'raw bits as %s are refused',
    async (type) => {
      await expect(read(type, 'Not found', undefined, 'raw')).rejects.toMatchObject({
        fault: 'content_type',
        message: `its Content-Type is ${JSON.stringify(type.slice(0, 80))}, expected application/octet-stream or binary/octet-stream for raw bits`,
      });
    },
  );

  test('64 Mi entries, where a check stays a bit test', async () => {
    const entries = 64 * 1024 * 1024;
    const encodedList = encode(bitsWith([0, 33_554_433, entries - 1], entries));
    const list = await read('application/vc', credentialWith([], { credentialSubject: { encodedList } }));
    expect(list.bits).toHaveLength(entries / 8);
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
      }),
      { numRuns: 30 },
    );
  });
});

describe('what is no status list, or not one to rely on', () => {
  const json = 'application/json';
  const subject = (changes: object) => credentialWith([], { credentialSubject: { ...changes } });
  const gzip = gzipSync(bitsWith([1]));

  const isRefused = async (body: unknown, fault: string, says: string) => {
    const message = expect.stringContaining(says) as string;
    await expect(read(json, body)).rejects.toMatchObject({ name: 'StatusListError', fault, message });
  };

  test.each<[string, unknown, string]>([
    [
      'HTML',
      '<p>',
      'it begins with "<p>", expected a credential: a JWT ("ey…") or a JSON object ("{…"); raw bits are read only with STATUS_LIST_FORM=raw',
    ],
    ['packed', gzipSync('{}'), String.raw`it begins with "\u001f`],
    ['bits', bitsWith([1]), 'it begins with "@'],
    ['an empty body', '', 'it begins with "", expected a credential'],
    ['a byte order mark', `\ufeff${JSON.stringify(credentialWith([]))}`, 'it is not strict'],
    ['half the JSON', JSON.stringify(credentialWith([])).slice(0, 200), 'it is not strict JSON: '],
    ['no object', [credentialWith([])], 'it begins with "[{'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'it is not UTF-8'],
    [
      'a duplicate member',
      `{"type":"x",${JSON.stringify(credentialWith([])).slice(1)}`,
      'it is not strict JSON: the member name "type" occurs twice',
    ],
    [
      'another credential',
      credentialWith([], { type: ['VerifiableCredential'] }),
      'its type is ["VerifiableCredential"], expected BitstringStatusListCredential',
    ],
    [
      'another subject',
      subject({ type: 'Person' }),
      'its credentialSubject.type is "Person", expected BitstringStatusList',
    ],
    [
      'an array of subjects',
      { ...credentialWith([]), credentialSubject: [] },
      'its credentialSubject is [], expected one object',
    ],
    ['no issuer', credentialWith([], { issuer: undefined }), 'its issuer is missing, expected a URL'],
    [
      'no encodedList',
      subject({ encodedList: undefined }),
      'its credentialSubject.encodedList is missing, expected a string',
    ],
    [
      'no base64url',
      subject({ encodedList: 'u!!!' }),
      'its encodedList is not "u" and base64url without padding',
    ],
    [
      'padded multibase',
      subject({ encodedList: `u${gzip.toString('base64')}` }),
      'its encodedList is not "u" and base64url without padding',
    ],
    [
      'padding in the middle',
      subject({ encodedList: gzip.toString('base64url').replace(/^.{8}/, '$&==') }),
      'its encodedList is not "u" and base64url without padding',
    ],
    [
      'no GZIP',
      subject({ encodedList: 'uAAAA' }),
      'its encodedList is not whole GZIP data: incorrect header',
    ],
    [
      'truncated GZIP',
      subject({ encodedList: `u${gzip.subarray(0, -9).toString('base64url')}` }),
      'its encodedList is not whole GZIP data: unexpected end',
    ],
    ['an empty list', subject({ encodedList: encode(Buffer.alloc(0)) }), 'it has no entries'],
    [
      'the older types',
      credentialWith([], {
        type: ['StatusList2021Credential'],
        credentialSubject: { type: 'StatusList2021' },
      }),
      'its type is ["StatusList2021Credential"], expected BitstringStatusListCredential',
    ],
    [
      'an encodedList without "u"',
      subject({ encodedList: gzip.toString('base64url') }),
      'its encodedList is not "u" and base64url without padding',
    ],
    [
      'no time',
      credentialWith([], { validUntil: 'tomorrow' }),
      'its validUntil is "tomorrow", expected an ISO 8601 time with a zone',
    ],
    [
      'a time without a zone',
      credentialWith([], { validUntil: '2027-01-01T00:00:00' }),
      'its validUntil is "2027-01-01T00:00:00", expected',
    ],
    ['no JWT', 'eyJ', 'it is not a JWT: it has'],
    ['times of other formats', credentialWith([], { validFrom: '2026-01-01' }), 'its validFrom is'],
    ['a time before it', credentialWith([], { validFrom: 'x2026-01-01T00:00:00Z' }), 'its validFrom is'],
    ['a time and more', credentialWith([], { validFrom: '2026-01-01T00:00:00Zx' }), 'its validFrom is'],
    ['a number as time', credentialWith([], { validFrom: 1 }), 'its validFrom is 1, expected'],
    ['a month 13', credentialWith([], { validFrom: '2026-13-01T00:00:00Z' }), 'its validFrom is'],
    [
      'a time in an array',
      credentialWith([], { validFrom: ['2026-01-01T00:00:00Z'] }),
      'its validFrom is ["2026-01-01T00:00:00Z"], expected',
    ],
    ['no type', credentialWith([], { type: undefined }), 'its type is missing'],
    [
      'no subject',
      { ...credentialWith([]), credentialSubject: undefined },
      'its credentialSubject is missing',
    ],
    ['an issuer without an id', credentialWith([], { issuer: { name: 'x' } }), 'its issuer is {"name":"x"}'],
    ['many objects', `{"x":[${'{},'.repeat(40_000)}{}]}`, 'it holds more than 16384 JSON objects'],
    [
      'many objects in a JWT',
      `e30.${Buffer.from(`[${'{},'.repeat(40_000)}{}]`).toString('base64url')}.AAAA`,
      'it holds more than 16384 JSON objects',
    ],
  ])('%s', (_, body, says) => isRefused(body, 'malformed', says));

  test.each<[string, unknown, string]>([
    [
      'another purpose',
      subject({ statusPurpose: 'suspension' }),
      'its statusPurpose is "suspension", expected "revocation"',
    ],
    [
      'no purpose',
      subject({ statusPurpose: undefined }),
      'its statusPurpose is missing, expected "revocation"',
    ],
    [
      'other purposes',
      subject({ statusPurpose: ['suspension', 'message'] }),
      'its statusPurpose is ["suspension","message"], expected "revocation"',
    ],
    ['two bits an entry', subject({ statusSize: 2 }), 'its statusSize is 2, expected 1 bit an entry'],
  ])('%s', (_, body, says) => isRefused(body, 'wrong_purpose', says));

  test.each<[string, unknown, string]>([
    [
      'a list of tomorrow',
      credentialWith([], { validFrom: '2026-06-02T00:00:00Z' }),
      'it becomes valid at 2026-06-02T00:00:00.000Z; the clock here says 2026-06-01T12:00:00.000Z',
    ],
    [
      'a list of a second later',
      credentialWith([], { validFrom: '2026-06-01T12:00:01Z' }),
      'it becomes valid at 2026-06-01T12:00:01.000Z',
    ],
    [
      'a list of yesterday',
      credentialWith([], { validUntil: '2026-06-01T14:00:00+02:30' }),
      'it was valid until 2026-06-01T11:30:00.000Z; the clock here says',
    ],
  ])('%s', (_, body, says) => isRefused(body, 'out_of_validity', says));

  test('a list of now, of one purpose among others, of one bit an entry, is accepted', async () => {
    const changes = { validFrom: '2026-06-01T12:00:00Z', validUntil: '2026-06-01T12:00:00.001Z' };
    const credentialSubject = { statusPurpose: ['suspension', 'revocation'], statusSize: 1 };
    const list = await read(json, credentialWith([], { ...changes, credentialSubject }));
    expect(list.validUntilMs).toBe(NOW + 1);
  });

  test('an empty raw list', async () => {
    await expect(read('application/octet-stream', Buffer.alloc(0), undefined, 'raw')).rejects.toMatchObject({
      fault: 'malformed',
      message: 'it has no entries',
    });
  });

  test('a bomb is refused while it unpacks: in bounded memory, and off the event loop', async () => {
    // 16 MiB of zeros, 48 times over, as one GZIP file of many members.
    const member = gzipSync(Buffer.alloc(16 * 1024 * 1024), { level: 9 });
    const encodedList = `u${Buffer.concat(Array.from({ length: 48 }, () => member)).toString('base64url')}`;
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
      message:
        'its encodedList unpacks to more than 16777216 bytes: make a list with at most 134217728 entries',
    });
    clearInterval(watch);
    expect(turns).toBeGreaterThan(2);
    expect(highest - before).toBeLessThan(64 * 1024 * 1024);
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
    await expect(read('application/octet-stream', bitsWith([]), issuer.did, 'raw')).rejects.toMatchObject(
      untrustedFor('it is a raw bitstring, expected a vc+jwt signature'),
    );
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
