import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CATALOGUE, createVerifier, type Verifier, type VerifierOptions } from '../../src/index.js';
import {
  childClaims,
  invocationClaims,
  invoke,
  makeChain,
  NOW,
  party,
  rootClaims,
  signJwt,
  type Chain,
  type Overrides,
  type Party,
  type TestBundle,
} from '../support/chain.js';

const blockOf = new Map<string, string>(CATALOGUE.map(({ block, code }) => [code, block]));
const stranger = party();

/** A change to a valid bundle, and the blocks that may be the first to notice it. */
interface Mutation {
  readonly name: string;
  readonly blocks: string;
  /** `null` where the change cannot be made to this bundle. */
  readonly apply: (chain: Chain, bundle: TestBundle, at: number, pick: number) => TestBundle | null;
}

const replace = (bundle: TestBundle, at: number, jwt: string): TestBundle =>
  at === bundle.receipts.length
    ? { ...bundle, invocation: jwt }
    : { ...bundle, receipts: bundle.receipts.with(at, jwt) };
const jwtAt = (bundle: TestBundle, at: number): string => bundle.receipts[at] ?? bundle.invocation;
const claimsOf = (jwt: string) =>
  JSON.parse(Buffer.from(jwt.split('.')[1] as string, 'base64url').toString()) as Overrides;
const issuerOf = ({ parties }: Chain, at: number): Party => parties[at] as Party;

/** The chain with other claims or another signer at one receipt. All later links are made again. */
function reissue(
  chain: Chain,
  at: number,
  change: (claims: Overrides) => Overrides,
  signer?: Party,
): TestBundle {
  const receipts: string[] = [];
  const [root] = chain.parties as [Party];
  for (let index = 0; index < chain.receipts.length; index++) {
    const [issuer, audience] = [chain.parties[index], chain.parties[index + 1]] as [Party, Party];
    const claims =
      index === 0
        ? rootClaims(issuer, audience)
        : childClaims(receipts[index - 1] as string, root, issuer, audience);
    receipts.push(index === at ? signJwt(change(claims), signer ?? issuer) : signJwt(claims, issuer));
  }
  const invoker = chain.parties.at(-1) as Party;
  const claims = invocationClaims(receipts, root, invoker);
  const isInvocation = at === chain.receipts.length;
  const invocation = signJwt(
    isInvocation ? change(claims) : claims,
    isInvocation ? (signer ?? invoker) : invoker,
  );
  return { bundle_version: '4.0', invocation, receipts };
}

