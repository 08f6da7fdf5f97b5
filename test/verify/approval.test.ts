import { describe, expect, it } from 'vitest';
import { createVerifier, type TrustedRoot, type VerifierOptions } from '../../src/index.js';
import { invoke, makeChain, NOW, type Overrides } from '../support/chain.js';
import { Passkey } from '../approval/passkey.js';

const alice = new Passkey().approver;

interface Case {
  readonly policies?: readonly Overrides[];
  readonly args?: Overrides;
  readonly entry?: Omit<TrustedRoot, 'did'>;
  readonly options?: VerifierOptions;
}

async function verdictOn({ policies = [{}], args = {}, entry, options }: Case) {
  const chain = makeChain(
    policies.length,
    Object.fromEntries(policies.map((policy, at) => [at, { policy }])),
  );
  const did = chain.parties[0]?.did ?? '';
  const trusted = entry === undefined ? {} : { trustedRoots: [{ did, ...entry }] };
  const verifier = createVerifier({ workerThreads: 0, ...trusted, ...options });
  const bundle = invoke(chain, { args });
  // Twice: the second time the chain is known.
  const verdicts = [await verifier.verify(bundle, { now: NOW }), await verifier.verify(bundle, { now: NOW })];
  await verifier.close();
  const [first, second] = verdicts.map(({ error }) => error?.message ?? 'valid');
  expect(second).toBe(first);
  for (const { error } of verdicts)
    if (error !== undefined && error.message.includes('needs a yes'))
      expect(error.code).toBe('APPROVAL_REQUIRED');
  return first;
}

const NOBODY = 'expected approvers, which the line of the root principal in TRUSTED_ROOTS_FILE does not have';
const transfer = { tool: 'transfer', amount: 50 };

