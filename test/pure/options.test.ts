import { expect, it } from 'vitest';
import { createVerifier, type PureVerifyOptions } from '../../src/pure/index.js';
import { PURE_RULES, type PureOptions } from '../../src/pure/options.js';
import { sodium } from '../../src/signatures/sodium.js';
import { readOption } from '../../src/verifier/kinds.js';
import { VERIFIER_OPTIONS } from '../../src/verifier/options.js';

const DID = 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp';

it('its options are read like those of the verifier with native code', () => {
  const values = [
    undefined,
    0,
    1,
    16,
    1024,
    1025,
    86_400,
    86_401,
    -1,
    1.5,
    true,
    '',
    'any',
    'a',
    [],
    [DID],
    [DID, 'a'],
  ];
  for (const [name, option] of Object.entries(PURE_RULES))
    for (const value of values)
      expect([name, value, readOption(option, value, {})]).toEqual([
        name,
        value,
        readOption(VERIFIER_OPTIONS[name as keyof typeof PURE_RULES], value, {}),
      ]);
});

it('every problem of its options is named', () => {
  const create = (options: object) => () => createVerifier(options as PureOptions);
  expect(create({})).toThrow('sodium: it has no crypto_sign_verify_detached, expected libsodium');
  expect(create({ sodium, trustedRoot: [DID] })).toThrow(
    'trustedRoot is not an option here, expected trustedRoots',
  );
  expect(create({ sodium, trustedRoots: undefined, maxChainDepth: 0 })).toThrow(
    /^trustedRoots: it is undefined.*\nmaxChainDepth: |^maxChainDepth: .*\ntrustedRoots: it is undefined/,
  );
});

it('bad input gives a verdict', async () => {
  const verifier = createVerifier({ sodium });
  for (const bundle of [undefined, null, 1, [], {}, { receipts: 'a' }])
    expect(await verifier.verify(bundle)).toMatchObject({
      valid: false,
      error: { code: 'MALFORMED_BUNDLE' },
    });
});

it('refuses an option of a call that it does not know', async () => {
  const misspelt = { bodytext: '{}' } as PureVerifyOptions;
  await expect(createVerifier({ sodium }).verify({}, misspelt)).rejects.toThrow(
    new TypeError('bodytext is not an option here, expected bodyText'),
  );
});

it('a time that is none gives no verdict: with NaN, nothing would have expired', async () => {
  await expect(createVerifier({ sodium }).verify({}, { now: NaN })).rejects.toThrow(
    'now is NaN, expected Unix seconds',
  );
});
