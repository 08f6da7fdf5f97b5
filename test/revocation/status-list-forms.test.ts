import { gzipSync } from 'node:zlib';
import { base58 } from '@scure/base';
import fc from 'fast-check';
import { generateKeyPair, CompactSign } from 'jose';
import { describe, expect, test } from 'vitest';
import { publicKeyOf } from '../../src/protocol/did-key.js';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { valueAt } from '../../src/revocation/lists/bitstring.js';
import { readStatusList } from '../../src/revocation/lists/read-status-list.js';
import { bitsWith, credentialWith, encode, newIssuer, toJwt, withProof } from './lists.js';

const NOW = Date.parse('2026-06-01T12:00:00Z');
const VC = 'application/vc';
const RAW = 'application/octet-stream';
const issuer = newIssuer();
const mallory = newIssuer();
const signed = (revoked: number[], changes = {}) =>
  credentialWith(revoked, { issuer: issuer.did, ...changes });
const subject = (changes: object) => credentialWith([], { credentialSubject: { ...changes } });
const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

function read(
  type: string,
  body: unknown,
  pinned?: string,
  form: 'credential' | 'raw' = 'credential',
  id = 'https://lists.example/1',
) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(text);
  return readStatusList(bytes, type, { form, id, issuer: pinned, nowMs: NOW });
}

async function revokedIn(type: string, body: unknown, pinned?: string, form?: 'raw'): Promise<number[]> {
  const { bits } = await read(type, body, pinned, form);
  const all = Array.from({ length: bits.length * 8 }, (_, index) => index);
  return all.filter((index) => valueAt({ bits, tokenBits: null }, index) === 1);
}

/** Expects that something is refused as this fault, with a message that says this. */
async function refuses(reading: Promise<unknown>, fault: string, says = ''): Promise<void> {
  const message = expect.stringContaining(says) as string;
  await expect(reading).rejects.toMatchObject({ name: 'StatusListError', fault, message });
}

