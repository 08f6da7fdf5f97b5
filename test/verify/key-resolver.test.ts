import { describe, expect, it } from 'vitest';
import type { KeyResolver } from '../../src/protocol/key-resolver.js';
import { verifyCheck } from '../../src/signatures/in-thread.js';
import { Failure } from '../../src/verify/codes.js';
import { judge } from '../../src/verify/judge.js';
import { NOTHING_REVOKED, type JudgeParts } from '../../src/verify/parts.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import { Chain } from '../../src/verify/receipt.js';
import { childClaims, invocationClaims, NOW, rootClaims, signJwt, type Party } from '../support/chain.js';
import { newKeyPair } from '../support/key-pair.js';
import { RULES } from '../support/receipts.js';

/** Keys under names that say nothing about them. */
class NamedKeys implements KeyResolver {
  version = 0;
  readonly opening = 0;
  readonly expected = 'a did:test that is on record';
  readonly #keys = new Map<string, Uint8Array>();

  /** A party of this name with a new key, which takes the place of the name's old one. */
  renew(name: string): Party {
    const { privateKey, bytes } = newKeyPair();
    const did = `did:test:${name}`;
    this.#keys.set(did, bytes);
    this.version++;
    return { did, key: privateKey };
  }

  publicKeyOf(): null {
    return null;
  }

  keysOf(did: string): readonly Uint8Array[] {
    const key = this.#keys.get(did);
    return key === undefined ? [] : [key];
  }

  whenReady(): null {
    return null;
  }

  verificationMethodOf(did: string): string {
    return `${did}#1`;
  }
}

type Known = Pick<JudgeParts, 'rules' | 'cache' | 'keys'>;

function makeWorld() {
  const keys = new NamedKeys();
  const parties = [keys.renew('alice'), keys.renew('bot'), keys.renew('helper')] as const;
  const deps: Known = { rules: RULES, cache: new ReceiptCache(1e6), keys };
  return { keys, parties, deps };
}

function makeBundle([alice, bot, helper]: readonly [Party, Party, Party]) {
  const root = signJwt(rootClaims(alice, bot), alice);
  const receipts = [root, signJwt(childClaims(root, alice, bot, helper), bot)];
  const invocation = signJwt(invocationClaims(receipts, alice, helper), helper);
  return { bundle_version: '4.0', receipts, invocation };
}

async function verify(bundle: unknown, known: Known, whilePending = () => Promise.resolve<unknown>(0)) {
  let signatures = 0;
  const parts: JudgeParts = {
    ...{ ...known, clock: () => NOW, requiresBinding: false, use: null },
    revocation: { refreshIfStale: () => null, refreshLists: () => null, view: NOTHING_REVOKED },
    signatures: {
      verify: async (checks) => {
        signatures = checks.length;
        await whilePending();
        return checks.map(verifyCheck);
      },
    },
  };
  const { chain, failure } = await judge({ bundle, body: null }, parts);
  return { signatures, outcome: failure ?? chain };
}

describe("keys that are not in the issuers' names", () => {
  it('verify a chain, and are asked for once while it is cached', async () => {
    const { parties, deps } = makeWorld();
    const bundle = makeBundle(parties);
    expect(await verify(bundle, deps)).toMatchObject({ signatures: 3, outcome: expect.any(Chain) as Chain });
    expect(await verify(bundle, deps)).toMatchObject({ signatures: 1, outcome: expect.any(Chain) as Chain });
  });

  it('are asked for again only where a receipt is new', async () => {
    const { parties, deps } = makeWorld();
    const [alice, bot, helper] = parties;
    await verify(makeBundle(parties), deps);
    const { receipts } = makeBundle(parties);
    const leaf = signJwt(childClaims(receipts[1] as string, alice, helper, bot), helper);
    const longer = [...receipts, leaf];
    const invocation = signJwt(invocationClaims(longer, alice, bot), bot);
    const bundle = { bundle_version: '4.0', receipts: longer, invocation };
    expect(await verify(bundle, deps)).toMatchObject({ signatures: 2, outcome: expect.any(Chain) as Chain });
  });

  it('are named in the refusal of an issuer without one', async () => {
    const { parties, deps } = makeWorld();
    const [alice, bot] = parties;
    const nobody = { did: 'did:test:nobody', key: bot.key };
    const { outcome } = await verify(makeBundle([alice, nobody, bot]), deps);
    expect(outcome).toMatchObject({ code: 'UNRESOLVABLE_DID' });
    expect((outcome as Failure).message).toContain('expected a did:test that is on record');
  });

  it.each(['alice', 'bot', 'helper'])(
    'a new key of %s ends what was signed with the old one',
    async (name) => {
      const { keys, parties, deps } = makeWorld();
      const bundle = makeBundle(parties);
      await verify(bundle, deps);
      const renewed = keys.renew(name);
      const code = name === 'helper' ? 'INVALID_INVOCATION_SIGNATURE' : 'INVALID_SIGNATURE';
      expect((await verify(bundle, deps)).outcome).toMatchObject({ code });
      const [alice, bot, helper] = parties.map((one) => (one.did === renewed.did ? renewed : one));
      const again = makeBundle([alice, bot, helper] as [Party, Party, Party]);
      expect((await verify(again, deps)).outcome).toBeInstanceOf(Chain);
    },
  );

  it('what verified under a key that was replaced meanwhile is not remembered', async () => {
    const { keys, parties, deps } = makeWorld();
    const bundle = makeBundle(parties);
    const whilePending = () => {
      keys.renew('alice');
      // The next verification begins under the new keys, before the first one ends.
      return verify(makeBundle([parties[1], parties[2], parties[1]]), deps);
    };
    expect((await verify(bundle, deps, whilePending)).outcome).toBeInstanceOf(Chain);
    expect((await verify(bundle, deps)).outcome).toMatchObject({ code: 'INVALID_SIGNATURE' });
  });
});
