import { verifyAuthenticationResponse } from '@simplewebauthn/server';
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { checkAssertion, type Assertion } from '../../src/approval/webauthn.js';
import type { Approver, PasskeyKey } from '../../src/verify/approval.js';
import { readVectors } from '../support/vectors.js';
import { Passkey, type Said } from './passkey.js';

const decode = (text: string) => Buffer.from(text, 'base64url');

/** A CBOR item of less than 65,536 bytes or units. RFC 8949 §3 */
const cbor = (major: number, value: number) =>
  value < 24
    ? Buffer.from([(major << 5) | value])
    : Buffer.from([(major << 5) | 25, value >>> 8, value & 0xff]);
const number = (value: number) => (value < 0 ? cbor(1, -1 - value) : cbor(0, value));
const bytes = (text: string) => Buffer.concat([cbor(2, decode(text).length), decode(text)]);

/** The key as authenticators write it. RFC 9052 §7 */
function coseOf(key: PasskeyKey): Uint8Array<ArrayBuffer> {
  const members: [number, Buffer][] =
    key.kty === 'OKP'
      ? [
          [1, number(1)],
          [3, number(-8)],
          [-1, number(6)],
          [-2, bytes(key.x)],
        ]
      : key.kty === 'EC'
        ? [
            [1, number(2)],
            [3, number(-7)],
            [-1, number(1)],
            [-2, bytes(key.x)],
            [-3, bytes(key.y)],
          ]
        : [
            [1, number(3)],
            [3, number(-257)],
            [-1, bytes(key.n)],
            [-2, bytes(key.e)],
          ];
  const pairs = members.map(([label, value]) => Buffer.concat([number(label), value]));
  return new Uint8Array(Buffer.concat([cbor(5, members.length), ...pairs]));
}

/** What another implementation says. It has other choices where the specification leaves one. */
async function accepts(assertion: Assertion, { id, key, origin }: Approver, challenge: Uint8Array) {
  const text = (part: Buffer) => part.toString('base64url');
  try {
    const { verified } = await verifyAuthenticationResponse({
      response: {
        id,
        rawId: id,
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: text(assertion.clientDataJSON),
          authenticatorData: text(assertion.authenticatorData),
          signature: text(assertion.signature),
        },
      },
      expectedChallenge: Buffer.from(challenge).toString('base64url'),
      expectedOrigin: origin,
      expectedRPID: new URL(origin).hostname,
      credential: { id, publicKey: coseOf(key), counter: 0 },
      requireUserVerification: true,
    });
    return verified;
  } catch {
    return false;
  }
}

const challenge = randomBytes(32);
const passkeys = (['Ed25519', 'P-256', 'RSA'] as const).map((kind) => [kind, new Passkey(kind)] as const);