describe('every form of a status list', () => {
  // What it is, it says itself: object stores call a file without a type octet-stream.
  test.each([VC, 'application/vc+jwt', 'application/jwt', RAW, 'binary/octet-stream', 'text/plain', ''])(
    'a credential as %s, plain or signed by jose',
    async (type) => {
      expect(await revokedIn(type, credentialWith([0, 7, 8, 131_071]))).toEqual([0, 7, 8, 131_071]);
      const jwt = await toJwt(signed([3, 999]), issuer);
      expect(await revokedIn(type, jwt, issuer.did)).toEqual([3, 999]);
      expect(await revokedIn(type, `${jwt}\n`, issuer.did)).toEqual([3, 999]);
      expect(await revokedIn(type, `\n ${jwt}`)).toEqual([3, 999]);
      const named = await toJwt(signed([4]), issuer, { alg: 'Ed25519' });
      expect(await revokedIn(type, named, issuer.did)).toEqual([4]);
    },
  );

  test('a JWT whose header is written with white space', async () => {
    const header = Buffer.from('{\n  "alg": "EdDSA"\n}').toString('base64url');
    expect(header.slice(0, 2)).toBe('ew');
    expect(await revokedIn(VC, `${header}.${base64url(signed([3]))}.AAAA`)).toEqual([3]);
  });

  test('the example list of the specification is all zeros', async () => {
    const encodedList = 'uH4sIAAAAAAAAA-3BMQEAAADCoPVPbQwfoAAAAAAAAAAAAAAAAAAAAIC3AYbSVKsAQAAA';
    const list = await read(VC, subject({ encodedList }));
    expect(list.bits.equals(Buffer.alloc(16_384))).toBe(true);
  });

  test('a credential with an eddsa-jcs-2022 proof, alone or one of several', async () => {
    const bare = signed([3, 999]);
    expect(await revokedIn(VC, withProof(bare, issuer), issuer.did)).toEqual([3, 999]);
    const others = [withProof(bare, mallory), withProof(bare, issuer, { '@context': undefined })];
    const proof = others.map((document) => document['proof']);
    expect(await revokedIn(VC, { ...bare, proof }, issuer.did)).toEqual([3, 999]);
  });

  test('a proof covers the first contexts of a document, and a document without them is not its own', async () => {
    const document = withProof(signed([3]), issuer);
    const context = document['@context'] as string[];
    const other = 'https://lists.example/later';
    const later = { ...document, '@context': [...context, other] };
    expect(await revokedIn(VC, later, issuer.did)).toEqual([3]);
    for (const contexts of [[other, ...context], [], other, undefined, null])
      await refuses(read(VC, { ...document, '@context': contexts }, issuer.did), 'untrusted');
    // A context that is a text is no beginning of a longer one.
    const named = withProof(signed([3], { '@context': 'https://lists.example/' }), issuer);
    expect(await revokedIn(VC, named, issuer.did)).toEqual([3]);
    await refuses(read(VC, { ...named, '@context': other }, issuer.did), 'untrusted');
  });

  test('raw bits, if the operator says so', async () => {
    const type = 'Application/octet-stream ; charset=x';
    // The second byte is a brace.
    const revoked = [1, 6, 9, 10, 11, 12, 14, 15, 64];
    expect(await revokedIn(type, bitsWith(revoked), undefined, 'raw')).toEqual(revoked);
    const { validFromMs, validUntilMs } = await read('binary/octet-stream', bitsWith([]), undefined, 'raw');
    expect([validFromMs, validUntilMs]).toEqual([-Infinity, Infinity]);
    await refuses(read(RAW, Buffer.alloc(0), undefined, 'raw'), 'malformed', 'it has no entries');
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
    const says = `it begins with ${JSON.stringify(start)} like a JWT, JSON, a web page or GZIP data, expected raw bits that do not; unset STATUS_LIST_FORM for a credential`;
    for (const type of [RAW, 'binary/octet-stream'])
      await refuses(read(type, body, undefined, 'raw'), 'malformed', says);
  });

  test.each(['', 'text/plain', VC, `x/${'y'.repeat(1000)}`])('raw bits as %s are refused', async (type) => {
    const says = `its Content-Type is ${JSON.stringify(type.slice(0, 80))}, expected application/octet-stream or binary/octet-stream for raw bits`;
    await refuses(read(type, 'Not found', undefined, 'raw'), 'content_type', says);
  });

  test('64 Mi entries, where a check stays a bit test', async () => {
    const entries = 64 * 1024 * 1024;
    const { bits } = await read(
      VC,
      subject({ encodedList: encode(bitsWith([0, 33_554_433, entries - 1], entries)) }),
    );
    expect(bits).toHaveLength(entries / 8);
    const asked = [0, 1, 33_554_433, entries - 2, entries - 1];
    expect(asked.map((index) => valueAt({ bits, tokenBits: null }, index) === 1)).toEqual([
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
        for (const form of [await toJwt(credential, issuer), withProof(credential, issuer)])
          expect(await revokedIn(VC, form, issuer.did)).toEqual(revoked);
        expect(await revokedIn(VC, credential)).toEqual(revoked);
      }),
      { numRuns: 30 },
    );
  });
});

