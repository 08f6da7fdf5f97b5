import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { parseBundleText, ReceiptCache } from '../../src/verify/receipt-cache.js';
import { Chain } from '../../src/verify/receipt.js';
import { invoke, makeChain } from '../support/chain.js';
import { receiptsOf } from '../support/receipts.js';

const known = makeChain(3);
const other = makeChain(3);
const list = JSON.stringify(known.receipts);

const cache = new ReceiptCache(1e6);
const chain = new Chain(receiptsOf(known.receipts), DEFAULT_KEYS);
for (const receipt of chain.receipts) cache.addReceipt(receipt);
cache.addChain(chain);

const outcomeOf = (read: () => unknown): unknown => {
  try {
    return read();
  } catch (error) {
    return (error as Error).message;
  }
};
const parse = (text: string) => outcomeOf(() => parseBundleText(text, cache).bundle);
const plainly = (text: string) => outcomeOf(() => JSON.parse(text));

describe('reading a bundle of a known chain', () => {
  it('does not parse its receipts, and parses all else', () => {
    const text = JSON.stringify({ ...invoke(known), body: { a: 1 } });
    const { bundle, body } = parseBundleText(text, cache);
    expect(bundle).toEqual(JSON.parse(text));
    if (body?.kind !== 'member') throw new Error('expected a member');
    expect(body.document).toEqual(JSON.parse(body.text));
    expect(body.document['body']).toEqual({ a: 1 });
    expect(body.text.length).toBeLessThan(text.length - list.length + 50);
    expect(cache.getChain((bundle as { receipts: string[] }).receipts)).toBe(chain);
  });

  it('parses the receipts once the keys have changed', () => {
    const forgetful = new ReceiptCache(1e6);
    forgetful.addReceipt(chain.leaf);
    forgetful.addChain(chain);
    expect(forgetful.findJwts(list, 1, list.length - 1)).toEqual(known.receipts);
    forgetful.keepFor(1);
    expect(forgetful.findJwts(list, 1, list.length - 1)).toBeNull();
  });

  it.each([
    ['another chain', JSON.stringify(invoke(other))],
    ['a member named __proto__', `{"__proto__":{"x":1},"receipts":${list}}`],
    ['the list in the body alone', `{"body":{"receipts":${list}},"receipts":0}`],
    ['the list in the body first', `{"body":{"receipts":${list}},"receipts":["x"]}`],
    ['the list in the body last', `{"receipts":["x"],"body":{"receipts":${list}}}`],
    ['the list overridden', `{"receipts":${list},"receipts":["x"]}`],
    ['the list overridden by an escaped name', `{"receipts":${list},"receip\\u0074s":["x"]}`],
    ['the list last of two', `{"receipts":["x"],"receipts":${list}}`],
    ['the list in an array', `[{"receipts":${list}}]`],
    ['the list in a string', JSON.stringify({ note: `{"receipts":${list}}` })],
    ['white space', `{"receipts": ${list}}`],
    ['white space within', JSON.stringify(invoke(known), null, 1)],
    ['a list cut short', `{"receipts":[${JSON.stringify(known.receipts[2])}]}`],
    ['one receipt more', `{"receipts":[${JSON.stringify(known.receipts[2])},${list.slice(1)}}`],
    ['a comma more', `{"receipts":${list.replace('","', '",,"')}}`],
    ['a comma less', `{"receipts":${list.replace('","', '""')}}`],
    ['an end too early', `{"receipts":${list}`],
    ['text behind', `{"receipts":${list}}x`],
    ['a broken rest', `{"receipts":${list},"body":}`],
    ['an escape in a receipt', `{"receipts":${list.replace('.', '\\u002e')}}`],
  ])('reads %s as JSON.parse does', (_, text) => {
    expect(parse(text)).toEqual(plainly(text));
  });

  it('reads whatever is made of such texts as JSON.parse does', () => {
    const piece = fc.constantFrom(
      ...[list, JSON.stringify(other.receipts), ...known.receipts.map((jwt) => JSON.stringify(jwt))],
      ...['"receipts":', '"receipt\\u0073":', '"body":', '{', '}', '[', ']', ',', '"', '\\', ' ', '1', '"x"'],
    );
    const member = fc
      .tuple(fc.constantFrom('"receipts":', '"body":', '"receipts" :', '"x":'), piece)
      .map((pair) => pair.join(''));
    const text = fc.oneof(
      fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
      fc.array(member, { maxLength: 4 }).map((members) => `{${members.join(',')}}`),
    );
    fc.assert(
      fc.property(text, (candidate) => {
        expect(parse(candidate)).toEqual(plainly(candidate));
      }),
      { numRuns: 3000 },
    );
  });
});
