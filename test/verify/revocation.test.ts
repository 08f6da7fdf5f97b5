import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { checkRevocation, refreshLists } from '../../src/verify/blocks/revocation.js';
import { Chain, type Receipt } from '../../src/verify/receipt.js';
import { indexUnder, jtiBy, NOTHING_REVOKED } from '../../src/verify/parts.js';
import type { RemoteStatus, RevocationView, RootList, RootLists } from '../../src/verify/parts.js';
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
  const view: RevocationView = {
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
  };
  const failure = checkRevocation(chain, view, null);
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

  describe('by lists of the root', () => {
    const lists = (['w3c', 'token'] as const).map((form, at): RootList => {
      const name = `https://lists.example/${at + 1}`;
      const fetched = { url: name, issuer: 'did:key:z1', maxStaleSecs: 0, addresses: [], owner: 'Acme' };
      return { form, name, key: name, ...fetched };
    });
    const [first, second] = lists.map(({ name }) => name) as [string, string];
    const uri = (name: string, idx: unknown = 7) => ({ status: { status_list: { idx, uri: name } } });
    const entry = (name: string, changes: object = {}) => ({
      ...{ type: 'BitstringStatusListEntry', statusPurpose: 'revocation' },
      ...{ statusListIndex: '7', statusListCredential: name },
      ...changes,
    });
    const w3c = (name: string, changes: object = {}) => ({ credentialStatus: entry(name, changes) });
    const drs = (name: string, index: unknown = 7) => ({ drs_status: { list_url: name, index } });

    /** What the second list says of 7; of every other entry any list says that it is not revoked. */
    function code(
      claims: object,
      status: RemoteStatus = 'revoked',
      of: RootLists | null = lists,
      names: string[] = [],
    ) {
      const chain = new Chain(receiptsOf(makeChain(2, { 1: { ...claims } }).receipts), DEFAULT_KEYS);
      const asked: string[] = [];
      const view: RevocationView = {
        remoteStatusOf: (index) => (asked.push(`the operator's ${index}`), 'not_revoked'),
        statusIn: ({ name }, index) => {
          asked.push(`${name.slice(-1)} ${index}`);
          return index === 7 ? status : 'not_revoked';
        },
        isRevokedLocally: () => false,
        names: names.length === 0 ? null : {},
        isNameRevoked: (name) => names.includes(name),
      };
      const failure = checkRevocation(chain, view, of);
      const refreshed: string[] = [];
      void refreshLists(chain, of, {
        refreshIfStale: () => (refreshed.push("the operator's"), null),
        refreshLists: (all) => (refreshed.push(...all.map(({ name }) => name.slice(-1))), null),
        view,
      });
      return { code: failure?.code ?? null, message: failure?.message, asked, refreshed };
    }

    it.each<[string, object, string | null, string[], string[]]>([
      ['an index counts in the first', { drs_status_list_index: 7 }, 'RECEIPT_REVOKED', ['1 7'], ['1']],
      ['another index is not revoked', { drs_status_list_index: 8 }, null, ['1 8'], ['1']],
      ['a token by its name', uri(second), 'RECEIPT_REVOKED', ['2 7'], ['2']],
      ['a bitstring by its name', w3c(first), 'RECEIPT_REVOKED', ['1 7'], ['1']],
      ['either by drs_status', drs(second), 'RECEIPT_REVOKED', ['2 7'], ['2']],
      ['either by drs_status, the other one', drs(first), 'RECEIPT_REVOKED', ['1 7'], ['1']],
      [
        'all that are named',
        {
          drs_status_list_index: 1,
          ...uri(second, 2),
          ...w3c(first, { statusListIndex: '3' }),
          ...drs(first, 4),
        },
        null,
        ['1 1', '2 2', '1 3', '1 4'],
        ['1', '2'],
      ],
      [
        'several of the W3C',
        { credentialStatus: [entry(first, { statusListIndex: '0' }), entry(first)] },
        'RECEIPT_REVOKED',
        ['1 0', '1 7'],
        ['1'],
      ],
      ['a list of nobody', uri('https://lists.example/3'), 'UNKNOWN_STATUS', [], []],
      ['a name that is nearly one', uri(`${second}/`), 'UNKNOWN_STATUS', [], []],
      ['a token in the form of the W3C', uri(first), 'UNKNOWN_STATUS', [], []],
      ['a bitstring in the form of the IETF', w3c(second), 'UNKNOWN_STATUS', [], []],
    ])('%s', (_, claims, expected, asked, refreshed) => {
      const found = code(claims);
      expect([found.code, found.asked, found.refreshed]).toEqual([expected, asked, refreshed]);
    });

    it.each<unknown>([
      { status: {} },
      { status: 'x' },
      { status: [uri(second).status] },
      { status: { ...uri(second).status, other: {} } },
      { status: { status_list: { idx: 1 } } },
      uri(second, '7'),
      uri(second, -1),
      uri(second, 1.5),
      { credentialStatus: [] },
      { credentialStatus: Array.from({ length: 17 }, () => entry(first)) },
      { credentialStatus: [entry(first), 7] },
      w3c(first, { type: ['BitstringStatusListEntry'] }),
      w3c(first, { type: 'StatusList2021Entry' }),
      w3c(first, { statusPurpose: 'suspension' }),
      w3c(first, { statusSize: 2 }),
      w3c(first, { statusListIndex: 8 }),
      w3c(first, { statusListIndex: '08' }),
      w3c(first, { statusListIndex: '-8' }),
      w3c(first, { statusListIndex: '9007199254740992' }),
      w3c(first, { statusListCredential: undefined }),
      { drs_status: 7 },
      drs(first, null),
      { drs_status: { index: 8 } },
    ])('%j is a status that nobody reads', (claims) => {
      expect(code(claims as object, 'not_revoked').code).toBe('UNKNOWN_STATUS');
    });

    it('null is no claim', () => {
      const claims = { status: null, credentialStatus: null, drs_status: null };
      expect(code(claims)).toMatchObject({ code: null, asked: [], refreshed: [] });
    });

    it.each<[RemoteStatus, string | null, string?]>([
      ['not_revoked', null],
      [
        'revoked',
        'RECEIPT_REVOKED',
        'Receipt 1: status list index 7 is revoked in a status list of its root, expected an index that is not revoked',
      ],
      [
        'suspended',
        'RECEIPT_REVOKED',
        'Receipt 1: status list index 7 is revoked in a status list of its root (suspended), expected an index that is not revoked',
      ],
      [
        'unknown',
        'UNKNOWN_STATUS',
        'Receipt 1: status is a status that nobody here reads, expected drs_status_list_index or no claim about its status',
      ],
      [
        'out_of_range',
        'STATUS_INDEX_OUT_OF_RANGE',
        'Receipt 1: status is 7, expected an index inside a status list of its root',
      ],
      [
        'unavailable',
        'REVOCATION_CHECK_FAILED',
        'Receipt 1: the state of status list index 7 is unknown, expected a usable copy of a status list of its root',
      ],
    ])('a value that is %s', (status, expected, message) => {
      expect(code(uri(second), status)).toMatchObject({ code: expected, message });
    });

    it('what is worse comes first, whichever claim says it', () => {
      const both = { ...uri('https://lists.example/3'), ...w3c(first) };
      expect(code(both, 'unavailable').code).toBe('REVOCATION_CHECK_FAILED');
      expect(code({ ...both, drs_status: 7 }, 'unavailable').code).toBe('UNKNOWN_STATUS');
      expect(code({ ...both, drs_status_list_index: 1 }, 'out_of_range').code).toBe(
        'STATUS_INDEX_OUT_OF_RANGE',
      );
      expect(code({ ...uri(second), ...w3c(first, { statusListIndex: '1' }) }, 'revoked').code).toBe(
        'RECEIPT_REVOKED',
      );
    });

    it("without lists, an index counts in the operator's list, and a name is unknown", () => {
      expect(code({ drs_status_list_index: 7 }, 'revoked', null)).toMatchObject({
        ...{ code: null, asked: ["the operator's 7"], refreshed: ["the operator's"] },
      });
      expect(code(uri(second), 'revoked', null)).toMatchObject({ code: 'UNKNOWN_STATUS', refreshed: [] });
    });

    it("a local revocation of an index says which root's, and ends it in whichever list", () => {
      const root = receiptsOf(makeChain(1, {}).receipts)[0]?.claims.iss ?? '';
      expect(root).not.toBe('');
      const chain = (claims: object) => makeChain(2, { 1: { ...claims } });
      for (const claims of [
        { drs_status_list_index: 5 },
        uri(second, 5),
        w3c(first, { statusListIndex: '5' }),
        drs(first, 5),
      ]) {
        const made = new Chain(receiptsOf(chain(claims).receipts), DEFAULT_KEYS);
        const of = (name: string) =>
          checkRevocation(
            made,
            {
              ...NOTHING_REVOKED,
              statusIn: () => 'not_revoked',
              names: {},
              isNameRevoked: (one) => one === name,
            },
            lists,
          );
        expect(of(indexUnder(made.root.claims.iss, 5))?.code).toBe('RECEIPT_REVOKED');
        expect(of(indexUnder(made.root.claims.iss, 6))).toBe(null);
        expect(of(indexUnder(made.leaf.claims.iss, 5))).toBe(null);
      }
    });
  });

  it('a jti ends every chain through it, if the same one has issued it', () => {
    const chain = chainWith({});
    const { iss, jti } = (chain.receipts[1] as Receipt).claims;
    const of = (name: string) =>
      checkRevocation(chain, { ...NOTHING_REVOKED, names: {}, isNameRevoked: (one) => one === name }, null);
    expect(of(jtiBy(iss, jti))?.message).toBe(
      `Receipt 1: jti "${jti}" is revoked in the local revocation store, expected a receipt that is not revoked`,
    );
    expect(of(jtiBy(chain.leaf.claims.aud, jti))).toBe(null);
    expect(of(jtiBy(iss, `${jti}x`))).toBe(null);
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
        return [checkRevocation(clear, view(names), null), asked];
      });
      // Three digests, three times a jti, and four DIDs.
      expect(counts).toEqual([0, 10, 0, 0, 10, 0].map((count) => [null, count]));
      const key = clear.leaf.claims.aud;
      for (let call = 0; call < 2; call++)
        expect(checkRevocation(clear, view(first, [key]), null)?.code).toBe('KEY_REVOKED');
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