describe.each(passkeys)('an assertion of %s', (kind, passkey) => {
  const { approver } = passkey;
  /** Has our answer, if the other implementation refuses, or is known to be laxer. */
  async function answerTo(assertion: Assertion, to: Uint8Array = challenge, isStricter = false) {
    const reading = checkAssertion(assertion, approver, to);
    expect(await accepts(assertion, approver, to)).toBe('value' in reading || isStricter);
    return reading;
  }

  it.each<Said>([
    {},
    { counter: 0 },
    { counter: 0xffffffff },
    // Backed up, and may be; bits without a meaning.
    { flags: 0x1d },
    { flags: 0x0d },
    { flags: 0x27 },
    { client: { crossOrigin: undefined } },
    { client: { other_keys_can_be_added_here: 'do not compare clientDataJSON against a template' } },
  ])('is a yes with %j', async (said) => {
    const { counter } = said;
    const expected: unknown = counter ?? expect.any(Number);
    expect(await answerTo(passkey.assert(challenge, said))).toEqual({ value: expected });
  });

  it.each<[string, Said, RegExp, 'stricter'?]>([
    ['another challenge', { client: { challenge: 'AAAA' } }, /^challenge is "AAAA", expected "/],
    [
      'its challenge padded',
      { client: { challenge: `${challenge.toString('base64url')}=` } },
      /^challenge is/,
    ],
    ['no challenge', { client: { challenge: undefined } }, /^challenge is missing/],
    ['another type', { client: { type: 'webauthn.create' } }, /^type is "webauthn.create", expected "web/],
    ['another origin', { client: { origin: 'https://drs.example.evil' } }, /^origin is "https:\/\/drs.exam/],
    ['another port', { client: { origin: 'https://drs.example:8443' } }, /^origin is/],
    ['another scheme', { client: { origin: 'http://drs.example' } }, /^origin is/],
    ['an origin in an array', { client: { origin: ['https://drs.example'] } }, /^origin is \["/],
    ['a frame of another origin', { client: { crossOrigin: true } }, /^crossOrigin is true/, 'stricter'],
    ['a frame of which it says 0', { client: { crossOrigin: 0 } }, /^crossOrigin is 0/, 'stricter'],
    ['a page above', { client: { topOrigin: 'https://drs.example' } }, /^topOrigin is "/],
    ['another RP ID', { rpId: 'example' }, /^the RP ID is another one, expected drs.example$/],
    ['nobody present', { flags: 0x04 }, /^the user was not present/],
    ['nobody verified', { flags: 0x01 }, /^the user was not verified/],
    ['no flags', { flags: 0 }, /^the user was not present/],
    ['a copy of what may not be copied', { flags: 0x15 }, /^the passkey is backed up/],
    ['extensions', { flags: 0x85, rest: [0xa0] as never }, /^authenticatorData is 38 bytes/, 'stricter'],
    ['a flag of extensions that are missing', { flags: 0x85 }, /^authenticatorData is 37 bytes/],
    ['bytes behind the counter', { rest: [0] as never }, /^authenticatorData is 38 bytes/],
    ['client data that are no JSON', { clientText: '{' }, /^clientDataJSON is no object/],
    ['client data that are no object', { clientText: '[]' }, /^clientDataJSON is no object/],
    [
      'client data that are not UTF-8',
      { clientText: Uint8Array.of(0x22, 0xff, 0x22) },
      /^clientDataJSON is no/,
    ],
    [
      'client data with a member twice',
      {
        clientText: `{"type":"webauthn.create","type":"webauthn.get","challenge":"${challenge.toString('base64url')}","origin":"https://drs.example"}`,
      },
      /^clientDataJSON is no object/,
      'stricter',
    ],
    ['large client data', { client: { more: 'a'.repeat(4096) } }, /^clientDataJSON is \d+ bytes/, 'stricter'],
  ])('is refused with %s', async (_, said, problem, isStricter) => {
    const answer = await answerTo(passkey.assert(challenge, said), challenge, isStricter !== undefined);
    expect(answer).toEqual({ problem: expect.stringMatching(problem) as unknown });
  });

  const FORGED = { problem: 'the signature is not one of this passkey' };

  it('is refused as an answer to another challenge', async () => {
    const answer = await answerTo(passkey.assert(challenge), randomBytes(32));
    expect(answer).toMatchObject({ problem: expect.stringMatching(/^challenge is/) as unknown });
  });

  it('is refused of another key of its kind, and of another kind', () => {
    for (const other of [new Passkey(kind), ...passkeys.map(([, one]) => one)])
      if (other !== passkey)
        expect(checkAssertion(other.assert(challenge), approver, challenge)).toEqual(FORGED);
  });

  it('is refused if a bit of it is changed after it was signed', async () => {
    const right = passkey.assert(challenge);
    for (const part of ['clientDataJSON', 'authenticatorData', 'signature'] as const)
      for (const at of [0, 5, right[part].length - 1]) {
        const bent = Buffer.from(right[part]);
        bent[at] = (bent[at] as number) ^ 0x01;
        expect(await answerTo({ ...right, [part]: bent })).toEqual(FORGED);
      }
  });

  it('is refused if members are appended to its client data after it was signed', async () => {
    const right = passkey.assert(challenge);
    const text = `${right.clientDataJSON.toString().slice(0, -1)},"origin":"https://drs.example"}`;
    expect(await answerTo({ ...right, clientDataJSON: Buffer.from(text) })).toEqual(FORGED);
  });

  it('is refused with bytes before or behind its signature, with half of it, and without one', () => {
    const right = passkey.assert(challenge);
    const { signature } = right;
    for (const wrong of [
      Buffer.concat([signature, Buffer.of(0)]),
      Buffer.concat([Buffer.of(0), signature]),
      signature.subarray(0, signature.length / 2),
      signature.subarray(0, -1),
      Buffer.alloc(0),
      Buffer.alloc(signature.length),
    ])
      expect(checkAssertion({ ...right, signature: wrong }, approver, challenge)).toEqual(FORGED);
  });
});

describe('a signature of P-256', () => {
  const passkey = new Passkey('P-256');
  const numbersOf = (der: Buffer) => {
    const length = der[3] as number;
    return [der.subarray(4, 4 + length), der.subarray(6 + length)] as const;
  };
  const derOf = (r: Uint8Array, s: Uint8Array) =>
    Buffer.concat([Buffer.of(0x30, 4 + r.length + s.length, 2, r.length), r, Buffer.of(2, s.length), s]);
  // Of r the first bit is set, so a zero stands before it; of s it is not.
  let right = passkey.assert(challenge);
  while (right.signature[3] !== 33 || numbersOf(right.signature)[1].length !== 32)
    right = passkey.assert(challenge);
  const [r, s] = numbersOf(right.signature);
  const isYes = (signature: Buffer) =>
    'value' in checkAssertion({ ...right, signature }, passkey.approver, challenge);

  it('has its one form in DER', () => {
    expect(derOf(r, s)).toEqual(right.signature);
    expect(isYes(derOf(r, s))).toBe(true);
  });

  it.each<[string, () => Buffer]>([
    ['two zeros before r', () => derOf(Buffer.concat([Buffer.of(0), r]), s)],
    ['a zero before s', () => derOf(r, Buffer.concat([Buffer.of(0), s]))],
    ['r negative', () => derOf(r.subarray(1), s)],
    ['r of another type', () => Buffer.from(right.signature).fill(3, 2, 3)],
    ['r zero', () => derOf(Buffer.of(0), s)],
    ['r empty', () => derOf(Buffer.alloc(0), s)],
    ['s zero', () => derOf(r, Buffer.of(0))],
    [
      'a third number',
      () =>
        Buffer.concat([
          Buffer.of(0x30, right.signature.length + 1),
          right.signature.subarray(2),
          Buffer.of(2, 1, 1),
        ]),
    ],
    [
      'a null behind',
      () =>
        Buffer.concat([
          Buffer.of(0x30, right.signature.length),
          right.signature.subarray(2),
          Buffer.of(5, 0),
        ]),
    ],
    ['bytes behind', () => Buffer.concat([right.signature, Buffer.of(0, 0)])],
    ['a long form of its length', () => Buffer.concat([Buffer.of(0x30, 0x81), right.signature.subarray(1)])],
    [
      'an indefinite length',
      () => Buffer.concat([Buffer.of(0x30, 0x80), right.signature.subarray(2), Buffer.of(0, 0)]),
    ],
    ['another tag', () => Buffer.concat([Buffer.of(0x31), right.signature.subarray(1)])],
    [
      'numbers without DER',
      () => Buffer.concat([r, s].map((value) => Buffer.concat([Buffer.alloc(32), value]).subarray(-32))),
    ],
    ['33 digits', () => derOf(Buffer.concat([Buffer.of(1), Buffer.alloc(32)]), s)],
  ])('is refused with %s', (_, forge) => {
    expect(forge()).not.toEqual(right.signature);
    expect(isYes(forge())).toBe(false);
  });

  it('is a yes for short numbers, too', () => {
    // One of 256 numbers has a byte less.
    for (let left = 2000; left > 0; left--) {
      const assertion = passkey.assert(challenge);
      const isShort = numbersOf(assertion.signature).some((value) => value.length < 32);
      if (!isShort) continue;
      expect(checkAssertion(assertion, passkey.approver, challenge)).toHaveProperty('value');
      return;
    }
    throw new Error('no short number in 2,000 signatures');
  });
});

describe('the test vectors of WebAuthn Level 3', () => {
  // By the flags of each, and what its client data say.
  const UNVERIFIED = 'the user was not verified (UV), expected a PIN, a finger or a face';
  const OUTCOMES: Readonly<Record<string, object>> = {
    'none-es256': { problem: UNVERIFIED },
    'packed-self-es256': { problem: UNVERIFIED },
    'none-es256-crossOrigin': { problem: 'crossOrigin is true, expected a page that is not framed' },
    'none-es256-topOrigin': { problem: 'crossOrigin is true, expected a page that is not framed' },
    'none-es256-long-credential-id': { value: 0 },
    'packed-es256': { value: 0 },
    'packed-rs256': { problem: UNVERIFIED },
    'packed-eddsa': { problem: UNVERIFIED },
    'tpm-es256': { value: 0 },
    'android-key-es256': { problem: UNVERIFIED },
    'apple-es256': { problem: UNVERIFIED },
    'fido-u2f-es256': { problem: UNVERIFIED },
  };
  const vectors = readVectors('webauthn').filter(({ key: { crv = 'RSA' } }) =>
    ['Ed25519', 'P-256', 'RSA'].includes(crv),
  );

  it('are all there', () => {
    expect(vectors.map(({ id }) => id)).toEqual(Object.keys(OUTCOMES));
  });

  // The signature is verified first, so every outcome says that it is right.
  it.each(vectors)('$id', (vector) => {
    const [client, authenticator, signature] = (
      ['clientDataJSON', 'authenticatorData', 'signature'] as const
    ).map((part) => decode(vector[part])) as [Buffer, Buffer, Buffer];
    const assertion = { clientDataJSON: client, authenticatorData: authenticator, signature };
    const approver: Approver = {
      name: 'W3C',
      id: vector.credential,
      key: vector.key as PasskeyKey,
      origin: 'https://example.org',
    };
    const to = decode(vector.challenge);
    expect(checkAssertion(assertion, approver, to)).toEqual(OUTCOMES[vector.id]);
    signature[signature.length - 1] = (signature.at(-1) as number) ^ 1;
    expect(checkAssertion(assertion, approver, to)).toEqual({
      problem: 'the signature is not one of this passkey',
    });
  });
});
