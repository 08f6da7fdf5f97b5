import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readReceiptClaims } from '../../src/protocol/claims.js';
import { parseCompactJwt } from '../../src/protocol/jwt.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import { Chain, Receipt } from '../../src/verify/receipt.js';
import { makeChain } from '../support/chain.js';

function receiptsOf(jwts: readonly string[]): Receipt[] {
  return jwts.map((jwt, at) => {
    const parts = parseCompactJwt(jwt);
    if (parts.defect !== undefined) throw new Error(parts.defect);
    const { claims } = readReceiptClaims(parts.payload, { isRoot: at === 0, underHumanRoot: true });
    if (claims === undefined) throw new Error('not a receipt');
    return new Receipt(jwt, parts, claims, at === 0);
  });
}

const some = makeChain(4).receipts;
const SIZE = 2_000 + 3 * Math.max(...some.map(({ length }) => length));
/** Copies of a receipt under other names: what the cache holds is by text, and it never looks inside. */
const named = (name: string) => {
  const [receipt] = receiptsOf(some) as [Receipt];
  return Object.assign(receipt, { jwt: receipt.jwt.slice(0, -name.length) + name });
};

describe('the receipt cache', () => {
  it('finds a receipt by its whole text only', () => {
    const cache = new ReceiptCache(1e6);
    const [root] = receiptsOf(some) as [Receipt];
    cache.add(root);
    expect(cache.get(root.jwt)).toBe(root);
    expect(cache.get(`${root.jwt} `)).toBeUndefined();
    expect(cache.get(root.jwt.slice(0, -1))).toBeUndefined();
    expect(cache.figures).toMatchObject({ hits: 1, misses: 2, receipts: 1 });
  });

  it('keeps a receipt that another ends like, and does not take one for the other', () => {
    const cache = new ReceiptCache(1e6);
    const [first] = receiptsOf(some) as [Receipt];
    const [second] = receiptsOf(some) as [Receipt];
    Object.assign(second, { jwt: `e${second.jwt}` });
    cache.add(first);
    cache.add(second);
    expect(cache.get(first.jwt)).toBe(first);
    expect(cache.get(second.jwt)).toBeUndefined();
    expect(second.generation).toBe('none');
  });

  it('finds a chain by the whole text of all its receipts only', () => {
    const cache = new ReceiptCache(1e6);
    const receipts = receiptsOf(some);
    const leaf = receipts.at(-1) as Receipt;
    for (const receipt of receipts) cache.add(receipt);
    leaf.chain = new Chain(receipts, receipts[0] as Receipt, leaf);
    expect(cache.getChain(some)).toBe(leaf.chain);
    expect(cache.figures.hits).toBe(4);
    const others: (readonly string[])[] = [
      [],
      some.slice(1),
      some.slice(0, -1),
      [...some.slice(0, 2), some[1] ?? '', some[3] ?? ''],
      [...some.slice(0, 3), `e${some[3] ?? ''}`],
    ];
    for (const jwts of others) expect(cache.getChain(jwts)).toBeNull();
    expect(cache.figures.hits).toBe(4);
  });

  it('is off at 0 bytes', () => {
    const cache = new ReceiptCache(0);
    const [root, child] = receiptsOf(some) as [Receipt, Receipt];
    cache.add(root);
    cache.link(root, child);
    expect([cache.get(root.jwt), child.parent, cache.figures.bytes]).toEqual([undefined, null, 0]);
  });

  it('takes a receipt in when it is offered again', () => {
    const cache = new ReceiptCache(1e6);
    const [root] = receiptsOf(some) as [Receipt];
    cache.offer(root);
    expect(cache.get(root.jwt)).toBeUndefined();
    cache.offer(root);
    expect(cache.get(root.jwt)).toBe(root);
  });

  it('keeps nothing of chains that come once', () => {
    const cache = new ReceiptCache(1e6);
    for (let chain = 0; chain < 50; chain++)
      for (const receipt of receiptsOf(makeChain(3).receipts)) cache.offer(receipt);
    expect(cache.figures.receipts).toBe(0);
  });

  it('keeps what is in use through a flood of receipts that are used once', () => {
    const cache = new ReceiptCache(100 * SIZE);
    const used = Array.from({ length: 20 }, (_, at) => named(`-used-${at}`));
    for (const receipt of used) cache.add(receipt);
    for (const receipt of used) cache.get(receipt.jwt);
    for (let flood = 0; flood < 5000; flood++) {
      cache.add(named(`-flood-${flood}`));
      if (flood % 100 === 0) for (const receipt of used) expect(cache.get(receipt.jwt)).toBe(receipt);
    }
    for (const receipt of used) expect(cache.get(receipt.jwt)).toBe(receipt);
    expect(cache.figures.bytes).toBeLessThanOrEqual(100 * SIZE);
    expect(cache.figures.evictions).toBeGreaterThan(4000);
  });

  it('stays within its bytes and counts all that it can reach, whatever happens', () => {
    const chains = Array.from({ length: 12 }, (_, at) => makeChain(1 + (at % 5)).receipts);
    const step = fc.record({
      chain: fc.nat(chains.length - 1),
      depth: fc.nat(4),
      uses: fc.nat(3),
      links: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 30 }),
        fc.array(step, { minLength: 20, maxLength: 80 }),
        (room, steps) => {
          const cache = new ReceiptCache(room * SIZE);
          for (const { chain, depth, uses, links } of steps) {
            const jwts = (chains[chain] as string[]).slice(0, depth + 1);
            // As the pipeline does: what the cache knows is used, the rest is new.
            const fresh = receiptsOf(jwts);
            const receipts = fresh.map((receipt) => cache.get(receipt.jwt) ?? receipt);
            for (const receipt of receipts) cache.add(receipt);
            if (links)
              for (let at = 1; at < receipts.length; at++)
                cache.link(receipts[at - 1] as Receipt, receipts[at] as Receipt);
            for (let use = 0; use < uses; use++) cache.get(jwts.at(-1) as string);
            expect(cache.figures.bytes).toBeLessThanOrEqual(room * SIZE);
            for (const jwt of chains.flat()) {
              const held = cache.get(jwt);
              if (held === undefined) continue;
              expect(held.generation).not.toBe('none');
              // A parent that is held on to must itself be counted.
              if (held.parent !== null) expect(held.parent.generation).not.toBe('none');
            }
          }
          expect(cache.figures.receipts * 2_000).toBeLessThanOrEqual(cache.figures.bytes);
        },
      ),
      { numRuns: 60 },
    );
  });
});
