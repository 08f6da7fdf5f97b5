import { expect, it, vi } from 'vitest';
import type * as chains from '../../src/issue/chain.js';
import type * as ed25519 from '../../src/issue/ed25519-node.js';
import type { Failure } from '../../src/verify/codes.js';
import { makeChain, NOW } from '../support/chain.js';

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
  // Loaded once more: another file of this process may have loaded it with the real function.
  const fresh = '../../src/issue/chain.js?fresh';
  const { readChain, requireValid } = (await import(fresh)) as typeof chains;
  const { receipts } = makeChain(2);
  const check = async (jwts: readonly string[], now = NOW) => {
    try {
      await requireValid(readChain(jwts), null, now, null);
      return null;
    } catch (error) {
      return (error as Failure).code;
    }
  };
  for (let calls = 0; calls < 3; calls++) expect(await check(receipts)).toBeNull();
  expect(verified).toEqual([2, 0, 0]);
  expect(await check(receipts, NOW + 1e9)).toBe('EXPIRED');
  const forged = receipts.map((jwt) => jwt.replace(/.{10}$/, 'AAAAAAAAAA'));
  expect(await check([forged[0] ?? '', receipts[1] ?? ''])).toBe('CHAIN_BREAK');
  expect(await check([receipts[0] ?? '', forged[1] ?? ''])).toBe('INVALID_SIGNATURE');
});
