import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import { Chain, type Receipt } from '../../src/verify/receipt.js';
import { CONSENT, makeChain, type Overrides } from '../support/chain.js';
import { receiptsOf } from '../support/receipts.js';

const some = makeChain(4).receipts;

/** The bytes that a large cache counts for some receipts, each on its own. */
function bytesOf(receipts: readonly Receipt[]): number {
  const cache = new ReceiptCache(1e9);
  for (const receipt of receipts) cache.addReceipt(receipt);
  return cache.stats.bytes;
}

describe('the receipt cache', () => {
  it('finds a receipt by its whole text only', () => {
    const cache = new ReceiptCache(1e6);
    const [root] = receiptsOf(some) as [Receipt];
    cache.addReceipt(root);
    expect(cache.getReceipt(some[0] as string)).toBe(root);
    expect(cache.getReceipt(`e${root.jwt}`)).toBeNull();
    expect(cache.getReceipt(root.jwt.slice(0, -1))).toBeNull();
    expect(cache.stats).toMatchObject({ hits: 1, misses: 2, receipts: 1, chains: 0 });
  });

  it('keeps a receipt that another ends like, and does not take one for the other', () => {
    const cache = new ReceiptCache(1e6);
    const [first] = receiptsOf(some) as [Receipt];
    const [second] = receiptsOf(some) as [Receipt];
    second.jwt = `e${second.jwt}`;
    cache.addReceipt(first);
    cache.addReceipt(second);
    expect(cache.getReceipt(first.jwt)).toBe(first);
    expect(cache.getReceipt(second.jwt)).toBeNull();
    expect(cache.stats.receipts).toBe(1);
  });

  it('finds a chain by the whole text of all its receipts only', () => {
    const cache = new ReceiptCache(1e6);
    const chain = new Chain(receiptsOf(some), DEFAULT_KEYS);
    cache.addChain(chain);
    expect(cache.getChain(some)).toBeNull();
    cache.addReceipt(chain.leaf);
    cache.addChain(chain);
    cache.addChain(new Chain(receiptsOf(some), DEFAULT_KEYS));
    expect(cache.getChain(some)).toBe(chain);
    expect(cache.stats).toMatchObject({ hits: 4, receipts: 1, chains: 1 });
    const others: (readonly string[])[] = [
      [],
      some.slice(1),
      some.slice(0, -1),
      [...some, some.at(-1) ?? ''],
      [...some.slice(0, 2), some[1] ?? '', some[3] ?? ''],
      [...some.slice(0, 3), `e${some[3] ?? ''}`],
    ];
    for (const jwts of others) expect(cache.getChain(jwts)).toBeNull();
    expect(cache.stats.hits).toBe(4);
  });

  it('is off at 0 bytes', () => {
    const cache = new ReceiptCache(0);
    cache.keepFor(1);
    const receipts = receiptsOf(some);
    cache.addReceipt(receipts[0] as Receipt);
    cache.addChain(new Chain(receipts, DEFAULT_KEYS));
    expect([cache.getReceipt(some[0] as string), cache.getChain(some)]).toEqual([null, null]);
    expect(cache.stats).toMatchObject({ receipts: 0, chains: 0, bytes: 0 });
  });

  it('takes in nothing that is larger than itself', () => {
    const cache = new ReceiptCache(500);
    const receipts = receiptsOf(some);
    cache.addReceipt(receipts[0] as Receipt);
    cache.addChain(new Chain(receipts, DEFAULT_KEYS));
    expect(cache.stats).toMatchObject({ receipts: 0, chains: 0, bytes: 0 });
  });

  it('counts no chain that is larger than itself, though its last receipt is not', () => {
    const chain = new Chain(receiptsOf(some), DEFAULT_KEYS);
    const cache = new ReceiptCache(2 * bytesOf([chain.leaf]));
    cache.addReceipt(chain.leaf);
    cache.addChain(chain);
    expect(cache.stats).toMatchObject({ receipts: 1, chains: 0 });
  });

  it('forgets everything when the keys change, which is no eviction', () => {
    const cache = new ReceiptCache(1e6);
    const chain = new Chain(receiptsOf(some), DEFAULT_KEYS);
    cache.keepFor(1);
    cache.addReceipt(chain.leaf);
    cache.addChain(chain);
    cache.keepFor(1);
    expect(cache.stats).toMatchObject({ receipts: 1, chains: 1 });
    cache.keepFor(2);
    expect(cache.stats).toMatchObject({ receipts: 0, chains: 0, bytes: 0, evictions: 0 });
  });

  it.each<[string, (text: string) => Overrides]>([
    ['iss', (text) => ({ iss: text })],
    ['aud', (text) => ({ aud: text })],
    ['sub', (text) => ({ sub: text })],
    ['cmd', (text) => ({ cmd: `/${text}` })],
    ['jti', (text) => ({ jti: `dr:${text}` })],
    ['prev_dr_hash', (text) => ({ prev_dr_hash: text })],
    ['drs_root_type', (text) => ({ drs_root_type: text })],
    [
      'session_id',
      (text) => ({
        drs_consent: { ...CONSENT, session_id: text },
      }),
    ],
    ['an entry of a list', (text) => ({ policy: { allowed_tools: [text] } })],
  ])('counts the length of %s, and twice where V8 takes two bytes a character', (_, claims) => {
    const besidesJwt = (text: string) => {
      const receipts = receiptsOf(makeChain(1, { 0: claims(text) }).receipts);
      return bytesOf(receipts) - (receipts[0] as Receipt).jwt.length;
    };
    const short = besidesJwt('a');
    expect(besidesJwt('a'.repeat(1001)) - short).toBe(1000);
    expect(besidesJwt('€'.repeat(1001)) - short).toBeGreaterThanOrEqual(2000);
  });

  it.each<[string, Overrides, Overrides]>([
    ['prev_dr_hash', { prev_dr_hash: 'a' }, { prev_dr_hash: null }],
    ['drs_root_type', { drs_root_type: 'a' }, { drs_root_type: null }],
    ['session_id', { session_id: 'a' }, { session_id: null }],
    ['correlation_id', { correlation_id: 'a' }, {}],
    ['risk_level', { drs_regulatory: { risk_level: 'a' } }, { drs_regulatory: {} }],
    [
      'an entry of frameworks',
      { drs_regulatory: { frameworks: ['a'] } },
      { drs_regulatory: { frameworks: [] } },
    ],
  ])('counts %s only where there is one', (_, present, absent) => {
    const besidesJwt = (claims: Overrides) => {
      const receipts = receiptsOf(makeChain(1, { 0: claims }).receipts);
      return bytesOf(receipts) - (receipts[0] as Receipt).jwt.length;
    };
    expect(besidesJwt(present) - besidesJwt(absent)).toBe(33);
  });

  it('counts what a receipt, a limit, an entry of a list and a chain take besides their characters', () => {
    const receiptWith = (policy: object) =>
      receiptsOf(makeChain(1, { 0: { policy } }).receipts)[0] as Receipt;
    const besidesJwt = (policy: object) => bytesOf([receiptWith(policy)]) - receiptWith(policy).jwt.length;
    expect(besidesJwt({})).toBeGreaterThan(1000);
    expect(besidesJwt({ max_calls: 1 }) - besidesJwt({})).toBeGreaterThanOrEqual(48);
    const entries = (count: number) => ({ allowed_tools: Array<string>(count).fill('ab') });
    expect(besidesJwt(entries(101)) - besidesJwt(entries(1))).toBeGreaterThanOrEqual(100 * (2 + 24));

    const chain = new Chain(receiptsOf(some), DEFAULT_KEYS);
    const cache = new ReceiptCache(1e6);
    cache.addReceipt(chain.leaf);
    cache.addChain(chain);
    const ofChain = cache.stats.bytes - bytesOf([chain.leaf]);
    expect(ofChain).toBeGreaterThan(bytesOf(receiptsOf(some)) + chain.contextJson.length + 500);
  });

  it('keeps what was used last, and counts what had to go', () => {
    const [used, ...others] = Array.from({ length: 20 }, () => makeChain(2).receipts) as [
      string[],
      ...string[][],
    ];
    const add = (cache: ReceiptCache, jwts: string[]) => {
      const chain = new Chain(receiptsOf(jwts), DEFAULT_KEYS);
      cache.addReceipt(chain.leaf);
      cache.addChain(chain);
      return chain;
    };
    const sized = new ReceiptCache(1e6);
    add(sized, used);
    const cache = new ReceiptCache(Math.ceil(4.5 * sized.stats.bytes));
    const chain = add(cache, used);
    for (const other of others) {
      // Once the cache is full, it takes what comes again.
      add(cache, other);
      add(cache, other);
      expect(cache.getChain(used)).toBe(chain);
    }
    expect(cache.getChain(others.at(-1) as string[])).not.toBeNull();
    expect(cache.stats.evictions).toBeGreaterThan(10);
  });

  it('takes in what comes once while there is room, and nothing of it once it is full', () => {
    const cache = new ReceiptCache(20_000);
    for (let chain = 0; chain < 100; chain++)
      for (const receipt of receiptsOf(makeChain(1).receipts)) cache.addReceipt(receipt);
    const { receipts, evictions } = cache.stats;
    expect(receipts).toBeGreaterThan(3);
    expect(evictions).toBeLessThanOrEqual(1);
    const [again] = makeChain(1).receipts as [string];
    for (let time = 0; time < 2; time++) for (const receipt of receiptsOf([again])) cache.addReceipt(receipt);
    expect(cache.getReceipt(again)).not.toBeNull();
    const [known] = receiptsOf(makeChain(1).receipts) as [Receipt];
    known.signature = null;
    for (let time = 0; time < 2; time++) cache.addReceipt(known);
    expect(cache.getReceipt(known.jwt)).toBeNull();
  });

  it('stays within its bytes and ends, whatever comes in which order', () => {
    const chains = Array.from({ length: 12 }, (_, at) => makeChain(1 + (at % 5)).receipts);
    const step = fc.record({ chain: fc.nat(chains.length - 1), depth: fc.nat(4), uses: fc.nat(3) });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 120_000 }),
        fc.array(step, { minLength: 20, maxLength: 80 }),
        (bytes, steps) => {
          const cache = new ReceiptCache(bytes);
          for (const { chain, depth, uses } of steps) {
            const jwts = (chains[chain] as string[]).slice(0, depth + 1);
            // As the pipeline does: what the cache knows is used, the rest is new.
            const receipts = receiptsOf(jwts).map((receipt) => cache.getReceipt(receipt.jwt) ?? receipt);
            for (const receipt of receipts) cache.addReceipt(receipt);
            if (cache.getChain(jwts) === null) cache.addChain(new Chain(receipts, DEFAULT_KEYS));
            for (let use = 0; use < uses; use++) {
              cache.getChain(jwts);
              cache.getReceipt(jwts.at(-1) as string);
            }
            const { stats } = cache;
            expect(stats.bytes).toBeLessThanOrEqual(bytes);
            expect(Math.min(stats.chains, stats.receipts)).toBeGreaterThanOrEqual(0);
            expect(stats.chains + stats.receipts > 0).toBe(stats.bytes > 0);
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});
