import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVerifier, type Verdict } from '../../src/index.js';
import { coversEveryEntry, coversResource } from '../../src/protocol/resources.js';
import {
  childClaims,
  HEADER,
  invocationClaims,
  invoke,
  makeChain,
  NOW,
  party,
  rootClaims,
  sha256,
  signJwt,
  type Party,
  type TestBundle,
} from '../support/chain.js';

const codeOf = (verdict: Verdict) => (verdict.valid ? 'valid' : verdict.error.code);

describe('the cache under hostile traffic', () => {
  it('ends, and still answers, where every receipt has a fresh leaf and each bundle comes twice', async () => {
    const verifier = createVerifier({ workerThreads: 0, receiptCacheBytes: 200_000 });
    // 17 principals, each with a chain of 15 receipts, and a fresh leaf below it for each task.
    const parties = Array.from({ length: 17 }, party);
    const principals = parties.map((root, at) => {
      const delegate = parties[(at + 1) % parties.length] as Party;
      const receipts = [signJwt(rootClaims(root, delegate, { policy: { note: 'x'.repeat(500) } }), root)];
      for (let level = 1; level < 5; level++) {
        const parent = receipts.at(-1) as string;
        receipts.push(
          signJwt(
            childClaims(parent, root, delegate, delegate, { policy: { note: 'x'.repeat(500) } }),
            delegate,
          ),
        );
      }
      return { root, delegate, receipts };
    });
    for (let task = 0; task < 4; task++) {
      for (const { root, delegate, receipts: above } of principals) {
        const leaf = signJwt(
          childClaims(above.at(-1) as string, root, delegate, delegate, {
            jti: `dr:${task}`,
            policy: { note: 'x'.repeat(500) },
          }),
          delegate,
        );
        const receipts = [...above, leaf];
        const invocation = signJwt(invocationClaims(receipts, root, delegate), delegate);
        const bundle = { bundle_version: '4.0', receipts, invocation };
        for (let time = 0; time < 2; time++)
          expect(codeOf(await verifier.verify(bundle, { now: NOW }))).toBe('valid');
      }
    }
    await verifier.close();
  });

  it.each([
    ['drs_root_type', 5],
    ['drs_root_type', { human: true }],
    ['drs_consent', { session_id: ['x'] }],
    ['drs_consent', 'none'],
  ])('keeps nothing of %s in a receipt that is no root, where it may be anything', async (name, value) => {
    const verifier = createVerifier({ workerThreads: 0 });
    const bundle = invoke(makeChain(3, { 1: { [name]: value } }));
    for (let time = 0; time < 3; time++)
      expect(await verifier.verify(bundle, { now: NOW })).toMatchObject({ valid: true });
    await verifier.close();
  });

  it('lets nobody change a later verdict by changing an earlier one', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = makeChain(2, {
      1: { policy: { allowed_tools: ['search'], max_cost_usd: 1, extra: { list: [1] } } },
    });
    const dear = { args: { tool: 'search', estimated_cost_usd: 2 } };
    for (let round = 0; round < 4; round++) {
      const verdict = await verifier.verify(invoke(chain), { now: NOW });
      if (!verdict.valid) throw new Error(verdict.error.message);
      const context = verdict.context as { chain_depth: number; leaf_policy: Record<string, unknown> };
      expect(context.leaf_policy).toEqual({
        ...{ allowed_tools: ['search'], max_cost_usd: 1, extra: { list: [1] } },
      });
      context.leaf_policy['max_cost_usd'] = 1e6;
      (context.leaf_policy['allowed_tools'] as string[]).push('*');
      (context.leaf_policy['extra'] as { list: number[] }).list.push(2);
      context.chain_depth = 99;
      expect(codeOf(await verifier.verify(invoke(chain, dear), { now: NOW }))).toBe('POLICY_VIOLATION');
    }
    await verifier.close();
  });

  it('reads a receipt again where it stands below another root', async () => {
    const service = { drs_root_type: 'service', drs_consent: undefined, exp: null };
    const chain = makeChain(2, { 0: service, 1: { exp: undefined } });
    const verifier = createVerifier({ workerThreads: 0 });
    for (let round = 0; round < 3; round++)
      expect(codeOf(await verifier.verify(invoke(chain), { now: NOW }))).toBe('valid');
    // The standing receipt is known by now, and below a person's root it is malformed before it breaks the chain.
    const human = makeChain(1).receipts[0] as string;
    const moved: TestBundle = { ...invoke(chain), receipts: [human, chain.receipts[1] as string] };
    expect(codeOf(await verifier.verify(moved, { now: NOW }))).toBe('MALFORMED_RECEIPT');
    await verifier.close();
  });
});

