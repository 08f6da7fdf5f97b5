import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { IndexSet } from '../../src/revocation/store/index-set.js';

const MAX = Number.MAX_SAFE_INTEGER;

describe('a set of indices', () => {
  test('holds what was loaded and added, and nothing else', () => {
    const index = fc.oneof(
      fc.nat(300),
      fc.maxSafeNat(),
      fc.constantFrom(0, 1, MAX - 1, MAX, 2 ** 32, 2 ** 31),
    );
    fc.assert(
      fc.property(fc.array(fc.array(index)), fc.array(index), fc.array(index), (batches, singles, others) => {
        const set = new IndexSet();
        const model = new Set<number>();
        for (const batch of batches) {
          set.load(Float64Array.from(batch));
          for (const one of batch) model.add(one);
        }
        for (const one of singles) {
          set.add(one);
          model.add(one);
        }
        expect(set.size).toBe(model.size);
        for (const one of [...model, ...others]) expect(set.has(one)).toBe(model.has(one));
        expect([...set.values()].toSorted((a, b) => a - b)).toEqual([...model].toSorted((a, b) => a - b));
      }),
    );
  });

  test.each([
    ['dense', (n: number) => n],
    ['scattered', (n: number) => (n * 7_368_787_321) % MAX],
    ['descending', (n: number) => MAX - n * 3],
  ])('stays exact over many slabs and merges: %s', (_, nth) => {
    const set = new IndexSet();
    // Loads end before, at and behind the end of a slab of 65,536; the rest comes one by one, each twice.
    for (const [from, to] of [
      [0, 65_535],
      [65_535, 65_536],
      [65_536, 200_000],
    ] as const) {
      set.load(Float64Array.from({ length: to - from }, (_, at) => nth(from + at)));
    }
    for (let n = 200_000; n < 230_000; n++) {
      set.add(nth(n));
      set.add(nth(n));
    }
    expect(set.size).toBe(230_000);
    let found = 0;
    for (let n = 0; n < 230_000; n++) if (set.has(nth(n))) found++;
    expect(found).toBe(230_000);
    let invented = 0;
    for (let n = 230_000; n < 330_000; n++) if (set.has(nth(n))) invented++;
    expect(invented).toBe(0);
    const values = new Set(set.values());
    let listed = 0;
    for (let n = 0; n < 230_000; n++) if (values.has(nth(n))) listed++;
    expect([listed, values.size]).toEqual([230_000, 230_000]);
  });
});
