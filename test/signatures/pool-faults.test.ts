import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { describe, expect, it, vi } from 'vitest';
import { parseCompactJwt } from '../../src/protocol/jwt.js';
import { PoolVerifier } from '../../src/signatures/pool.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import type { SignatureCheck } from '../../src/verify/blocks/c-signatures.js';
import { party, signJwt } from '../support/chain.js';
import { publicKeyOf } from '../../src/protocol/did-key.js';

const signer = party();
const publicKey = publicKeyOf(signer.did) as Uint8Array;

function checks(count: number, pad = 200): SignatureCheck[] {
  return Array.from({ length: count }, (_, at) => {
    const jwt = signJwt({ at, pad: 'x'.repeat(pad) }, signer);
    const parts = parseCompactJwt(jwt);
    if (parts.defect !== undefined) throw new Error(parts.defect);
    return { jwt, publicKey, signature: parts.signature, signingInputLength: parts.signingInputLength };
  });
}

const verified = (count: number) => Array<boolean>(count).fill(true);

describe('a pool', () => {
  it('ignores a batch that comes back after it was given up, and goes on without workers', async () => {
    const deaths: string[] = [];
    const verifier = new PoolVerifier(1, {
      lostAfterMs: 1,
      observer: { workerDied: ({ message }) => deaths.push(message) },
    });
    // Large messages, so that the worker is busy with each batch for many milliseconds.
    const jobs = Array.from({ length: 6 }, () => checks(20, 100_000));
    const results = await Promise.all(jobs.map(async (job) => verifier.verify(job)));
    expect(results).toEqual(jobs.map(() => verified(20)));
    await expect.poll(() => deaths).toEqual([expect.stringContaining('did not come back within 1 ms')]);
    // What is late comes back while these run; each check is counted once.
    expect(await verifier.verify(checks(40))).toEqual(verified(40));
    await new Promise((resolve) => setTimeout(resolve, 200));
    const { pending, inThread, pooled } = verifier.stats;
    expect([pending, inThread + pooled]).toEqual([0, 160]);
    await verifier.close();
  });

  it('drops what nobody waits for any more, and gives its place back', async () => {
    const verifier = new PoolVerifier(1);
    let isWanted = true;
    const unwanted = Array.from({ length: 50 }, async () => verifier.verify(checks(10), () => isWanted));
    const wanted = verifier.verify(checks(10));
    expect(verifier.waitMs).toBeGreaterThan(0);
    isWanted = false;
    const settled = await Promise.allSettled(unwanted);
    expect(settled.map(({ status }) => status)).toEqual(Array(50).fill('rejected'));
    for (const outcome of settled)
      expect(outcome).toMatchObject({ reason: expect.any(WorkDropped) as WorkDropped });
    expect(await wanted).toEqual(verified(10));
    const { pending, inThread, pooled } = verifier.stats;
    expect([pending, inThread + pooled, verifier.waitMs]).toEqual([0, 10, 0]);
    await verifier.close();
  });

  it.runIf(availableParallelism() > 1)(
    'hands a busy worker no small batch, but verifies it here',
    async () => {
      const verifier = new PoolVerifier(1);
      const jobs = [checks(32), checks(7)].map(async (job) => verifier.verify(job));
      // Behind the end of this turn, at which batches are handed over.
      await new Promise((resolve) => setImmediate(resolve));
      expect(verifier.stats).toMatchObject({ batches: 1, inThread: 4, pending: 35 });
      expect(await Promise.all(jobs)).toEqual([verified(32), verified(7)]);
      await verifier.close();
    },
  );

  it('does not take a moment in which the process stood still for a queue', async () => {
    const verifier = new PoolVerifier(1);
    const jobs = Array.from({ length: 40 }, async () => verifier.verify(checks(10)));
    const before = verifier.waitMs;
    const now = vi.spyOn(performance, 'now');
    let at = performance.now();
    // Each look at the clock is ten seconds after the last.
    now.mockImplementation(() => (at += 10_000));
    expect(verifier.waitMs).toBe(before);
    // This thread verifies the first few, and was away in each of them.
    await new Promise((resolve) => setImmediate(resolve));
    now.mockRestore();
    expect(verifier.stats.inThread).toBeGreaterThan(0);
    expect(verifier.waitMs).toBeLessThan(2 * before);
    await Promise.all(jobs);
    await verifier.close();
  });

  it('drops the rest of what was begun, too', async () => {
    const verifier = new PoolVerifier(1);
    // More than the slots hold, so that some of it waits while the first batches are out.
    let asked = 0;
    const begun = verifier.verify(checks(400), () => ++asked < 3);
    await expect(begun).rejects.toThrow(WorkDropped);
    await expect.poll(() => verifier.stats.pending).toBe(0);
    expect(await verifier.verify(checks(10))).toEqual(verified(10));
    await verifier.close();
  });
});
