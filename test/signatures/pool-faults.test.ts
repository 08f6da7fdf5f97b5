import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
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
    const { pending, inThread, pooled, workers, batches, repeated } = verifier.stats;
    expect([pending, inThread + pooled]).toEqual([0, 160]);
    expect([workers, repeated]).toEqual([0, batches]);
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

  it('verifies again what a worker that dies had not finished, and goes on with another', async () => {
    const threads: Worker[] = [];
    const onThread = (thread: Worker) => threads.push(thread);
    process.on('worker', onThread);
    const deaths: string[] = [];
    const verifier = new PoolVerifier(1, { observer: { workerDied: ({ message }) => deaths.push(message) } });
    try {
      while (verifier.stats.pooled === 0) await verifier.verify(checks(40));
      expect(threads).toHaveLength(1);
      const { repeated } = verifier.stats;
      const before = verifier.stats.inThread + verifier.stats.pooled;
      const results = verifier.verify(checks(60, 100_000));
      await nextTurn();
      await threads[0]?.terminate();
      expect(await results).toEqual(verified(60));
      const { pending, inThread, pooled } = verifier.stats;
      expect([pending, inThread + pooled - before]).toEqual([0, 60]);
      expect(verifier.stats.repeated).toBeGreaterThan(repeated);
      expect(deaths).toHaveLength(verifier.stats.repeated);
      // Its successor verifies, too.
      const { pooled: pooledBefore } = verifier.stats;
      await expect.poll(() => verifier.stats.workers, { timeout: 20_000 }).toBe(1);
      while (verifier.stats.pooled === pooledBefore)
        expect(await verifier.verify(checks(40))).toEqual(verified(40));
      expect(threads).toHaveLength(2);
    } finally {
      process.off('worker', onThread);
      await verifier.close();
    }
  });
});

describe('a turn of a pool', () => {
  it('verifies the first few at once, and gives idle workers equal shares of the others', async () => {
    const sent: number[] = [];
    const verifier = new PoolVerifier(3, { observer: { batchSent: (count) => sent.push(count) } });
    expect(verifier.verify([])).toEqual([]);
    expect(verifier.verify(checks(3))).toEqual(verified(3));
    // One more is few, two more are not.
    const jobs = [checks(2), checks(28)].map(async (job) => verifier.verify(job));
    expect(verifier.stats).toMatchObject({ inThread: 3, pending: 30 });
    await nextTurn();
    expect(sent).toEqual([10, 10, 10]);
    expect(await Promise.all(jobs)).toEqual([verified(2), verified(28)]);
    await verifier.close();
  });

  it('verifies one check that is left over itself, and counts anew in the next', async () => {
    const verifier = new PoolVerifier(1);
    for (let turn = 1; turn <= 3; turn++) {
      expect(verifier.verify(checks(4))).toEqual(verified(4));
      const last = verifier.verify(checks(1));
      expect(last).toBeInstanceOf(Promise);
      await nextTurn();
      expect(verifier.stats).toMatchObject({ inThread: 5 * turn, batches: 0, pending: 0 });
      expect(await last).toEqual([true]);
    }
    await verifier.close();
  });

  it('estimates that twice the workers take half the time', async () => {
    const verifiers = [new PoolVerifier(1), new PoolVerifier(2)] as const;
    expect(verifiers.map(({ waitMs }) => waitMs)).toEqual([0, 0]);
    const jobs = verifiers.map(async (verifier) => verifier.verify(checks(60)));
    const [one, two] = verifiers.map(({ waitMs }) => waitMs) as [number, number];
    expect(one).toBeGreaterThan(0);
    expect(one / two).toBeCloseTo(2);
    await Promise.all(jobs);
    await Promise.all(verifiers.map(async (verifier) => verifier.close()));
  });

  it('tells what it sent, what came back, and how long that took', async () => {
    const events = { sent: [] as number[], waited: [] as number[], returned: [] as number[] };
    const verifier = new PoolVerifier(1, {
      observer: {
        batchSent: (count) => events.sent.push(count),
        waited: (ms) => events.waited.push(ms),
        batchReturned: (ms) => events.returned.push(ms),
      },
    });
    const startedAt = performance.now();
    const jobs = [checks(20), checks(30), checks(40)].map(async (job) => verifier.verify(job));
    expect(await Promise.all(jobs)).toEqual([verified(20), verified(30), verified(40)]);
    // This thread may have finished what a worker has not answered for yet.
    await expect.poll(() => events.returned.length, { timeout: 20_000 }).toBe(events.sent.length);
    await verifier.close();
    const elapsed = performance.now() - startedAt;
    expect(events.sent[0]).toBe(32);
    expect(events.sent).toHaveLength(verifier.stats.batches);
    // Each share of a job is begun once: here or in a batch.
    expect(events.waited.length).toBeGreaterThanOrEqual(3);
    for (const ms of [...events.waited, ...events.returned]) {
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(ms).toBeLessThanOrEqual(elapsed);
    }
  });
});
