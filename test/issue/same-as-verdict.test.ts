import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { createVerifier } from '../../src/index.js';
import {
  createBundle,
  generateKey,
  issueInvocation,
  IssueError,
  issueSubDelegation,
  type JsonObject,
  type IssuedPolicy,
  type SubDelegationOptions,
} from '../../src/issue/index.js';
import { at, issuedChain, NOW, STATED, type IssuedChain } from './random-chain.js';

const verifier = createVerifier({ workerThreads: 0 });
afterAll(() => verifier.close());

const SERVER = 'https://tools.example';
const mallory = generateKey();

const deviations = {
  policy: fc.record(
    {
      allowed_tools: fc.constantFrom(['*'], ['a']),
      max_cost_usd: fc.constantFrom(0, 1, 1e9),
      max_total_cost_usd: fc.constantFrom(0, 1, 1e9),
      max_delegations: fc.constantFrom(0, 1, 99),
      write_access: fc.boolean(),
      pii_access: fc.boolean(),
      allowed_resources: fc.constantFrom(['*'], ['file:///data/reports/a'], ['file:///data/../etc']),
    },
    { requiredKeys: [] },
  ),
  command: fc.constantFrom('/mcp', '/mcp/tools/call', '/mcp/tools/caller', '/mcp/tools/call/x'),
  notBefore: fc.constantFrom(NOW - 2000, NOW - 500, NOW),
  expiresAt: fc.constantFrom(NOW, NOW + 500, NOW + 2000),
  foreign: fc.constant(true),
};

/** Changes to the options of a receipt that may not be allowed under a random chain; usually one at a time. */
const request = fc.oneof(
  fc.record({ policy: deviations.policy }),
  fc.record({ command: deviations.command }),
  fc.record({ notBefore: deviations.notBefore }),
  fc.record({ expiresAt: deviations.expiresAt }),
  fc.record(deviations, { requiredKeys: [] }),
);

it('a receipt is issued exactly where the verdict on it would be valid, and refused with its code', async () => {
  const outcomes = new Set<string>();
  const property = fc.asyncProperty(issuedChain, request, async (made, asked) => {
    const chain = await made;
    const { foreign, policy, ...rest }: Partial<Asked> = asked;
    fc.pre(chain.receipts.length < 16);
    const delegate = generateKey();
    const options: SubDelegationOptions = {
      key: foreign ? mallory : at(chain.keys, -1),
      chain: chain.receipts,
      audience: delegate.did,
      policy: { ...at(chain.policies, -1), ...policy },
      now: NOW,
      ...rest,
    };
    const receipts = [...chain.receipts, await issueSubDelegation({ ...options, unchecked: true })];
    const { args, forbidden } = callUnder(chain, options.policy);
    const invocation = await issueInvocation({
      key: delegate,
      chain: receipts,
      args,
      toolServer: SERVER,
      now: NOW,
      unchecked: true,
    });
    const verdict = await verifier.verify(createBundle({ receipts, invocation }), { now: NOW });
    // Who issues asks nobody: what waits for a yes is in order.
    const isIssued = verdict.valid || verdict.error.code === 'APPROVAL_REQUIRED';
    const code = isIssued ? 'issued' : verdict.error.code;
    outcomes.add(code);
    // A call that no policy allows proves nothing about the receipt.
    if (forbidden && code === 'POLICY_VIOLATION') return;
    expect(await codeOf(() => issueSubDelegation(options))).toBe(code);
  });
  const wanted = [
    'COMMAND_MISMATCH',
    'ISSUER_MISMATCH',
    'POLICY_ESCALATION',
    'TEMPORAL_BOUNDS_VIOLATION',
    'issued',
  ];
  // Fifty random requests may lack one of these.
  for (let round = 1; round <= 20 && !wanted.every((code) => outcomes.has(code)); round++)
    await fc.assert(property, { numRuns: 50 });
  expect([...outcomes]).toEqual(expect.arrayContaining(wanted));
}, 300_000);

it('a call is signed exactly where its verdict would be valid, and refused with its code', async () => {
  const call = fc.record(
    {
      tool: fc.constantFrom('a', 'b', 7),
      estimated_cost_usd: fc.constantFrom(0, 1e7, '0'),
      write_access: fc.boolean(),
      resource_uri: fc.constantFrom('file:///data/x', 'file:///data/reports/x', 'file:///etc'),
    },
    { requiredKeys: [] },
  );
  const command = fc.constantFrom(undefined, '/mcp', '/mcp/tools/call/a/b');
  const time = fc.constantFrom(NOW, NOW - 995, NOW + 995, NOW + 5000);
  await fc.assert(
    fc.asyncProperty(
      issuedChain,
      call,
      command,
      time,
      fc.boolean(),
      fc.boolean(),
      async (made, args, cmd, now, foreign, isStated) => {
        const chain = await made;
        const options = {
          key: foreign ? mallory : at(chain.keys, -1),
          chain: chain.receipts,
          args: {
            tool: at(chain.policies, -1).allowed_tools?.[0] ?? 'a',
            ...(isStated ? STATED : {}),
            ...args,
          } as JsonObject,
          toolServer: SERVER,
          now,
          ...(cmd !== undefined && { command: cmd }),
        };
        const invocation = await issueInvocation({ ...options, unchecked: true });
        const verdict = await verifier.verify(createBundle({ receipts: chain.receipts, invocation }), {
          now,
        });
        expect(await codeOf(() => issueInvocation(options))).toBe(
          verdict.valid ? 'issued' : verdict.error.code,
        );
      },
    ),
    { numRuns: 50 },
  );
});

interface Asked {
  readonly foreign: boolean;
  readonly policy: IssuedPolicy;
  readonly command: string;
  readonly notBefore: number;
  readonly expiresAt: number;
}

/** A call that the policies allow, if any call is. */
function callUnder(
  { policies }: IssuedChain,
  policy: IssuedPolicy,
): { args: JsonObject; forbidden: boolean } {
  const tools = [...policies, policy].map(({ allowed_tools }) => allowed_tools);
  const tool = tools.findLast((names) => names !== undefined)?.[0];
  const args = { ...STATED, ...(tool !== undefined && { tool }) };
  // A receipt may name no resource that a call could have.
  return { args, forbidden: policy.allowed_resources?.[0] === 'file:///data/../etc' };
}

async function codeOf(issue: () => Promise<string>): Promise<string> {
  try {
    await issue();
    return 'issued';
  } catch (error) {
    if (error instanceof IssueError) return error.code;
    throw error;
  }
}