describe('a hostile bundle', () => {
  it('of a receipt that is known at another place is read by the rules of its place', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = makeChain(2, { 1: { drs_root_type: 5 } });
    for (let round = 0; round < 3; round++)
      expect(codeOf(await verifier.verify(invoke(chain), { now: NOW }))).toBe('valid');
    const moved: TestBundle = { ...invoke(chain), receipts: chain.receipts.slice(1) };
    expect(codeOf(await verifier.verify(moved, { now: NOW }))).toBe('MALFORMED_RECEIPT');
    await verifier.close();
  });

  it('with a command of a million segments gets a verdict', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = makeChain(1);
    const cmd = '/a'.repeat(1_000_000);
    expect(codeOf(await verifier.verify(invoke(chain, { cmd }), { now: NOW }))).toBe('COMMAND_MISMATCH');
    const dots = `${'/a'.repeat(1_000_000)}/..`;
    expect(codeOf(await verifier.verify(invoke(chain, { cmd: dots }), { now: NOW }))).toBe(
      'MALFORMED_INVOCATION',
    );
    await verifier.close();
  });

  it('with a header that only begins like the usual one is malformed', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = makeChain(1);
    const invoker = chain.parties[1] as Party;
    const claims = invocationClaims(chain.receipts, chain.parties[0] as Party, invoker);
    for (const more of ['{}', ',', '\0\0\0', '   x']) {
      const header = JSON.stringify(HEADER) + more;
      const bundle = { ...invoke(chain), invocation: signJwt(claims, invoker, header) };
      expect(codeOf(await verifier.verify(bundle, { now: NOW }))).toBe('MALFORMED_INVOCATION');
    }
    await verifier.close();
  });

  it('with large lists in every level is compared in one pass', async () => {
    // 4,096 entries each: comparing each with each took seconds.
    const prefixes = Array.from({ length: 4096 }, (_, at) => `file:///${at}/*`);
    const policy = { allowed_resources: prefixes };
    const narrower = { allowed_resources: prefixes.map((entry) => entry.replace('*', 'a/*')).reverse() };
    const verifier = createVerifier({ workerThreads: 0 });
    const bundle = invoke(makeChain(2, { 0: { policy }, 1: { policy: narrower } }), {
      args: { resource_uri: 'file:///4095/a/b' },
    });
    for (let round = 0; round < 3; round++)
      expect(codeOf(await verifier.verify(bundle, { now: NOW }))).toBe('valid');
    await verifier.close();
  });

  it('with many invocations named is refused by what it says, cut short', async () => {
    const verifier = createVerifier({ workerThreads: 0 });
    const chain = makeChain(1);
    const many = Array<string>(30_000).fill(sha256('x'));
    const verdict = await verifier.verify(invoke(chain, { dr_chain: many }), { now: NOW });
    expect(codeOf(verdict)).toBe('CHAIN_REFERENCE_MISMATCH');
    const odd = await verifier.verify(invoke(chain, { dr_chain: [...many, {}] }), { now: NOW });
    expect(codeOf(odd)).toBe('MALFORMED_INVOCATION');
    expect(odd.error?.message.length).toBeLessThan(500);
    await verifier.close();
  });
});

describe('resources', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      ...['.', '..', '%2e', '%2E', '.%2e', '/', '%2f', '%5C', '\\', 'a', 'b c', '?', '#', '%', '...'],
    ),
    fc.constantFrom('\t', '\n', '\r', '\0', '\x7f', '\x1f', ' ', 'é', '%09', '%252e'),
  );

  it('that a prefix covers stay below it for a URL parser', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('file:///data/', 'https://host.example/data/'),
        fc.array(piece, { maxLength: 8 }),
        (prefix, pieces) => {
          const uri = prefix + pieces.join('');
          if (!coversResource([`${prefix}*`], uri)) return;
          const parsed = new URL(uri);
          expect(parsed.href.startsWith(prefix)).toBe(true);
          expect(parsed.pathname.split('/')).not.toContain('..');
        },
      ),
      { numRuns: 1_500 },
    );
  });

  it('are covered by a prefix that sorts behind the star of another', () => {
    expect(coversEveryEntry(['a/!x/*', 'a/!y/*', 'a/*'], ['a/!a', 'a/!x/b', 'a/!'])).toBe(true);
    expect(coversEveryEntry(['a/!x/*', 'a/!y/*', 'a/b/*'], ['a/!a'])).toBe(false);
  });

  it('of a child are covered by exactly the lists that cover each of them', () => {
    const entry = fc
      .tuple(
        fc.array(fc.constantFrom('a', 'b', '!', '!a', '%41', '.', '..', 'é'), { maxLength: 4 }),
        fc.boolean(),
      )
      .map(([segments, isPrefix]) => segments.join('/') + (isPrefix ? '/*' : ''));
    const list = fc.array(fc.oneof({ weight: 20, arbitrary: entry }, fc.constant('*')), { maxLength: 6 });
    fc.assert(
      fc.property(list, list, (parent, child) => {
        expect(coversEveryEntry(parent, child)).toBe(child.every((one) => coversResource(parent, one)));
      }),
      { numRuns: 5_000 },
    );
  });
});
