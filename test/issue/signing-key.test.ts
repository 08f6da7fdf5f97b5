import { createPublicKey, verify } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { didOfJwk, generateKey, importKey } from '../../src/issue/index.js';
import { refusalOf } from './random-chain.js';

// RFC 8037 appendix A.1, A.2.
const RFC_8037_KEY = {
  kty: 'OKP',
  crv: 'Ed25519',
  d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
};

describe('a key', () => {
  it('comes back from its JWK', () => {
    const key = generateKey();
    const stored: unknown = JSON.parse(JSON.stringify(key.toJwk()));
    const again = importKey(stored);
    expect(again.did).toBe(key.did);
    expect(again.sign(Buffer.from('x'))).toEqual(key.sign(Buffer.from('x')));
    expect(didOfJwk(stored)).toBe(key.did);
    expect(didOfJwk(key.toPublicJwk())).toBe(key.did);
  });

  it('is that of RFC 8037, and signs as it says', () => {
    const key = importKey(RFC_8037_KEY);
    expect(key.did).toBe('did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw');
    expect(key.toPublicJwk()).toEqual({ kty: 'OKP', crv: 'Ed25519', kid: key.did, x: RFC_8037_KEY.x });
    // RFC 8037 appendix A.4.
    const signature = key.sign(Buffer.from('eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc'));
    expect(Buffer.from(signature).toString('base64url')).toBe(
      'hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg',
    );
  });

  it('signs what node:crypto verifies', () => {
    const key = generateKey();
    const publicKey = createPublicKey({ key: { ...key.toPublicJwk() }, format: 'jwk' });
    expect(verify(null, Buffer.from('message'), publicKey, key.sign(Buffer.from('message')))).toBe(true);
  });

  it('does not show its secret', () => {
    const key = importKey(RFC_8037_KEY);
    const shown = [inspect(key, { depth: 9, showHidden: true }), JSON.stringify(key)].join();
    expect(shown).toContain(key.did);
    expect(shown).not.toContain(RFC_8037_KEY.d);
    expect(shown).not.toContain('9d 61 b1 9d');
    expect(shown).not.toContain('157,97,177,157');
  });
});

describe('importKey refuses', () => {
  const cases: [string, unknown, string][] = [
    ['what is no object', 'key', 'not an Ed25519 key'],
    ['null', null, 'not an Ed25519 key'],
    ['another curve', { ...RFC_8037_KEY, crv: 'X25519' }, 'not an Ed25519 key'],
    ['a public key', { ...RFC_8037_KEY, d: undefined }, 'only a public key'],
    ['a short seed', { ...RFC_8037_KEY, d: 'AAAA' }, 'and "d", 32 bytes in strict base64url'],
    ['padding', { ...RFC_8037_KEY, x: `${RFC_8037_KEY.x}=` }, 'and "x", 32 bytes in strict base64url'],
    ['halves of two keys', { ...RFC_8037_KEY, x: generateKey().toPublicJwk().x }, 'does not belong'],
  ];
  it.each(cases)('%s', async (_, jwk, message) => {
    const error = await refusalOf(() => importKey(jwk));
    expect(error.code).toBe('INVALID_KEY');
    expect(error.message).toContain(message);
    expect(error.message).not.toContain(RFC_8037_KEY.d);
  });
});
