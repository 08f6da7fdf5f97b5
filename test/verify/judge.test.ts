import { describe, expect, it } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { InThreadVerifier } from '../../src/signatures/in-thread.js';
import { judge, type Call } from '../../src/verify/judge.js';
import { ReceiptCache } from '../../src/verify/receipt-cache.js';
import type { JudgeParts, RemoteStatus, Root, Roots } from '../../src/verify/parts.js';
import { readGivenRoots } from '../../src/trust/given-roots.js';
import { invoke, makeChain, NOW, type Party } from '../support/chain.js';

const args = { tool: 'search', query: 'tea', estimated_cost_usd: 0.05 };
const ofArgs = { kind: 'value', value: args } as const;

/** A judge whose status list says `remote`, and takes a wait to say it. */
function openJudge(remote: RemoteStatus, more: Partial<JudgeParts> = {}) {
  const steps: string[] = [];
  let time = NOW;
  const parts: JudgeParts = {
    rules: {
      maxChainDepth: 16,
      ...{ clockSkewSecs: 0, expiryGraceSecs: 5 },
      serverIdentity: null,
      tools: null,
      allowsUnstated: false,
      trustedRoots: null,
    },
    ...{ cache: new ReceiptCache(1e6), keys: DEFAULT_KEYS, signatures: new InThreadVerifier() },
    revocation: {
      refreshIfStale: () => {
        steps.push('refreshIfStale');
        return Promise.resolve();
      },
      refreshLists: () => null,
      view: {
        remoteStatusOf: () => remote,
        isRevokedLocally: () => false,
        names: null,
        isNameRevoked: () => false,
      },
    },
    clock: () => time,
    requiresBinding: true,
    use: (claims, _, now) => {
      steps.push(`use at ${now - NOW}`);
      expect(claims.args).toEqual(args);
      return Promise.resolve(null);
    },
    ...more,
  };
  const bundle = invoke(makeChain(2, { 1: { drs_status_list_index: 7 } }), { args });
  return {
    steps,
    setTime: (seconds: number) => (time = NOW + seconds),
    parts,
    codeOf: async (call: Partial<Call> = {}) =>
      (await judge({ bundle, body: ofArgs, ...call }, parts)).failure?.code ?? null,
  };
}

describe('a judge', () => {
  it.each<[string, RemoteStatus, Partial<Call>, string]>([
    ['is revoked', 'revoked', {}, 'RECEIPT_REVOKED'],
    ['has another body', 'not_revoked', { body: { kind: 'text', text: '{}' } }, 'BINDING_MISMATCH'],
    ['has no body', 'not_revoked', { body: null }, 'BINDING_REQUIRED'],
    ['has neither a body nor a good chain', 'revoked', { body: null }, 'RECEIPT_REVOKED'],
    ['has expired', 'revoked', { now: NOW + 4000 }, 'EXPIRED'],
  ])('does not use up an invocation whose call %s', async (_, remote, call, code) => {
    const { codeOf, steps } = openJudge(remote);
    expect(await codeOf(call)).toBe(code);
    expect(steps.filter((step) => step.startsWith('use'))).toEqual([]);
  });

  it('does not wait for the list where it may not', async () => {
    const judging = openJudge('unavailable');
    const never = new Promise<void>(() => undefined);
    const revocation = { ...judging.parts.revocation, refreshIfStale: () => never };
    const { codeOf } = openJudge('unavailable', { revocation });
    expect(await codeOf({ mayWait: () => false })).toBe('REVOCATION_CHECK_FAILED');
  });
});

describe('a judge whose roots change', () => {
  const entry = (more: object = {}) => {
    const read = readGivenRoots([{ did, ...more }]);
    if ('problem' in read) throw new Error(read.problem);
    return read.value;
  };
  const chain = makeChain(2, { 1: { drs_status_list_index: 7 } });
  const { did } = chain.parties[0] as Party;
  const bundle = invoke(chain, { args });

  function open(onFreshen?: () => void) {
    let roots: Roots = entry();
    const signatures = new InThreadVerifier();
    const stated = { tools: null, allowsUnstated: false };
    const rules = {
      maxChainDepth: 16,
      clockSkewSecs: 0,
      expiryGraceSecs: 0,
      serverIdentity: null,
      ...stated,
    };
    const trustedRoots = { get: (root: string) => roots.get(root) };
    const judging = openJudge('not_revoked', { rules: { ...rules, trustedRoots }, signatures });
    const { revocation } = judging.parts;
    const refreshIfStale = () => {
      onFreshen?.();
      return Promise.resolve();
    };
    const parts = { ...judging.parts, revocation: { ...revocation, refreshIfStale } };
    return {
      trust: (more: Roots) => (roots = more),
      signatures,
      ask: async () => {
        const { failure, ...valid } = await judge({ bundle, body: ofArgs }, parts);
        return failure?.code ?? (valid as unknown as { root: Root }).root;
      },
    };
  }

  it('goes by the entry that there is at each call, and verifies no receipt again', async () => {
    const { trust, ask, signatures } = open();
    expect(await ask()).toMatchObject({ name: null });
    trust(entry({ name: 'Alice' }));
    expect(await ask()).toMatchObject({ name: 'Alice' });
    trust(new Map());
    expect(await ask()).toBe('UNTRUSTED_ROOT');
    const narrow = entry({ policy: { allowed_tools: ['search'] } });
    trust(narrow);
    for (let call = 0; call < 2; call++) expect(await ask()).toBe('ROOT_POLICY_EXCEEDED');
    const wide = entry({ policy: { allowed_tools: ['search', 'fetch'] } });
    trust(wide);
    for (let call = 0; call < 2; call++) expect(await ask()).toBe(wide.get(did));
    trust(narrow);
    expect(await ask()).toBe('ROOT_POLICY_EXCEEDED');
    trust(entry({ not_after: '2020-01-01' }));
    expect(await ask()).toBe('ROOT_EXPIRED');
    trust(entry({ not_before: '2999-01-01' }));
    expect(await ask()).toBe('ROOT_NOT_YET_VALID');
    // Three for the first call, then one each.
    expect(signatures.stats.inThread).toBe(3 + 9);
  });

  it('counts both bounds of an entry in, without a skew', async () => {
    const { trust, ask } = open();
    const at = (seconds: number) => new Date((NOW + seconds) * 1000).toISOString().replace('.000Z', 'Z');
    trust(entry({ not_before: at(0), not_after: at(0) }));
    expect(await ask()).toMatchObject({ from: NOW, until: NOW });
    trust(entry({ not_before: at(1) }));
    expect(await ask()).toBe('ROOT_NOT_YET_VALID');
    trust(entry({ not_after: at(-1) }));
    expect(await ask()).toBe('ROOT_EXPIRED');
  });

  it('looks again after a wait for the status list', async () => {
    const judging = open(() => judging.trust(new Map()));
    expect(await judging.ask()).toBe('UNTRUSTED_ROOT');
    const renamed = open(() => renamed.trust(entry({ name: 'Alice' })));
    expect(await renamed.ask()).toMatchObject({ name: 'Alice' });
    const narrowed = open(() => narrowed.trust(entry({ policy: { max_cost_usd: 1 } })));
    expect(await narrowed.ask()).toBe('ROOT_POLICY_EXCEEDED');
  });
});
