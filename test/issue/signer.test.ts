import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { createVerifier } from '../../src/verifier/create-verifier.js';
import {
  createBundle,
  createConsent,
  generateKey,
  issueInvocation,
  issueRootDelegation,
  issueSubDelegation,
  signClaims,
  webCryptoSigner,
  type Signer,
} from '../../src/issue/index.js';

const [alice, bot] = [generateKey(), generateKey()];
/** A signer of the same key, somewhere else. */
const elsewhere = (key: typeof alice): Signer => ({
  did: key.did,
  sign: (bytes) => Promise.resolve(key.sign(bytes)),
});
const toBot = {
  audience: bot.did,
  command: '/tools',
  policy: { allowed_tools: ['search'] },
  consent: createConsent({ text: 'x', locale: 'en', method: 'test' }),
};

describe('a signer', () => {
  it('issues what the same key issues in memory', async () => {
    const fixed = { ...toBot, now: 1_900_000_000, jti: 'dr:1' };
    const inMemory = issueRootDelegation({ ...fixed, key: alice });
    expect(inMemory).toBeInstanceOf(Promise);
    for (const key of [elsewhere(alice), { did: alice.did, sign: (bytes: Uint8Array) => alice.sign(bytes) }])
      expect(await issueRootDelegation({ ...fixed, key })).toBe(await inMemory);
  });

  it('may give bytes of any realm, and an ArrayBuffer, as WebCrypto does', async () => {
    const fixed = { ...toBot, now: 1_900_000_000, jti: 'dr:1' };
    const inMemory = await issueRootDelegation({ ...fixed, key: alice });
    const of = (make: string) => (bytes: Uint8Array) =>
      (runInNewContext(make) as (list: number[]) => Uint8Array)([...alice.sign(bytes)]);
    for (const make of ['(list) => Uint8Array.from(list)', '(list) => Uint8Array.from(list).buffer'])
      for (const sign of [of(make), (bytes: Uint8Array) => Promise.resolve(of(make)(bytes))])
        expect(await issueRootDelegation({ ...fixed, key: { did: alice.did, sign } })).toBe(inMemory);
    const buffer = (bytes: Uint8Array) => Uint8Array.from(alice.sign(bytes)).buffer;
    expect(await issueRootDelegation({ ...fixed, key: { did: alice.did, sign: buffer } })).toBe(inMemory);
    for (const found of [
      '({ length: 64 })',
      'Array(64).fill(0)',
      'new Uint16Array(64)',
      'new DataView(new ArrayBuffer(64))',
    ]) {
      const sign = () => runInNewContext(found) as Uint8Array;
      await expect(issueRootDelegation({ ...fixed, key: { did: alice.did, sign } })).rejects.toThrow(
        'gave object',
      );
    }
  });

  it('makes a chain and a call that a verifier accepts, with a key of WebCrypto that cannot be read', async () => {
    const pair = (await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify'])) as Parameters<
      typeof webCryptoSigner
    >[0];
    const agent = await webCryptoSigner(pair);
    await expect(crypto.subtle.exportKey('pkcs8', pair.privateKey)).rejects.toThrow();
    const root = await issueRootDelegation({ ...toBot, key: elsewhere(alice) });
    const sub = await issueSubDelegation({ ...toSub([root]), key: elsewhere(bot), audience: agent.did });
    const chain = [root, sub];
    const args = { tool: 'search' };
    const invocation = await issueInvocation({ key: agent, chain, args, toolServer: 'https://a.example' });
    const verifier = createVerifier({ workerThreads: 0 });
    const verdict = await verifier.verify(createBundle({ receipts: chain, invocation }), { body: args });
    await verifier.close();
    expect(verdict).toMatchObject({ valid: true, binding: 'match' });
  });

  const toSub = (chain: string[]) => ({ chain, audience: alice.did, policy: { allowed_tools: ['search'] } });

  it.each<[string, Signer, string]>([
    [
      'with another key',
      { did: alice.did, sign: (bytes) => bot.sign(bytes) },
      'does not verify under its did',
    ],
    [
      'something else',
      { did: alice.did, sign: () => alice.sign(Buffer.from('x')) },
      'does not verify under its did',
    ],
    ['too few bytes', { did: alice.did, sign: (bytes) => alice.sign(bytes).subarray(1) }, 'gave 63 bytes'],
    ['a text', { did: alice.did, sign: (() => 'c2ln') as never }, 'gave string, expected the 64 bytes'],
    [
      'under a DID that is none',
      { did: 'did:web:x', sign: (bytes) => alice.sign(bytes) },
      'expected a did:key',
    ],
  ])('is refused if it signs %s', async (_, key, message) => {
    const refused = { code: 'INVALID_KEY', message: expect.stringContaining(message) as string };
    await expect(issueRootDelegation({ ...toBot, key })).rejects.toMatchObject(refused);
    await expect(signClaims({}, key)).rejects.toMatchObject(refused);
  });

  it.each([alice, elsewhere(alice)])('rejects, and does not throw, where it is refused', async (key) => {
    const root = await issueRootDelegation({ ...toBot, key });
    const call = { key, chain: [root], args: { tool: 'search' }, toolServer: 'x' };
    const refused: [Promise<string>, string][] = [
      [issueRootDelegation({ ...toBot, key, polici: {} } as never), 'INVALID_OPTION'],
      [issueRootDelegation(undefined as never), 'INVALID_OPTION'],
      [signClaims({}, {} as never), 'INVALID_OPTION'],
      [issueSubDelegation({ ...toSub([root]), key }), 'ISSUER_MISMATCH'],
      [issueSubDelegation({ ...toSub([root]), key: elsewhere(bot), policy: {} }), 'POLICY_ESCALATION'],
      [issueInvocation(call), 'INVOKER_MISMATCH'],
      [issueInvocation({ ...call, args: { tool: NaN } }), 'MALFORMED_INVOCATION'],
    ];
    for (const [issued, code] of refused) await expect(issued).rejects.toMatchObject({ code });
  });

  it('passes on why it did not sign', async () => {
    const key = { did: alice.did, sign: () => Promise.reject(new RangeError('the token is not plugged in')) };
    await expect(issueRootDelegation({ ...toBot, key })).rejects.toThrow('the token is not plugged in');
  });

  it('is not made of a key of another algorithm', async () => {
    const other = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, [
      'sign',
      'verify',
    ]);
    await expect(webCryptoSigner(other)).rejects.toThrow('is of ECDSA and ECDSA, expected Ed25519');
  });
});