describe('what is no status list, or not one to rely on', () => {
  const json = 'application/json';
  const gzip = gzipSync(bitsWith([1]));
  const validFrom = (value: unknown) => credentialWith([], { validFrom: value });
  const validUntil = (value: unknown) => credentialWith([], { validUntil: value });
  const text = JSON.stringify(credentialWith([]));
  const objects = `[${'{},'.repeat(40_000)}{}]`;
  const NOT_MULTIBASE = 'its encodedList is not "u" and base64url without padding';
  const NO_CREDENTIAL =
    'it begins with "<p>", expected a credential: a JWT ("ey…") or a JSON object ("{…"); raw bits are read only with STATUS_LIST_FORM=raw';

  test.each<[string, unknown, string]>([
    ['HTML', '<p>', NO_CREDENTIAL],
    ['packed', gzipSync('{}'), String.raw`it begins with "\u001f`],
    ['bits', bitsWith([1]), 'it begins with "@'],
    ['an empty body', '', 'it begins with "", expected a credential'],
    ['a byte order mark', `\ufeff${text}`, 'it is not strict'],
    ['half the JSON', text.slice(0, 200), 'it is not strict JSON: '],
    ['no object', [credentialWith([])], 'it begins with "[{'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'it is not UTF-8'],
    [
      'a duplicate member',
      `{"type":"x",${text.slice(1)}`,
      'strict JSON: the member name "type" occurs twice',
    ],
    [
      'another credential',
      credentialWith([], { type: ['X'] }),
      'type is ["X"], expected BitstringStatusList',
    ],
    ['no type', credentialWith([], { type: undefined }), 'its type is missing'],
    ['the older type', credentialWith([], { type: ['StatusList2021Credential'] }), 'its type is ["Status'],
    [
      'the older subject',
      subject({ type: 'StatusList2021' }),
      'type is "StatusList2021", expected BitstringS',
    ],
    [
      'many subjects',
      { ...credentialWith([]), credentialSubject: [] },
      'credentialSubject is [], expected one',
    ],
    [
      'no subject',
      { ...credentialWith([]), credentialSubject: undefined },
      'its credentialSubject is missing',
    ],
    ['no issuer', credentialWith([], { issuer: undefined }), 'its issuer is missing, expected a URL'],
    ['an issuer without an id', credentialWith([], { issuer: { name: 'x' } }), 'its issuer is {"name":"x"}'],
    ['no encodedList', subject({ encodedList: undefined }), 'encodedList is missing, expected a string'],
    ['no base64url', subject({ encodedList: 'u!!!' }), NOT_MULTIBASE],
    ['no "u"', subject({ encodedList: `m${gzip.toString('base64url')}` }), NOT_MULTIBASE],
    ['padded multibase', subject({ encodedList: `u${gzip.toString('base64')}` }), NOT_MULTIBASE],
    ['padding inside', subject({ encodedList: encode(gzip).replace(/^.{9}/, '$&==') }), NOT_MULTIBASE],
    [
      'no GZIP',
      subject({ encodedList: 'uAAAA' }),
      'its encodedList is not whole GZIP data: incorrect header',
    ],
    [
      'half the GZIP',
      subject({ encodedList: encode(gzip).slice(0, -12) }),
      'whole GZIP data: unexpected end',
    ],
    ['an empty list', subject({ encodedList: encode(Buffer.alloc(0)) }), 'it has no entries'],
    ['no JWT', 'eyJ', 'it is not a JWT: it has'],
    [
      'no time',
      validUntil('tomorrow'),
      'its validUntil is "tomorrow", expected an ISO 8601 time with a zone',
    ],
    ['no zone', validUntil('2027-01-01T00:00:00'), 'its validUntil is "2027-01-01T00:00:00", expected'],
    ['a day', validFrom('2026-01-01'), 'its validFrom is'],
    ['a time and something before', validFrom('x2026-01-01T00:00:00Z'), 'its validFrom is'],
    ['a time and something behind', validFrom('2026-01-01T00:00:00Zx'), 'its validFrom is'],
    ['a number as time', validFrom(1), 'its validFrom is 1, expected'],
    ['a month 13', validFrom('2026-13-01T00:00:00Z'), 'its validFrom is'],
    [
      'a list of times',
      validFrom(['2026-01-01T00:00:00Z']),
      'its validFrom is ["2026-01-01T00:00:00Z"], exp',
    ],
    ['a ttl that is no time', subject({ ttl: '300' }), 'its credentialSubject.ttl is "300", expected milli'],
    ['a ttl below 0', subject({ ttl: -1 }), 'its credentialSubject.ttl is -1, expected milliseconds'],
    ['many objects', `{"x":${objects}}`, 'it holds more than 12288 JSON objects'],
    [
      'many objects in a JWT',
      `e30.${Buffer.from(objects).toString('base64url')}.AAAA`,
      'it holds more than 12288 JSON objects',
    ],
  ])('%s', (_, body, says) => refuses(read(json, body), 'malformed', says));

  test.each<[unknown, string]>([
    [{ statusPurpose: 'suspension' }, 'its statusPurpose is "suspension", expected "revocation"'],
    [{ statusPurpose: undefined }, 'its statusPurpose is missing, expected "revocation"'],
    [{ statusPurpose: ['x', 'message'] }, 'its statusPurpose is ["x","message"], expected "revocation"'],
    [{ statusSize: 2 }, 'its statusSize is 2, expected 1 bit an entry'],
  ])('%j', (changes, says) => refuses(read(json, subject(changes as object)), 'wrong_purpose', says));

  test.each<[string, unknown, string]>([
    [
      'of tomorrow',
      validFrom('2026-06-02T00:00:00Z'),
      'it becomes valid at 2026-06-02T00:00:00.000Z; the clock here says 2026-06-01T12:00:00.000Z',
    ],
    ['of 31 s later', validFrom('2026-06-01T12:00:31Z'), 'it becomes valid at 2026-06-01T12:00:31.000Z'],
    [
      'of now',
      validUntil('2026-06-01T14:30:00+02:30'),
      'it was valid until 2026-06-01T12:00:00.000Z; the clo',
    ],
  ])('a list %s', (_, body, says) => refuses(read(json, body), 'out_of_validity', says));

  test('a list of now, of one purpose among others, of one bit an entry, is accepted', async () => {
    const changes = { validFrom: '2026-06-01T12:00:00Z', validUntil: '2026-06-01T12:00:00.001Z' };
    const credentialSubject = { statusPurpose: ['suspension', 'revocation'], statusSize: 1 };
    const list = await read(json, credentialWith([], { ...changes, credentialSubject }));
    expect(list.validUntilMs).toBe(NOW + 1);
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
    const says =
      'its encodedList unpacks to more than 16777216 bytes: make a list with at most 134217728 entries';
    await refuses(read(json, body), 'too_large', says);
    clearInterval(watch);
    expect(turns).toBeGreaterThan(2);
    expect(highest - before).toBeLessThan(64 * 1024 * 1024);
  });
});

