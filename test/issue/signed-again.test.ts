import { expect, it, vi } from 'vitest';
import type * as ed25519 from '../../src/issue/ed25519-node.js';
import {
  generateKey,
  issueInvocation,
  issueRootDelegation,
  issueSubDelegation,
} from '../../src/issue/index.js';

const verified: number[] = [];
vi.mock('../../src/issue/ed25519-node.js', async (importOriginal) => {
  const real = await importOriginal<typeof ed25519>();
  const verifyAll: typeof real.verifyAll = (checks) => {
    verified.push(checks.length);
    return real.verifyAll(checks);
  };
  return { ...real, verifyAll };
});

it('a chain is verified once for all calls that are signed under it, and judged anew for each', async () => {
  const [alice, bot, helper] = [generateKey(), generateKey(), generateKey()];
  const now = 1_800_000_000;
  const root = await issueRootDelegation({
    ...{ key: alice, audience: bot.did, command: '/mcp', policy: { allowed_tools: ['search'] }, now },
    ...{ rootType: 'organisation', expiresAt: now + 60 },
  });
  const sub = { key: bot, chain: [root], audience: helper.did, policy: { allowed_tools: ['search'] }, now };
  const chain = [root, await issueSubDelegation({ ...sub, unchecked: true })];
  verified.length = 0;
  const sign = (more: object = {}) =>
    issueInvocation({
      key: helper,
      chain,
      args: { tool: 'search' },
      toolServer: 'https://a.example',
      now,
      ...more,
    });
  for (let calls = 0; calls < 3; calls++) await sign();
  // The signature that was just made, then those of the chain that are not known.
  expect(verified).toEqual([1, 2, 1, 0, 1, 0]);
  const refused = async (more: object) => sign(more).catch(({ code }: { code: string }) => code);
  expect(await refused({ args: { tool: 'delete' } })).toBe('POLICY_VIOLATION');
  expect(await refused({ now: now + 61 })).toBe('EXPIRED');
  const forged = chain.map((jwt, at) => (at === 0 ? jwt.replace(/.{10}$/, 'AAAAAAAAAA') : jwt));
  expect(await refused({ chain: forged })).toBe('CHAIN_BREAK');
  expect(await refused({ key: bot, chain: forged.slice(0, 1) })).toBe('INVALID_SIGNATURE');
});
