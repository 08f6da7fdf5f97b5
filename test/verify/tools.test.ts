import { afterAll, describe, expect, it } from 'vitest';
import { createVerifier, type ToolLine, type VerifierOptions } from '../../src/index.js';
import { readGivenTools, readTool } from '../../src/trust/read-tool.js';
import type { JsonValue } from '../../src/protocol/json.js';
import { readPolicy } from '../../src/protocol/policy.js';
import { findViolation, statedOf, type Tool } from '../../src/verify/tools.js';
import { invoke, makeChain, NOW } from '../support/chain.js';
import { LIMIT_ROWS } from '../support/limit-table.js';

/** The tool of one line. */
function toolOf(line: Omit<ToolLine, 'tool'>): Tool {
  const read = readTool({ tool: 'x', ...line } as unknown as JsonValue);
  if (!('key' in read)) throw new Error(JSON.stringify(read));
  return read.value;
}

const limitsOf = (policy: object) => readPolicy(policy as { [name: string]: JsonValue }).limits ?? [];
/** By whose word a call breaks a policy; `null` if it does not. */
const brokenBy = (
  policy: object,
  args: object,
  line: Omit<ToolLine, 'tool'> | null,
  allowsUnstated = false,
) =>
  findViolation(limitsOf(policy), args as { [name: string]: JsonValue }, line && toolOf(line), allowsUnstated)
    ?.by ?? null;

it.each(LIMIT_ROWS)('$name: broken by $by', ({ policy, args, line, by }) => {
  expect(brokenBy(policy, args, line)).toBe(by);
  // What an operator lets pass is only what nobody says.
  const lax = by === 'nobody' && !('max_total_cost_usd' in policy) ? null : by;
  expect(brokenBy(policy, args, line, true)).toBe(lax);
});

it('limits nothing by what is open, whoever says something or nobody', () => {
  const open = {
    allowed_resources: ['*'],
    allowed_data_classes: ['*'],
    pii_access: true,
    write_access: true,
  };
  expect(brokenBy(open, {}, null)).toBeNull();
  expect(brokenBy(open, {}, { writes: true, pii: true, resource: 'x:y', data_class: 'z' })).toBeNull();
  const own = { argument: 'own' };
  expect(brokenBy(open, { own: 7 }, { writes: own, pii: own, resource: own, data_class: own })).toBeNull();
});

it('adds costs up as decimal numbers, and lets none hide another', () => {
  const line = { cost_usd: { argument: '/items' } };
  expect(brokenBy({ max_cost_usd: 0.3 }, { items: [0.1, 0.2] }, line)).toBeNull();
  expect(brokenBy({ max_cost_usd: 0.3 }, { items: [0.1, 0.2, 1e-7] }, line)).toBe('tool');
  for (const items of [[], [1, -1], [1, null], [[1]], [1e9, 1e9], { 0: 1 }])
    expect(brokenBy({ max_cost_usd: 0 }, { items }, line), JSON.stringify(items)).toBe('tool');
});

it('looks at all entries of an array, of which there are few enough', () => {
  const line = { resource: { argument: 'paths', before: 'file://' } };
  const entries = Array.from({ length: 4_096 }, (_, at) => `file:///data/${at}/*`);
  const limits = { allowed_resources: entries };
  const paths = Array.from({ length: 256 }, (_, at) => `/data/${at}/x`);
  expect(brokenBy(limits, { paths }, line)).toBeNull();
  expect(brokenBy(limits, { paths: [] }, line)).toBe('tool');
  expect(brokenBy(limits, { paths: [...paths.slice(1), '/etc/passwd'] }, line)).toBe('tool');
  expect(brokenBy(limits, { paths: [...paths.slice(1), '/data/1/../../etc'] }, line)).toBe('tool');
  expect(brokenBy(limits, { paths: [...paths, '/data/1/y'] }, line)).toBe('tool');
  expect(brokenBy({ allowed_resources: ['*'] }, { paths }, line)).toBeNull();
});

it.each(['../etc/passwd', 'a/../../b', '%2e%2e/b', 'a\\b', 'a b', ''])(
  'a path %j is outside of every folder',
  (path) => {
    const line = { resource: { argument: 'path', before: 'file:///data/' } };
    const limits = { allowed_resources: ['file:///data/*'] };
    expect(brokenBy(limits, { path: 'a/b' }, line)).toBeNull();
    expect(brokenBy(limits, { path }, line)).toBe(path === '' ? null : 'tool');
    expect(brokenBy({ allowed_resources: [`file:///data/${path}`] }, { path }, line)).toBe(
      path === '' ? null : 'tool',
    );
  },
);