describe('the name of a list', () => {
  const readAs = (id: string, body: unknown) => read(VC, body, issuer.did, 'credential', id);
  const OTHER = 'https://lists.example/2';

  test('another list of the same issuer is refused, in each form', async () => {
    for (const changes of [{ id: OTHER }, { id: undefined }, { id: 7 }]) {
      const list = signed([], changes);
      const says = `its id is ${changes.id === undefined ? 'missing' : JSON.stringify(changes.id)}, expected "https://lists.example/1", the name of the list: correct STATUS_LIST_ID; "any" is for mirrors`;
      for (const form of [withProof(list, issuer), await toJwt(list, issuer)])
        await refuses(readAs('https://lists.example/1', form), 'untrusted', says);
    }
    await refuses(read(VC, credentialWith([], { id: OTHER })), 'untrusted', 'its id is');
    expect((await readAs('any', withProof(signed([], { id: OTHER }), issuer))).bits).toHaveLength(16_384);
    expect((await readAs('any', await toJwt(signed([], { id: undefined }), issuer))).bits).toHaveLength(
      16_384,
    );
  });

  test('a JWT may say its name as sub, or name its subject there, and nothing else', async () => {
    const id = 'https://lists.example/1';
    for (const claims of [{ sub: id, id: undefined }, { sub: id }, { sub: `${id}#list` }])
      expect((await readAs(id, await toJwt(signed([], claims), issuer))).bits).toHaveLength(16_384);
    for (const claims of [
      { sub: OTHER },
      { sub: OTHER, id: undefined },
      { sub: id, id: OTHER },
      { sub: null },
    ])
      await refuses(
        readAs(id, await toJwt(signed([], claims), issuer)),
        'untrusted',
        'expected "https://lis',
      );
  });

  test('names are compared as URLs, without the credentials with which a list is fetched', async () => {
    const list = withProof(signed([], { id: 'https://lists.example' }), issuer);
    expect((await readAs('https://me:pw@LISTS.example:443/', list)).bits).toHaveLength(16_384);
    await refuses(
      readAs('https://lists.example/?key=secret', list),
      'untrusted',
      'expected "https://lists.example/", the',
    );
    const urn = withProof(signed([], { id: 'urn:list:1' }), issuer);
    expect((await readAs('urn:list:1', urn)).bits).toHaveLength(16_384);
    await refuses(readAs('urn:list:2', urn), 'untrusted', 'its id is "urn:list:1"');
  });
});