describe('a call needs a yes', () => {
  it.each<[string, Case, string]>([
    [
      'that the root asks for',
      { policies: [{ approve_tools: ['transfer'] }, { approve_tools: ['transfer'] }], args: transfer },
      `Invocation: the call of "transfer" needs a yes by policy.approve_tools of receipt 0, ${NOBODY}`,
    ],
    [
      'that another level asks for',
      { policies: [{}, { approve_tools: ['x', 'transfer'] }], args: transfer },
      'by policy.approve_tools of receipt 1',
    ],
    ['for any tool', { policies: [{ approve_tools: ['*'] }], args: transfer }, 'of receipt 0'],
    [
      'that names no tool',
      { policies: [{ approve_tools: ['x'] }], args: {} },
      'the call of missing needs a yes',
    ],
    [
      'whose tool is no text',
      { policies: [{ approve_tools: ['x'] }], args: { tool: ['x'] } },
      'of ["x"] needs a yes',
    ],
    [
      'by the policy of the entry',
      {
        entry: { policy: { approve_tools: ['a'] } },
        policies: [{ approve_tools: ['a'] }],
        args: { tool: 'a' },
      },
      "by policy.approve_tools of the root's entry",
    ],
    [
      'by the entry',
      { entry: { approve: { tools: ['transfer'] } }, args: transfer },
      "by approve.tools of the root's entry",
    ],
    [
      'by its cost',
      { entry: { approve: { above_usd: 50 } }, args: { estimated_cost_usd: 50.01 } },
      'by approve.above_usd 50',
    ],
    [
      'whose cost nobody says',
      { entry: { approve: { above_usd: 50 } }, args: transfer },
      'by approve.above_usd 50',
    ],
    [
      'whose cost is no number',
      { entry: { approve: { above_usd: 50 } }, args: { estimated_cost_usd: '1' } },
      'by approve.above_usd',
    ],
    [
      'whose cost is negative',
      { entry: { approve: { above_usd: 50 } }, args: { estimated_cost_usd: -1 } },
      'by approve.above_usd',
    ],
    [
      'by its cost, as its operator says, whatever it says itself',
      {
        entry: { approve: { above_usd: 50 } },
        args: { ...transfer, amount: 51, estimated_cost_usd: 1 },
        options: { tools: [{ tool: 'transfer', cost_usd: { argument: 'amount' } }] },
      },
      'by approve.above_usd 50',
    ],
    [
      'whose cost its operator cannot tell',
      {
        entry: { approve: { above_usd: 50 } },
        args: { tool: 'transfer', estimated_cost_usd: 1 },
        options: { tools: [{ tool: 'transfer', cost_usd: { argument: 'amount' } }] },
      },
      'by approve.above_usd 50',
    ],
    [
      'by its own word, whatever its operator says',
      {
        entry: { approve: { above_usd: 50 } },
        args: { tool: 'transfer', estimated_cost_usd: 51 },
        options: { tools: [{ tool: 'transfer', cost_usd: 1 }] },
      },
      'by approve.above_usd 50',
    ],
    [
      'by either of both',
      {
        entry: { approve: { tools: ['delete'], above_usd: 50 } },
        args: { tool: 'delete', estimated_cost_usd: 1 },
      },
      'by approve.tools',
    ],
    [
      'and says whose',
      { entry: { approve: { tools: ['*'] }, approvers: [alice], needed: 1 }, args: transfer },
      `expected a gate that asks "Alice"`,
    ],
  ])('%s', async (_, given, says) => {
    expect(await verdictOn(given)).toContain(says);
  });

  it.each<[string, Case]>([
    ['of another tool', { policies: [{ approve_tools: ['transfer'] }], args: { tool: 'search' } }],
    ['if nothing is asked for', { policies: [{ approve_tools: [] }], args: {} }],
    ['if the list is null', { policies: [{ approve_tools: null }], args: {} }],
    [
      'of another tool, by the entry',
      { entry: { approve: { tools: ['transfer'] } }, args: { tool: 'Transfer' } },
    ],
    ['that costs no more', { entry: { approve: { above_usd: 50 } }, args: { estimated_cost_usd: 50 } }],
    ['only because there are approvers', { entry: { approvers: [alice] }, args: transfer }],
    [
      'that costs no more, as its operator says',
      {
        entry: { approve: { above_usd: 50 } },
        args: transfer,
        options: { tools: [{ tool: 'transfer', cost_usd: { argument: 'amount' } }] },
      },
    ],
  ])('not one %s', async (_, given) => {
    expect(await verdictOn(given)).toBe('valid');
  });

  it('after all that refuses it, and before it is used', async () => {
    const asked = { approve_tools: ['transfer'] };
    expect(await verdictOn({ policies: [{ ...asked, allowed_tools: ['search'] }], args: transfer })).toMatch(
      /args.tool/,
    );
    expect(await verdictOn({ policies: [asked], args: transfer, options: { requireBinding: true } })).toMatch(
      /body/,
    );
    // The same invocation twice: it was not used.
    const replay = { policies: [asked], args: transfer, options: { replayProtection: 'memory' } } as const;
    expect(await verdictOn(replay)).toContain('needs a yes');
  });

  it('of which a child keeps every name', async () => {
    const escalates = (...lists: (string[] | null)[]) =>
      verdictOn({ policies: lists.map((approve_tools) => ({ approve_tools })), args: { tool: 'c' } });
    for (const lists of [
      [['a'], []],
      [['a'], null],
      [['a', 'b'], ['b']],
      [['a'], ['*']],
      [['*'], ['a']],
    ])
      expect(await escalates(...lists)).toMatch(
        /^Receipt 1: policy.approve_tools is .*, expected at most \[/,
      );
    for (const lists of [
      [['a'], ['a']],
      [
        ['a', 'b'],
        ['b', 'x', 'a'],
      ],
      [[], null],
      [null, ['a']],
    ])
      expect(await escalates(...lists)).toBe('valid');
    const entry = { policy: { approve_tools: ['a'] } };
    expect(await verdictOn({ entry, args: { tool: 'c' } })).toMatch(/policy.approve_tools is missing/);
  });
});