it('says who stated what', () => {
  const levels = [
    { limits: limitsOf({ allowed_tools: ['x'], max_cost_usd: 5, write_access: false, pii_access: true }) },
    { limits: limitsOf({ max_total_cost_usd: 9, allowed_data_classes: ['a'], max_calls: 3 }) },
  ];
  const tool = toolOf({ cost_usd: { argument: 'amount' } });
  expect(statedOf(levels, { tool: 'x', amount: 2, write_access: false }, tool)).toEqual({
    stated_by: { estimated_cost_usd: 'tool', write_access: 'call' },
    unstated: ['data_class'],
    cost_usd: 2,
  });
  expect(statedOf([], { amount: 2 }, tool)).toEqual({});
});

describe('a line', () => {
  it.each<[object, string]>([
    [{}, '[0].tool: it is missing, expected the name of a tool, or "*"'],
    [{ tool: '' }, '[0].tool: it is "", expected the name'],
    [
      { tool: 'x', cost: 1 },
      '[0].cost: there is no such member, expected one of tool, cost_usd, writes, pii, data_class, resource',
    ],
    [
      { tool: 'x', cost_usd: -1 },
      '[0].cost_usd: it is -1, expected a number of US dollars of at least 0, or { "argument"',
    ],
    [{ tool: 'x', cost_usd: '1' }, '[0].cost_usd: it is "1", expected'],
    [{ tool: 'x', writes: 'yes' }, '[0].writes: it is "yes", expected true or false'],
    [{ tool: 'x', writes: { argument: '' } }, '[0].writes: it is {"argument":""}'],
    [{ tool: 'x', writes: { argument: 'a', before: 'b' } }, '[0].writes: it is'],
    [{ tool: 'x', resource: { argument: 'a', after: 'b' } }, '[0].resource: it is'],
    [{ tool: 'x', resource: 'file:///a/../b' }, '[0].resource: it is "file:///a/../b", expected a plain URI'],
    [{ tool: 'x', pii: undefined }, '[0].pii: it is missing, expected true or false'],
  ])('%j is refused', (line, problem) => {
    const read = readGivenTools([line as ToolLine]);
    expect('problem' in read && read.problem).toContain(problem);
  });

  it('counts once', () => {
    const read = readGivenTools([{ tool: 'x' }, { tool: 'x' }]);
    expect('problem' in read && read.problem).toBe('[1].tool: it is in another line, too');
  });
});

describe('a verifier', () => {
  const opened: { close(): Promise<void> }[] = [];
  afterAll(async () => {
    for (const one of opened) await one.close();
  });
  const verify = async (policy: object, args: object, options: VerifierOptions = {}) => {
    const verifier = createVerifier({ workerThreads: 0, ...options });
    opened.push(verifier);
    const bundle = invoke(makeChain(2, { 0: { policy }, 1: { policy } }), { args });
    return verifier.verify(bundle, { now: NOW, details: true });
  };
  const tools: ToolLine[] = [
    { tool: 'transfer', cost_usd: { argument: 'amount' }, writes: true },
    { tool: '*', writes: false },
  ];

  it('goes by the line of the tool, or by that of all others', async () => {
    const paid = { max_cost_usd: 50 };
    expect(await verify(paid, { tool: 'transfer', amount: 50 }, { tools })).toMatchObject({
      valid: true,
      details: { stated_by: { estimated_cost_usd: 'tool' }, cost_usd: 50 },
    });
    expect((await verify(paid, { tool: 'transfer', amount: 51 }, { tools })).error?.message).toBe(
      'Invocation: args.estimated_cost_usd is 51, expected what max_cost_usd 50 allows, by what the operator says of the tool, the policy of Receipt 0',
    );
    const reads = { write_access: false };
    expect((await verify(reads, { tool: 'search' }, { tools })).valid).toBe(true);
    expect((await verify(reads, {}, { tools })).valid).toBe(true);
    expect((await verify(reads, { tool: 'transfer', write_access: false }, { tools })).error?.code).toBe(
      'POLICY_VIOLATION',
    );
  });

  it('refuses what is not stated, unless that is said in so many words', async () => {
    const policy = { write_access: false };
    expect((await verify(policy, { tool: 'delete_all' })).error?.code).toBe('POLICY_VIOLATION');
    expect(await verify(policy, { tool: 'delete_all' }, { unstatedArguments: 'allow' })).toMatchObject({
      valid: true,
      details: { unstated: ['write_access'] },
    });
    expect(await verify({ max_cost_usd: 5 }, { estimated_cost_usd: 1 })).toMatchObject({
      valid: true,
      details: { stated_by: { estimated_cost_usd: 'call' } },
    });
  });
});