describe('a pinned issuer', () => {
  const refused = (body: unknown, says = '') => refuses(read(VC, body, issuer.did), 'untrusted', says);
  const none = Buffer.from('{"alg":"none"}').toString('base64url');

  test('says what it refuses', async () => {
    const other = credentialWith([], { issuer: 'https://issuer.example' });
    await refused(signed([]), 'it has no proof by that issuer, expected a vc+jwt signature');
    await refused({ ...signed([]), proof: ['x', null] }, 'it has no proof by that issuer');
    const named = `its issuer is "https://issuer.example", expected ${issuer.did}`;
    await refused(await toJwt(other, issuer), named);
    await refused(withProof(other, issuer), named);
    const long = credentialWith([], { issuer: `x:${'y'.repeat(1000)}` });
    await refused(await toJwt(long, issuer), `its issuer is "x:${'y'.repeat(78)}", expected ${issuer.did}`);
    const contrary = { ...signed([]), iss: mallory.did };
    const claim = `its iss claim is "${mallory.did}", expected its issuer "${issuer.did}"`;
    await refused(await toJwt(contrary, issuer), claim);
    await refused(`${none}.${base64url(signed([]))}.AAAA`, 'its alg is "none", expected "EdDSA"');
    const raw = read(RAW, bitsWith([]), issuer.did, 'raw');
    await refuses(raw, 'untrusted', 'it is a raw bitstring, expected a vc+jwt signature');
    const unknown = read(VC, signed([]), 'did:web:x');
    const says = 'the pinned issuer did:web:x is not a did:key of an Ed25519 key';
    await refuses(unknown, 'untrusted', says);
  });

  test('counts a proof within its own time, and of several the first that it can use', async () => {
    const list = signed([3]);
    const at = (changes: object) => withProof(list, issuer, { ...changes });
    for (const [changes, says] of [
      [
        { expires: '2026-06-01T12:00:00Z' },
        'its proof expires at "2026-06-01T12:00:00Z", expected a time with a zone that is still to come',
      ],
      [
        { created: '2026-06-01T12:00:31Z' },
        'its proof was created at "2026-06-01T12:00:31Z", expected a time with a zone that is not to',
      ],
      [{ expires: 'never' }, 'its proof expires at "never"'],
      [{ created: 1 }, 'its proof was created at 1, expected'],
    ] as const)
      await refused(at(changes), says);
    const good = { created: '2026-06-01T12:00:30Z', expires: '2026-06-01T12:00:00.001Z' };
    expect(await revokedIn(VC, at(good), issuer.did)).toEqual([3]);
    expect(await revokedIn(VC, at({ created: undefined }), issuer.did)).toEqual([3]);
    const proofs = [
      { cryptosuite: 'ecdsa-jcs-2019' },
      { proofPurpose: 'authentication' },
      { expires: '2026-01-02T00:00:00Z' },
      good,
    ].map((changes) => at(changes)['proof']);
    expect(await revokedIn(VC, { ...list, proof: proofs }, issuer.did)).toEqual([3]);
    // What decides is the first usable one, not any that verifies.
    const forged = { ...(at({})['proof'] as object), proofValue: `z${base58.encode(Buffer.alloc(64, 1))}` };
    await refused({ ...list, proof: [forged, ...proofs] }, 'its proof does not verify');
  });

  test('reads a context that is a text like a list of one', async () => {
    const context = 'https://www.w3.org/ns/credentials/v2';
    const list = signed([3], { '@context': context });
    expect(await revokedIn(VC, withProof(list, issuer), issuer.did)).toEqual([3]);
    const many = signed([3], { '@context': [context, 'https://lists.example/later'] });
    // The proof names its contexts, and was made over the document with these alone.
    const { proof } = withProof({ ...many, '@context': context }, issuer);
    expect(await revokedIn(VC, { ...many, proof }, issuer.did)).toEqual([3]);
  });

  test('refuses what somebody else signed, whatever it claims', async () => {
    for (const credential of [signed([]), credentialWith([], { issuer: mallory.did })]) {
      await refused(await toJwt(credential, mallory), `its signature does not verify under ${issuer.did}`);
      await refused(withProof(credential, mallory));
      await refused(withProof(credential, mallory, { verificationMethod: issuer.method }));
    }
  });

  test('knows its issuer also as an object with an id', async () => {
    const jwt = await toJwt(credentialWith([4], { issuer: { id: issuer.did, name: 'Lists' } }), issuer);
    expect(await revokedIn(VC, jwt, issuer.did)).toEqual([4]);
  });

  test('refuses another algorithm', async () => {
    const { privateKey } = await generateKeyPair('ES256');
    const es256 = await new CompactSign(Buffer.from(JSON.stringify(signed([]))))
      .setProtectedHeader({ alg: 'ES256' })
      .sign(privateKey);
    await refused(es256);
    await refuses(read(VC, es256), 'untrusted');
  });

  test('checks nbf and exp of a vc+jwt', async () => {
    const at = async (claims: object) =>
      read(VC, await toJwt({ ...signed([]), ...claims }, issuer), issuer.did);
    const secs = NOW / 1000;
    await refuses(at({ nbf: secs + 31 }), 'out_of_validity');
    await refuses(at({ exp: secs }), 'out_of_validity');
    await refuses(at({ exp: 'soon' }), 'malformed', 'its exp claim is "soon", expected Unix seconds');
    expect((await at({ nbf: secs + 30, exp: secs + 60, iss: issuer.did })).validUntilMs).toBe(NOW + 60_000);
    // The last moment that a date can say, and one that none can.
    const last = 'it becomes valid at +275760-09-13T00:00:00.000Z; the clock here says 2026-';
    await refuses(at({ nbf: 8.64e12 }), 'out_of_validity', last);
    const beyond = 'it becomes valid at 1000000000000000000 ms; the clock here says 2026-';
    await refuses(at({ nbf: 1e15 }), 'out_of_validity', beyond);
  });

  test('refuses a signature over anything else, or that is another one', async () => {
    const jwt = await toJwt(signed([]), issuer);
    const [header, payload, signature] = jwt.split('.') as [string, string, string];
    const flipped = Buffer.from(signature, 'base64url');
    flipped[40] = (flipped[40] ?? 0) ^ 1;
    await refused(`${header}.${payload}.${flipped.toString('base64url')}`);
    await refused(`${header}.${base64url(signed([1]))}.${signature}`);
    await refused(`${header}.${payload}.${signature}AAAA`);
    await refused(`${header}.${payload}.AAAA`);
    await refused(
      { ...withProof(signed([]), issuer), name: 'x' },
      `proof does not verify (issuer ${issuer.did})`,
    );
  });

  const purpose = 'the proofPurpose of its proof is not "assertionMethod"';
  const suite = 'its proof is "DataIntegrityProof" with "x", expected DataIntegrityProof with eddsa-jcs-2022';
  const value = 'its proofValue is not "z" and base58btc';
  test.each<[Record<string, unknown>, string]>([
    [{ created: '2026-01-01T00:00:01Z' }, 'its proof does not verify'],
    [{ extra: true }, 'its proof does not verify'],
    [{ proofPurpose: 'authentication' }, purpose],
    [{ cryptosuite: 'x' }, suite],
    [{ type: 1 }, 'its proof is unnamed with "eddsa-jcs-2022"'],
    [{ '@context': ['https://www.w3.org/2018/credentials/v1'] }, "@context does not begin with its proof's"],
    [{ proofValue: undefined }, value],
    [{ proofValue: 'z' }, 'its proof does not verify'],
    [{ proofValue: 'z0OIl' }, value],
    [{ proofValue: `z${'1'.repeat(89)}` }, value],
    [{ proofValue: `u${base58.encode(Buffer.alloc(64))}` }, value],
    [{ proofValue: `z${base58.encode(Buffer.alloc(64))}` }, 'its proof does not verify'],
  ])('refuses a proof with %j', async (change, says) => {
    const document = withProof(signed([]), issuer);
    await refused({ ...document, proof: { ...(document['proof'] as object), ...change } }, says);
    // Nor does one count that verifies, but says of itself that it is something else.
    if (says === purpose || says.startsWith('its proof is'))
      await refused(withProof(signed([]), issuer, change), says);
  });
});

