import { expect, it } from 'vitest';
import { createVerifier, type PureOptions, type PureVerifyOptions } from '../../src/pure/index.js';
import { sodium } from '../../src/signatures/sodium.js';

const DID = 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp';

it('every problem of its options is named', () => {
  const create = (options: object) => () => createVerifier(options as PureOptions);
  expect(create({})).toThrow('sodium is missing: expected libsodium');
  expect(create({ sodium, trustedRoot: [DID] })).toThrow(
    /^trustedRoot is not an option here, expected one of .*trustedRoots/,
  );
  expect(create({ sodium, trustedRoots: undefined, maxChainDepth: 0 })).toThrow(
    /^maxChainDepth is 0: .*\ntrustedRoots: it is undefined/,
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
    /^bodytext is not an option here, expected one of .*bodyText/,
  );
});

it('a time that is none gives no verdict: with NaN, nothing would have expired', async () => {
  await expect(createVerifier({ sodium }).verify({}, { now: NaN })).rejects.toThrow(
    'now is NaN: expected Unix seconds',
  );
});
