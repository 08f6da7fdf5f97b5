import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../src/verify/codes.js';
import { parseBundleText } from '../../src/verify/bundle-text.js';
import { openVerification, proveVerification } from '../../src/verify/pipeline.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import { invoke, makeChain, NOW } from '../support/chain.js';

const RULES = { maxChainDepth: 16, clockSkewSecs: 0, serverIdentity: null, trustedRoots: null };
const known = makeChain(3);
const other = makeChain(3);

/** A cache that knows one chain. */
function warmCache(): ReceiptCache {
  const cache = new ReceiptCache(1e6);
  // The second time, the cache takes it in.
  for (let round = 0; round < 2; round++) {
    const opened = openVerification(invoke(known), RULES, cache);
    if (opened instanceof Failure) throw new Error(opened.message);
    expect(proveVerification(opened, () => true, NOW, RULES, cache)).not.toBeInstanceOf(Failure);
  }
  return cache;
}

const parse = (text: string, cache: ReceiptCache): unknown => {
  try {
    return parseBundleText(text, cache).bundle;
  } catch (error) {
    return (error as Error).message;
  }
};
const plainly = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    return (error as Error).message;
  }
};

describe('reading a bundle of a known chain', () => {
  const cache = warmCache();
  const list = JSON.stringify(known.receipts);

  it('spares the receipts, and only them', () => {
    const text = JSON.stringify(invoke(known));
    const read = parseBundleText(text, cache);
    expect(read.bundle).toEqual(JSON.parse(text));
    expect(read.document).toEqual(JSON.parse(read.text));
    expect(read.text.length).toBeLessThan(text.length - list.length + 50);
    expect((read.bundle as { receipts: string[] }).receipts[2]).toBe(
      cache.get(known.receipts[2] as string)?.jwt,
    );
  });

  it.each([
    ['another chain', JSON.stringify(invoke(other))],
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
    expect(parse(text, cache)).toEqual(plainly(text));
  });

  it('reads whatever is made of such texts as JSON.parse does', () => {
    const piece = fc.constantFrom(
      list,
      JSON.stringify(other.receipts),
      ...known.receipts.map((jwt) => JSON.stringify(jwt)),
      '"receipts":',
      '"receipt\\u0073":',
      '"body":',
      '{',
      '}',
      '[',
      ']',
      ',',
      '"',
      '\\',
      ' ',
      '1',
      '"x"',
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
        expect(parse(candidate, cache)).toEqual(plainly(candidate));
      }),
      { numRuns: 3000 },
    );
  });
});