const MUTATIONS: readonly Mutation[] = [
  {
    name: 'a flipped bit of a segment',
    blocks: 'ABC',
    apply: (_, bundle, at, pick) => {
      const segments = jwtAt(bundle, at).split('.');
      const index = pick % 3;
      const bytes = Buffer.from(segments[index] as string, 'base64url');
      const bit = Math.floor(pick / 3) % (bytes.length * 8);
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      return replace(bundle, at, segments.with(index, bytes.toString('base64url')).join('.'));
    },
  },
  {
    name: 'a changed character',
    blocks: 'ABC',
    apply: (_, bundle, at, pick) => {
      const jwt = jwtAt(bundle, at);
      const position = pick % jwt.length;
      const character = 'AQgw-_.= é'[Math.floor(pick / jwt.length) % 10] as string;
      return jwt[position] === character
        ? null
        : replace(bundle, at, jwt.slice(0, position) + character + jwt.slice(position + 1));
    },
  },
  {
    name: 'a cut tail',
    blocks: 'ABC',
    apply: (_, bundle, at, pick) => {
      const jwt = jwtAt(bundle, at);
      return replace(bundle, at, jwt.slice(0, jwt.length - 1 - (pick % (jwt.length - 1))));
    },
  },
  {
    name: 'a dropped receipt',
    blocks: 'AB',
    apply: (_, bundle, at) =>
      at === bundle.receipts.length ? null : { ...bundle, receipts: bundle.receipts.toSpliced(at, 1) },
  },
  {
    name: 'a doubled receipt',
    blocks: 'AB',
    apply: (_, bundle, at) =>
      at === bundle.receipts.length
        ? null
        : { ...bundle, receipts: bundle.receipts.toSpliced(at, 0, jwtAt(bundle, at)) },
  },
  {
    name: 'swapped receipts',
    blocks: 'B',
    apply: (_, bundle, at, pick) => {
      const other = pick % bundle.receipts.length;
      if (at >= bundle.receipts.length || other === at) return null;
      return {
        ...bundle,
        receipts: bundle.receipts.with(at, jwtAt(bundle, other)).with(other, jwtAt(bundle, at)),
      };
    },
  },
  {
    name: 'a foreign receipt',
    blocks: 'B',
    apply: (chain, bundle, at) =>
      at === bundle.receipts.length
        ? null
        : replace(bundle, at, makeChain(chain.receipts.length).receipts[at] as string),
  },
  {
    name: 'a foreign invocation',
    blocks: 'B',
    apply: (chain, bundle) => ({
      ...bundle,
      invocation: invoke(makeChain(chain.receipts.length)).invocation,
    }),
  },
  {
    name: 'a claim changed and signed again, later links kept',
    blocks: 'B',
    apply: (chain, bundle, at) => {
      if (at === bundle.receipts.length) return null;
      return replace(bundle, at, signJwt({ ...claimsOf(jwtAt(bundle, at)), iat: 1 }, issuerOf(chain, at)));
    },
  },
  {
    name: 'a wrong key',
    blocks: 'C',
    apply: (chain, _, at) => reissue(chain, at, (claims) => claims, stranger),
  },
  {
    name: 'another issuer, who signs',
    blocks: 'BD',
    // At the root this is another principal's own delegation, for which the chain below does not speak.
    apply: (chain, _, at) => reissue(chain, at, (claims) => ({ ...claims, iss: stranger.did }), stranger),
  },
  {
    name: 'another subject',
    blocks: 'D',
    apply: (chain, _, at) => reissue(chain, at, (claims) => ({ ...claims, sub: stranger.did })),
  },
  {
    name: 'a wider policy',
    blocks: 'D',
    apply: (chain, bundle, at, pick) => {
      if (at === 0 || at === bundle.receipts.length) return null;
      const policy = [
        { allowed_tools: ['*'], max_cost_usd: 5 },
        { allowed_tools: ['search', 'fetch', 'x'], max_cost_usd: 5 },
        { allowed_tools: ['search'], max_cost_usd: 6 },
        {},
      ][pick % 4];
      return reissue(chain, at, (claims) => ({ ...claims, policy }));
    },
  },
  {
    name: 'arguments outside the policy',
    blocks: 'D',
    apply: (chain, bundle, at, pick) =>
      at < bundle.receipts.length
        ? null
        : reissue(chain, at, (claims) => ({
            ...claims,
            args: [{ tool: 'x' }, {}, { tool: 'search', estimated_cost_usd: 6 }][pick % 3],
          })),
  },
  {
    name: 'a wider command',
    blocks: 'D',
    apply: (chain, _, at, pick) =>
      at === 0
        ? null
        : reissue(chain, at, (claims) => ({
            ...claims,
            cmd: ['/mcp/tools', '/mcp/tools/callx', '/x'][pick % 3],
          })),
  },
  {
    name: 'a wider window',
    blocks: 'E',
    apply: (chain, bundle, at, pick) =>
      at === 0 || at === bundle.receipts.length
        ? null
        : reissue(chain, at, (claims) => ({
            ...claims,
            ...(pick % 2 === 0 ? { nbf: NOW - 61 } : { exp: NOW + 3601 }),
          })),
  },
  {
    name: 'a window that is over',
    blocks: 'E',
    apply: (chain, bundle, at) =>
      at === bundle.receipts.length ? null : reissue(chain, at, (claims) => ({ ...claims, exp: NOW - 1 })),
  },
];

const MODES: readonly (readonly [string, VerifierOptions, boolean])[] = [
  ['with the cache', {}, false],
  ['without the cache', { receiptCacheBytes: 0 }, false],
  ['with a tiny cache', { receiptCacheBytes: 12_000 }, true],
  ['after the unchanged bundle', {}, true],
];

// Signed once: each test verifies them with a verifier of its own.
const CHAINS = Array.from({ length: 16 }, (_, at) => makeChain(at + 1));
const someChain = fc.constantFrom(...CHAINS);

describe.each(MODES)('mutations %s', (_, options, isWarm) => {
  const verifierFor = () => createVerifier({ workerThreads: 0, ...options });
  const verify = (verifier: Verifier, bundle: unknown) => verifier.verify(bundle, { now: NOW });

  it('accepts a valid chain of any depth', async () => {
    const verifier = verifierFor();
    await fc.assert(
      fc.asyncProperty(someChain, async (chain) => {
        expect(await verify(verifier, invoke(chain))).toMatchObject({
          valid: true,
          context: { chain_depth: chain.receipts.length },
        });
        expect(await verify(verifier, invoke(chain, { jti: 'inv:again' }))).toMatchObject({ valid: true });
      }),
      { numRuns: 5 },
    );
    await verifier.close();
  });

  it.each(MUTATIONS)('refuses $name', async ({ apply, blocks }) => {
    const verifier = verifierFor();
    await fc.assert(
      fc.asyncProperty(someChain, fc.nat(), fc.nat(), async (chain, place, pick) => {
        const original = invoke(chain);
        const mutated = apply(chain, original, place % (chain.receipts.length + 1), pick);
        fc.pre(mutated !== null);
        // The cache takes in what it sees for the second time, and uses it the third.
        for (let round = 0; isWarm && round < 3; round++) {
          expect(await verify(verifier, original)).toMatchObject({ valid: true });
        }
        const verdict = await verify(verifier, mutated);
        expect(verdict.valid).toBe(false);
        expect(blocks).toContain(blockOf.get(verdict.error?.code ?? ''));
        // The refusal must not cause a refusal of the original.
        expect(await verify(verifier, original)).toMatchObject({ valid: true });
      }),
      { numRuns: 5 },
    );
    await verifier.close();
  });
});
