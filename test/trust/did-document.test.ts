import { describe, expect, it } from 'vitest';
import { readDocument } from '../../src/trust/did-document.js';
import { generateKey, type SigningKey } from '../../src/issue/signing-key.js';

const DID = 'did:web:a.example';
const NOW = Date.parse('2027-01-15T08:00:00Z');
const [one, two] = [generateKey(), generateKey()] as const;
const multibaseOf = ({ did }: SigningKey) => did.slice('did:key:'.length);
const multikey = (key: SigningKey, more: object = {}) => ({
  id: `${DID}#1`,
  type: 'Multikey',
  controller: DID,
  publicKeyMultibase: multibaseOf(key),
  ...more,
});
const jwk = (key: SigningKey, more: object = {}) => ({
  id: `${DID}#1`,
  type: 'JsonWebKey',
  controller: DID,
  publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x: key.toPublicJwk().x, ...more },
});
const read = (document: unknown) =>
  readDocument(Buffer.from(typeof document === 'string' ? document : JSON.stringify(document)), DID, NOW);
/** The names and keys of a document with these methods. */
function keysOf(assertionMethod: unknown, verificationMethod: unknown = []) {
  const keys = read({ '@context': ['x'], id: DID, verificationMethod, assertionMethod });
  if (typeof keys === 'string') return keys;
  return keys.map(({ name, key }) => [
    name,
    [one, two].findIndex((own) => Buffer.compare(own.publicKey, key) === 0),
  ]);
}

