import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOGUE, createVerifier, type Verifier, type VerifierOptions } from '../../src/index.js';
import { NOW } from '../support/chain.js';
import { ACCEPTED, REFUSED, type RefusedCase } from '../support/cases.js';

/** The cache never changes a verdict: every table runs under each of these. */
const CACHES: readonly (readonly [string, VerifierOptions])[] = [
  ['with the cache', {}],
  ['without the cache', { receiptCacheBytes: 0 }],
  ['with a tiny cache', { receiptCacheBytes: 12_000 }],
  ['on a pool', { workerThreads: 1 }],
];
// Where a thousand planted faults are tried, the first has to do.
const caches = process.env['MUTATION_RUN'] === undefined ? CACHES : CACHES.slice(0, 1);
const blockOf = new Map<string, string>(CATALOGUE.map(({ block, code }) => [code, block]));

describe.each(caches)('verdicts %s', (_, cacheOptions) => {
  /** Of all cases without options and revocations: starting a thread takes longer than a case, and each has keys of its own. */
  let shared: Verifier;
  beforeAll(() => {
    shared = createVerifier({ workerThreads: 0, ...cacheOptions });
  });
  afterAll(() => shared.close());

  async function use(
    { options, revoked = [] }: Pick<RefusedCase, 'options' | 'revoked'>,
    check: (verifier: Verifier) => Promise<void>,
  ): Promise<void> {
    if (options === undefined && revoked.length === 0) return check(shared);
    const verifier = createVerifier({ workerThreads: 0, ...cacheOptions, ...options });
    try {
      for (const target of revoked) await verifier.revoke(target);
      await check(verifier);
    } finally {
      await verifier.close();
    }
  }

  it.each(REFUSED)('refuses $name: $code', async ({ bundle, code, block, says, ...own }) =>
    use(own, async (verifier) => {
      // The third time, what is valid in it comes from the cache.
      for (let round = 0; round < 3; round++) {
        const verdict = await verifier.verify(bundle, { now: NOW });
        expect(verdict.error?.code, verdict.error?.message).toBe(code);
        expect(blockOf.get(code)).toBe(block);
        expect(verdict.error?.message).toMatch(says);
        expect(verdict.error?.message).not.toMatch(/\{\w+\}|\?/);
        expect(verdict.error?.suggestion).toMatch(/\w+/);
      }
    }),
  );

  it.each(ACCEPTED)('accepts $name', async ({ bundle, ...own }) =>
    use(own, async (verifier) => {
      for (let round = 0; round < 4; round++) {
        const verdict = await verifier.verify(bundle, { now: NOW });
        expect(verdict).toMatchObject({ valid: true });
        const members = Object.keys(verdict.context ?? {}).filter((name) => name !== 'unenforced');
        expect(members).toEqual(['root_principal', 'chain_depth', 'leaf_policy', 'tool_server']);
      }
    }),
  );
});
