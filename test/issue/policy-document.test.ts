import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { generateKey, issueInvocation, issueRootDelegation } from '../../src/issue/index.js';
import type { IssuedPolicy, JsonObject } from '../../src/issue/index.js';
import { KNOWN_POLICY_MEMBERS } from '../../src/protocol/policy.js';
import type { ToolLine } from '../../src/trust/read-tool.js';
import { aConsent, refusalOf } from './random-chain.js';

const document = readFileSync(new URL('../../docs/policy.md', import.meta.url), 'utf8');

interface Example {
  readonly policy: IssuedPolicy;
  /** What the operator says. */
  readonly tools?: ToolLine[];
  readonly allowed: readonly JsonObject[];
  readonly refused: readonly JsonObject[];
}

const examples = [...document.matchAll(/\n(Safe|Unsafe)[^\n]*\n\n```json\n(.*?)```/gs)].map(
  ([, kind = '', json = '']) => ({ kind, json, ...(JSON.parse(json) as Example) }),
);

const alice = generateKey();
const bot = generateKey();

describe('docs/policy.md', () => {
  it('explains every known member, and no other', () => {
    const rows = [...document.matchAll(/^\| `(\w+)`: /gm)].map(([, name]) => name);
    expect(rows).toEqual([...KNOWN_POLICY_MEMBERS]);
  });

  it('has examples of both kinds, and every one is run', () => {
    expect(examples.map(({ kind }) => kind).sort()).toEqual(['Safe', 'Safe', 'Safe', 'Unsafe']);
    expect(document.split('```json')).toHaveLength(examples.length + 1);
  });

  it.each(examples)('$kind: $policy', async ({ policy, tools, allowed, refused }) => {
    const root = await issueRootDelegation({
      key: alice,
      audience: bot.did,
      command: '/mcp/tools/call',
      policy,
      consent: aConsent,
    });
    const call = (args: JsonObject) =>
      issueInvocation({ key: bot, chain: [root], args, tools, toolServer: 'x' });
    for (const args of allowed) expect(await call(args)).toMatch(/^eyJ/);
    for (const args of refused) expect((await refusalOf(() => call(args))).code).toBe('POLICY_VIOLATION');
  });
});