describe('the keys of a document', () => {
  it.each<[string, object]>([
    ['Multikey', multikey(one)],
    ['Ed25519VerificationKey2020', multikey(one, { type: 'Ed25519VerificationKey2020' })],
    ['JsonWebKey', jwk(one)],
    ['JsonWebKey2020', { ...jwk(one), type: 'JsonWebKey2020' }],
    ['a JsonWebKey with more members', jwk(one, { kid: 'x', use: 'sig', alg: 'EdDSA' })],
    ['a short id', multikey(one, { id: '#1' })],
    ['a key that has not expired', multikey(one, { expires: '2027-01-15T08:00:01Z' })],
    ['a key that has not expired elsewhere', multikey(one, { expires: '2027-01-15T09:00:01+01:00' })],
  ])('are read from %s, embedded or by reference', (_, method) => {
    expect(keysOf([method])).toEqual([['1', 0]]);
    expect(keysOf([`${DID}#1`], [method])).toEqual([['1', 0]]);
    expect(keysOf(['#1'], [method])).toEqual([['1', 0]]);
  });

  it.each<[string, unknown]>([
    ['another type', multikey(one, { type: 'Ed25519VerificationKey2018' })],
    ['no type', multikey(one, { type: undefined })],
    ['a curve that is another', jwk(one, { crv: 'X25519' })],
    ['a key of another kind', jwk(one, { kty: 'EC' })],
    ['a JWK of another type', { ...jwk(one), type: 'JsonWebKey2018' }],
    ['a P-256 key', { ...jwk(one), publicKeyJwk: { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA' } }],
    ['a private key', jwk(one, { d: 'AAAA' })],
    ['a short key', jwk(one, { x: 'AAAA' })],
    ['a padded key', jwk(one, { x: `${one.toPublicJwk().x}=` })],
    ['a key that is no text', jwk(one, { x: 7 })],
    ['no key', multikey(one, { publicKeyMultibase: undefined })],
    ['a key that is no object', { ...jwk(one), publicKeyJwk: null }],
    ['a multibase that is no text', multikey(one, { publicKeyMultibase: 7 })],
    [
      'an X25519 multikey',
      multikey(one, { publicKeyMultibase: 'z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc' }),
    ],
    ['a multibase of another base', multikey(one, { publicKeyMultibase: `u${multibaseOf(one).slice(1)}` })],
    ['a multikey in a JsonWebKey', { ...multikey(one), type: 'JsonWebKey' }],
    ['a JWK in a Multikey', { ...jwk(one), type: 'Multikey' }],
    ['another controller', multikey(one, { controller: 'did:web:b.example' })],
    ['no controller', multikey(one, { controller: undefined })],
    ['a revoked key', multikey(one, { revoked: '2028-01-01T00:00:00Z' })],
    ['an expired key', multikey(one, { expires: '2027-01-15T08:00:00Z' })],
    ['a key that has expired elsewhere', multikey(one, { expires: '2027-01-15T09:00:00+01:00' })],
    ['a key that expires behind a time', multikey(one, { expires: '2028-01-01T00:00:00Z (x)' })],
    ['a key that expires at no time', multikey(one, { expires: 'never' })],
    ['a key that expires without a zone', multikey(one, { expires: '2028-01-01T00:00:00' })],
    ["a key that expires at a number's time", multikey(one, { expires: 4e12 })],
    ['no id', multikey(one, { id: undefined })],
    ['the id of another DID', multikey(one, { id: 'did:web:b.example#1' })],
    ['an id that begins alike', multikey(one, { id: `${DID}.org#1` })],
    ['an id without a fragment', multikey(one, { id: DID })],
    ['an id with an empty fragment', multikey(one, { id: `${DID}#` })],
    ['an id with a long fragment', multikey(one, { id: `#${'1'.repeat(201)}` })],
    ['an id with two fragments', multikey(one, { id: `${DID}#1#1` })],
    ['an id that is no text', multikey(one, { id: 7 })],
    ['no object', 7],
    ['null', null],
  ])('are without %s', (_, method) => {
    const other = multikey(two, { id: '#2' });
    expect(keysOf([method, other])).toEqual([['2', 1]]);
    expect(keysOf([`${DID}#1`, '#1', '#2'], [method, other])).toEqual([['2', 1]]);
  });

  it('are those for assertions alone', () => {
    const keys = read({
      id: DID,
      verificationMethod: [multikey(one)],
      authentication: ['#1'],
      keyAgreement: ['#1'],
    });
    expect(keys).toEqual([]);
    expect(keysOf(['#2', 'did:web:b.example#1', '', '1'], [multikey(one)])).toEqual([]);
  });

  it('are in the order of assertionMethod, and the first of a name counts', () => {
    const second = multikey(two, { id: '#2' });
    expect(keysOf(['#2', '#1'], [multikey(one), second])).toEqual([
      ['2', 1],
      ['1', 0],
    ]);
    expect(keysOf(['#1'], [multikey(one), multikey(two)])).toEqual([['1', 0]]);
    expect(keysOf(['#1', multikey(two)], [multikey(one)])).toEqual([
      ['1', 0],
      ['1', 1],
    ]);
  });

  it('have names of at most 200 characters', () => {
    const name = '1'.repeat(200);
    expect(keysOf([multikey(one, { id: `#${name}` })])).toEqual([[name, 0]]);
  });

  it('are at most 16', () => {
    const many = Array.from({ length: 20 }, (_, at) => multikey(one, { id: `#${at}` }));
    expect(keysOf([7, ...many])).toHaveLength(16);
  });
});

describe('a document', () => {
  it.each<[string, unknown]>([
    ['of another DID', { id: 'did:web:b.example' }],
    ['without an id', {}],
    ['of a longer DID', { id: `${DID}:a` }],
    ['that is an array', [{ id: DID }]],
    ['that is null', null],
    ['that is no JSON', '<!doctype html>'],
    ['that is empty', ''],
    ['with two ids', `{"id":"did:web:b.example","id":"${DID}"}`],
    ['whose methods are no array', { id: DID, verificationMethod: {} }],
    ['whose assertionMethod is a text', { id: DID, assertionMethod: '#1' }],
    ['whose assertionMethod is null', { id: DID, assertionMethod: null }],
  ])('%s is refused', (_, document) => expect(read(document)).toBeTypeOf('string'));

  it('that is not UTF-8 is refused', () =>
    expect(readDocument(Buffer.from([0x7b, 0xff, 0x7d]), DID, NOW)).toBe('it is not UTF-8'));

  it('says what is wrong with it', () => {
    expect(read('{')).toMatch(/^it is not strict JSON: ./);
    const expected = 'its verificationMethod or assertionMethod is not an array';
    expect(read({ id: DID, verificationMethod: 7 })).toBe(expected);
    expect(read({ id: DID })).toEqual([]);
  });

  it('says which DID it is of', () =>
    expect(read({ id: 'did:web:b.example' })).toBe(`its id is "did:web:b.example", expected "${DID}"`));
});