test('the eddsa-jcs-2022 vector of W3C vc-di-eddsa verifies', async () => {
  // W3C vc-di-eddsa, appendix B (eddsa-jcs-2022), W3C software and document licence.
  const context = ['https://www.w3.org/ns/credentials/v2', 'https://www.w3.org/ns/credentials/examples/v2'];
  const key = 'z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2';
  const issuer = 'https://vc.example/issuers/5678';
  const proof = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: '2023-02-24T23:36:38Z',
    verificationMethod: `${issuer}#${key}`,
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
    issuer,
    validFrom: '2023-01-01T00:00:00Z',
    credentialSubject: { id: 'did:example:abcdefgh', alumniOf: 'The School of Examples' },
    proof,
  };
  const keys = {
    ...DEFAULT_KEYS,
    publicKeyOf: () => publicKeyOf(`did:key:${key}`),
    keysOf: () => [publicKeyOf(`did:key:${key}`) as Uint8Array],
    verificationMethodOf: () => proof.verificationMethod,
  };
  const readIt = (given: object) =>
    readStatusList(Buffer.from(JSON.stringify(given)), VC, {
      form: 'credential',
      id: 'any',
      issuer,
      keys,
      nowMs: NOW,
    });
  // It has no list, which is looked for when its proof has been verified.
  await refuses(readIt(document), 'malformed', 'its type is ["VerifiableCredential","AlumniCredential"]');
  await refuses(readIt({ ...document, name: 'Alumni credential' }), 'untrusted', 'its proof does not verify');
});
