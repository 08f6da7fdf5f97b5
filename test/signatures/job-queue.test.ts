import { describe, expect, it } from 'vitest';
import { Job, JobQueue } from '../../src/signatures/batches.js';
import { WorkDropped } from '../../src/signatures/signature-verifier.js';
import type { SignatureCheck } from '../../src/protocol/jwt.js';

/** Checks that differ only in the name that they carry. */
function named(names: readonly string[]): SignatureCheck[] {
  return names.map((jwt) => ({
    jwt,
    signature: new Uint8Array(64) as SignatureCheck['signature'],
    publicKey: new Uint8Array(32),
    signingInputLength: 1,
  }));
}

const jobOf = (names: string, isWanted = () => true) => new Job(named(names.split('')), isWanted, 0);

/** What was taken, such as `ab c`: the first two of one job, and one of another. */
function take(queue: JobQueue, limit: number, accept?: (check: SignatureCheck) => boolean): string {
  const shares = queue.take(limit, accept);
  return shares
    .map(({ job, from, to }) =>
      job.checks
        .slice(from, to)
        .map(({ jwt }) => jwt)
        .join(''),
    )
    .join(' ');
}

describe('a queue of jobs', () => {
  it('gives its checks in order, as many as are asked for', () => {
    const queue = new JobQueue();
    for (const names of ['abc', 'd', 'ef']) queue.add(jobOf(names));
    expect([queue.waiting, queue.first.jwt]).toEqual([6, 'a']);
    expect([take(queue, 2), queue.waiting, queue.first.jwt]).toEqual(['ab', 4, 'c']);
    expect([take(queue, 2), queue.waiting, queue.first.jwt]).toEqual(['c d', 2, 'e']);
    queue.add(jobOf('gh'));
    expect([take(queue, 1), queue.waiting, queue.first.jwt]).toEqual(['e', 3, 'f']);
    expect([take(queue, 9), queue.waiting]).toEqual(['f gh', 0]);
    expect([take(queue, 9), queue.waiting]).toEqual(['', 0]);
  });

  it('keeps what is refused, and what comes after it', () => {
    const queue = new JobQueue();
    for (const names of ['ab', 'cd', 'e']) queue.add(jobOf(names));
    expect([take(queue, 9, ({ jwt }) => jwt !== 'd'), queue.waiting, queue.first.jwt]).toEqual([
      'ab c',
      2,
      'd',
    ]);
    expect([take(queue, 9, ({ jwt }) => jwt !== 'd'), queue.waiting, queue.first.jwt]).toEqual(['', 2, 'd']);
    expect(queue.take(9, () => false)).toEqual([]);
    expect([take(queue, 9), queue.waiting]).toEqual(['d e', 0]);
  });

  it('drops on its way what nobody waits for', async () => {
    const queue = new JobQueue();
    let isWanted = true;
    const dropped = [jobOf('ab', () => isWanted), jobOf('fg', () => isWanted)] as const;
    for (const job of [dropped[0], jobOf('cde'), dropped[1], jobOf('h')]) queue.add(job);
    expect([take(queue, 1), queue.waiting]).toEqual(['a', 7]);
    isWanted = false;
    // Dropped checks do not count against the limit; those behind the last one taken are not asked about.
    expect([take(queue, 2), queue.waiting]).toEqual(['cd', 4]);
    await expect(dropped[0].done).rejects.toThrow(
      new WorkDropped('nobody waits for these signatures any more'),
    );
    expect([take(queue, 2), queue.waiting]).toEqual(['e h', 0]);
    await expect(dropped[1].done).rejects.toThrow(WorkDropped);
  });
});

describe('a job', () => {
  it('is done when each of its checks has a result, in their order', async () => {
    const job = jobOf('abc');
    let isDone = false;
    void job.done.then(() => (isDone = true));
    job.record(2, true);
    job.record(0, true);
    await Promise.resolve();
    expect(isDone).toBe(false);
    job.record(1, false);
    expect(await job.done).toEqual([true, false, true]);
  });
});
