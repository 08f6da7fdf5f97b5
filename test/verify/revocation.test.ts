import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { checkRevocation } from '../../src/verify/blocks/revocation.js';
import { Chain, type Receipt } from '../../src/verify/receipt.js';
import type { RemoteStatus, RevocationView } from '../../src/verify/parts.js';
import { makeChain } from '../support/chain.js';
import { receiptsOf } from '../support/receipts.js';

const chainWith = (indices: Readonly<Record<number, number>>) =>
  new Chain(
    receiptsOf(
      makeChain(
        3,
        Object.fromEntries(
          Object.entries(indices).map(([at, drs_status_list_index]) => [at, { drs_status_list_index }]),
        ),
      ).receipts,
    ),
    DEFAULT_KEYS,
  );

/** What the remote list says of 7; of every other index it says that it is not revoked. */
function check(
  indices: Readonly<Record<number, number>>,
  remote: RemoteStatus,
  local: readonly number[] = [],
  names: readonly string[] | null = null,
  chain = chainWith(indices),
) {
  const asked: number[] = [];
  const failure = checkRevocation(chain, {
    remoteStatusOf: (index) => {
      asked.push(index);
      return index === 7 ? remote : 'not_revoked';
    },
    isRevokedLocally: (index) => local.includes(index),
    names: names === null ? null : {},
    isNameRevoked: (name) => {
      if (names === null) throw new Error('nobody may ask');
      return names.includes(name);
    },
  });
  return { failure, asked };
}

describe('block F', () => {
  const LOCAL =
    'Receipt 1: status list index 7 is revoked in the local revocation store, expected an index that is not revoked';
  const REMOTE =
    'Receipt 1: status list index 7 is revoked in the remote status list, expected an index that is not revoked';
  it.each<[RemoteStatus, boolean, string | null, string?]>([
    ['not_configured', false, null],
    ['not_configured', true, 'RECEIPT_REVOKED', LOCAL],
    ['not_revoked', false, null],
    ['not_revoked', true, 'RECEIPT_REVOKED', LOCAL],
    ['revoked', false, 'RECEIPT_REVOKED', REMOTE],
    ['revoked', true, 'RECEIPT_REVOKED', REMOTE],
    [
      'out_of_range',
      false,
      'STATUS_INDEX_OUT_OF_RANGE',
      'Receipt 1: drs_status_list_index is 7, expected an index inside the remote status list',
    ],
    ['out_of_range', true, 'RECEIPT_REVOKED', LOCAL],
    [
      'unavailable',
      false,
      'REVOCATION_CHECK_FAILED',
      'Receipt 1: the state of status list index 7 is unknown, expected a usable copy of the remote status list',
    ],
    ['unavailable', true, 'RECEIPT_REVOKED', LOCAL],
  ])('with a remote list that says %s, revoked locally: %s, ends in %s', (remote, local, code, message) => {
    const { failure } = check({ 1: 7 }, remote, local ? [7] : []);
    expect(failure?.code ?? null).toBe(code);
    expect(failure?.message).toBe(message);
  });

  it('asks about every index, root first, and of no receipt that has none', () => {
    expect(check({ 0: 5, 2: 6 }, 'revoked')).toEqual({ failure: null, asked: [5, 6] });
    expect(check({}, 'revoked')).toEqual({ failure: null, asked: [] });
  });

  it('ends at the first receipt that is revoked', () => {
    const { failure, asked } = check({ 0: 7, 1: 8 }, 'revoked', [8]);
    expect(failure?.message).toContain('Receipt 0');
    expect(asked).toEqual([7]);
  });

  describe('by name', () => {
    const chain = chainWith({ 1: 7 });
    const [root, middle, leaf] = chain.receipts as [Receipt, Receipt, Receipt];
    const code = (remote: RemoteStatus, names: readonly string[]) =>
      check({}, remote, [], names, chain).failure?.message.split(', expected')[0] ?? null;

    it.each([
      ['nothing of the chain', ['sha256:0', 'did:key:z1'], null],
      [
        'the root',
        [root.digest],
        `Receipt 0: its digest "${root.digest}" is revoked in the local revocation store`,
      ],
      [
        'the leaf',
        [leaf.digest],
        `Receipt 2: its digest "${leaf.digest}" is revoked in the local revocation store`,
      ],
      [
        'who issues first',
        [root.claims.iss],
        `Receipt 0: iss "${root.claims.iss}" is revoked in the local revocation store`,
      ],
      [
        'who issues and receives',
        [leaf.claims.iss],
        `Receipt 1: aud "${leaf.claims.iss}" is revoked in the local revocation store`,
      ],
      [
        'who receives last',
        [leaf.claims.aud],
        `Receipt 2: aud "${leaf.claims.aud}" is revoked in the local revocation store`,
      ],
      // The receipts from the root on, and in one of them the receipt before its keys.
      [
        'a key of the root and a later receipt',
        [root.claims.aud, middle.digest],
        `Receipt 0: aud "${root.claims.aud}" is revoked in the local revocation store`,
      ],
      [
        'a receipt and its key',
        [middle.digest, middle.claims.aud],
        `Receipt 1: its digest "${middle.digest}" is revoked in the local revocation store`,
      ],
    ])('%s', (_, names, message) => {
      expect(code('not_revoked', names)).toBe(message);
    });

    it('is looked up once for a chain, until something is added; and again for one that was refused', () => {
      const clear = chainWith({});
      let asked = 0;
      const view = (names: object | null, revoked: readonly string[] = []): RevocationView => ({
        remoteStatusOf: () => 'not_configured',
        isRevokedLocally: () => false,
        names,
        isNameRevoked: (name) => {
          asked++;
          return revoked.includes(name);
        },
      });
      const [first, second] = [{}, {}];
      const counts = [null, first, first, null, second, second].map((names) => {
        asked = 0;
        return [checkRevocation(clear, view(names)), asked];
      });
      // Three digests, and four DIDs.
      expect(counts).toEqual([0, 7, 0, 0, 7, 0].map((count) => [null, count]));
      const key = clear.leaf.claims.aud;
      for (let call = 0; call < 2; call++)
        expect(checkRevocation(clear, view(first, [key]))?.code).toBe('KEY_REVOKED');
    });

    it('is found after what is marked in the list, and before a list that is missing or too short', () => {
      const key = [middle.claims.aud];
      expect(code('revoked', key)).toContain('status list index 7 is revoked in the remote status list');
      for (const remote of ['out_of_range', 'unavailable'] as const) {
        expect(code(remote, key)).toContain('Receipt 1: aud');
        // The list is about a receipt before that one.
        expect(code(remote, [leaf.digest])).toContain('Receipt 1: ');
      }
    });
  });
});
