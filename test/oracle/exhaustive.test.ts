import { afterAll, expect, test } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { liveCall } from '../middleware/call.js';
import { makeChain, type TestBundle } from '../support/chain.js';
import { verifyRemembered } from './differential/signatures.js';
import { fromValue } from './json.js';
import { verify, type Answer } from './oracle.js';

/** Values of each member (first: absent) and of the argument that it limits. Every combination is tried. */
const LISTS = [undefined, [], ['a'], ['b', 'a'], ['*'], ['a', '*']];
const ARGUMENTS = [undefined, 'a', 'b', '*', '', 7, null, ['a'], {}];
const NUMBERS = [undefined, 0, 1, 1.5, 1e300];
const FLAGS = [undefined, true, false];
const UNIVERSE: Readonly<
  Record<
    string,
    { readonly values: readonly unknown[]; readonly arg?: string; readonly args: readonly unknown[] }
  >
> = {
  allowed_tools: { values: LISTS, arg: 'tool', args: ARGUMENTS },
  allowed_data_classes: { values: LISTS, arg: 'data_class', args: ARGUMENTS },
  approve_tools: { values: LISTS, arg: 'tool', args: ARGUMENTS },
  allowed_resources: {
    values: [undefined, [], ['p/a'], ['p/*'], ['p/a/*', 'q'], ['*']],
    arg: 'resource_uri',
    args: [undefined, 'p/a', 'p/a/b', 'p/', 'p', 'q', 'p/../q', 'p/a\\b', '*', 'p/*', 7, null],
  },
  max_cost_usd: {
    values: NUMBERS,
    arg: 'estimated_cost_usd',
    args: [undefined, 0, 1, 1.25, 2, -1, '1', null, true],
  },
  max_total_cost_usd: {
    values: [undefined, 0, 1.9e-6, 0.3, 1e9],
    arg: 'estimated_cost_usd',
    args: [undefined, 0, 1e-7, 1.9e-6, 0.3, 0.1 + 0.2, 1e9, 1e9 + 1, -1, '1', null],
  },
  max_delegations: { values: [undefined, 0, 1, 5], args: [undefined] },
  max_calls: { values: [undefined, 0, 1, 5], args: [undefined] },
  pii_access: { values: FLAGS, arg: 'pii_access', args: [undefined, true, false, 'true', 1, null] },
  write_access: { values: FLAGS, arg: 'write_access', args: [undefined, true, false, 0, null, []] },
  'x.y': { values: [undefined, null, 1, '1', [1], { a: 1 }], args: [undefined] },
};

const ALONE = Symbol('no child');

const cached = createVerifier({ workerThreads: 0 });
const cold = createVerifier({ workerThreads: 0, receiptCacheBytes: 0 });
afterAll(async () => {
  await cached.close();
  await cold.close();
});

const askOracle = (bundle: TestBundle) =>
  verify({
    bundle: fromValue(bundle),
    body: undefined,
    now,
    settings: {},
    revocation: { remote: 'none', local: new Set() },
    verifySignature: verifyRemembered,
  });
const codeOf = (answer: Answer) => (answer.valid ? 'valid' : answer.code);
const now = Math.floor(Date.now() / 1000);
const window = { iat: now - 60, nbf: now - 60, exp: now + 3600 };
const policyOf = (name: string, value: unknown) => (value === undefined ? {} : { [name]: value });

test.each(Object.entries(UNIVERSE))(
  '%s: every parent, child and call',
  async (name, { values, arg, args }) => {
    // What the parent alone allows.
    const alone = new Map<unknown, string>();
    const wrong: unknown[] = [];
    let asked = 0;
    for (const parent of values)
      for (const child of [ALONE, ...values]) {
        const isAlone = child === ALONE;
        const policies = isAlone ? [parent] : [parent, child];
        const chain = makeChain(
          policies.length,
          Object.fromEntries(policies.map((value, at) => [at, { ...window, policy: policyOf(name, value) }])),
        );
        for (const value of args) {
          const bundle = liveCall(chain, arg === undefined || value === undefined ? {} : { [arg]: value });
          const expected = codeOf(askOracle(bundle));
          for (const verifier of [cold, cached, cached]) {
            const verdict = await verifier.verify(bundle, { now });
            const found = verdict.valid ? 'valid' : verdict.error.code;
            if (found !== expected) wrong.push({ parent, child, value, found, expected });
          }
          const key = JSON.stringify([parent ?? 'absent', value ?? `${value}`]);
          if (isAlone) alone.set(key, expected);
          // The definition of attenuation: whatever the chain allows, the parent alone allows too.
          else if (expected === 'valid' && alone.get(key) !== 'valid')
            wrong.push({ parent, child, value, alone: alone.get(key) });
          asked++;
        }
      }
    // Once for all of them: an `expect` costs as much as a verdict.
    expect(wrong).toEqual([]);
    expect(asked).toBe(values.length * (values.length + 1) * args.length);
  },
);

test('max_delegations: every chain of up to four levels', async () => {
  const limits = [undefined, 1, 2];
  const wrong: unknown[] = [];
  const codes = new Set<string>();
  let chains: (number | undefined)[][] = [[]];
  for (let depth = 1; depth <= 4; depth++) {
    chains = chains.flatMap((above) => limits.map((limit) => [...above, limit]));
    for (const chain of chains) {
      const claims = chain.map((limit) => ({ ...window, policy: policyOf('max_delegations', limit) }));
      const bundle = liveCall(makeChain(depth, Object.fromEntries(claims.entries())), {});
      const expected = codeOf(askOracle(bundle));
      const verdict = await cached.verify(bundle, { now });
      const found = verdict.valid ? 'valid' : verdict.error.code;
      codes.add(found);
      if (found !== expected) wrong.push({ chain, found, expected });
      // The definition: at each level as many receipts follow as it says at most.
      const isKept = chain.every((limit, at) => depth - 1 - at <= (limit ?? Infinity));
      if (found === 'valid' ? !isKept : isKept && found !== 'POLICY_ESCALATION') wrong.push({ chain, found });
    }
  }
  expect(wrong).toEqual([]);
  expect([...codes].sort()).toEqual(['DELEGATION_NOT_ALLOWED', 'POLICY_ESCALATION', 'valid']);
});
