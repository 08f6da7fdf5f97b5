import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseCompactJwt, type SignatureCheck } from '../../src/protocol/jwt.js';
import { PoolVerifier } from '../../src/signatures/pool.js';
import { WorkDropped, type SignatureObserver } from '../../src/signatures/signature-verifier.js';
import { party, signJwt } from '../support/chain.js';
import { eventually } from '../support/eventually.js';
import { publicKeyOf } from '../../src/protocol/did-key.js';

const signer = party();
const publicKey = publicKeyOf(signer.did) as Uint8Array;

/** All that were signed, by the length of their padding. */
const signed = new Map<number, SignatureCheck[]>();

function checks(count: number, pad = 200): SignatureCheck[] {
  const known = signed.get(pad) ?? [];
  signed.set(pad, known);
  while (known.length < count) {
    const jwt = signJwt({ at: known.length, pad: 'x'.repeat(pad) }, signer);
    const parts = parseCompactJwt(jwt);
    if (parts.defect !== undefined) throw new Error(parts.defect);
    const { signature, signingInputLength } = parts;
    known.push({ jwt, publicKey, signature, signingInputLength });
  }
  return known.slice(0, count);
}

const verified = (count: number) => Array<boolean>(count).fill(true);

/** Resolves once a worker has verified something: while it starts, this thread takes back all that it was handed. */
const startedWorker = (verifier: PoolVerifier) =>
  eventually(async () => {
    await verifier.verify(checks(40));
    expect(verifier.stats.pooled).toBeGreaterThan(0);
  });

const opened: PoolVerifier[] = [];
/** A pool that is closed after the test, if it is not closed before. */
function open(...options: ConstructorParameters<typeof PoolVerifier>): PoolVerifier {
  const verifier = new PoolVerifier(...options);
  opened.push(verifier);
  return verifier;
}

/** A pool that gives up no worker that a busy machine stops for seconds. */
const patientPool = (observer: SignatureObserver, workers = 1) => open(workers, observer, 60_000);

const cores = availableParallelism();

/** The threads that have begun since the test began. */
let threads: Worker[] = [];
const onThread = (thread: Worker) => void threads.push(thread);
beforeEach(() => {
  threads = [];
  process.on('worker', onThread);
});
afterEach(async () => {
  process.off('worker', onThread);
  vi.useRealTimers();
  vi.restoreAllMocks();
  for (const verifier of opened.splice(0)) await verifier.close();
});

/**
 * Keeps all batches from the workers, or all their answers from this thread.
 *
 * @returns ends that; resolves once all that was held has been answered
 */
function hold(what: 'batches' | 'answers'): () => Promise<void> {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const answers: Promise<unknown>[] = [];
  // oxlint-disable-next-line typescript/unbound-method -- called with its object below
  const { run } = Piscina.prototype;
  const spy = vi.spyOn(Piscina.prototype, 'run').mockImplementation(function (this: Piscina, ...task) {
    const answer = (async () => {
      if (what === 'batches') await held;
      const result = (await run.apply(this, task)) as unknown;
      await held;
      return result;
    })();
    answers.push(answer);
    return answer;
  });
  return async () => {
    spy.mockRestore();
    release();
    await Promise.allSettled(answers);
  };
}

describe('a pool', () => {
  it('ignores a batch that comes back after it was given up, and does without workers until one does', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const deaths: string[] = [];
    let returns = 0;
    const verifier = open(
      1,
      { workerDied: ({ message }) => deaths.push(message), workersBack: () => returns++ },
      1000,
    );
    // More often than there are slots.
    for (let round = 1; round <= 3; round++) {
      const release = hold('answers');
      const job = verifier.verify(checks(40));
      await nextTurn();
      expect([verifier.stats.batches, verifier.stats.workers]).toEqual([2 * round, 1]);
      vi.advanceTimersByTime(1200);
      expect(verifier.stats).toMatchObject({ workers: 0, repeated: 2 * round });
      expect(await job).toEqual(verified(40));
      // Without workers, nothing more is handed over.
      expect(await verifier.verify(checks(40))).toEqual(verified(40));
      expect(verifier.stats).toMatchObject({ workers: 0, batches: 2 * round, pending: 0 });
      // Both batches come back, the second one while there are workers again.
      await release();
      expect([verifier.stats.workers, returns, deaths.length]).toEqual([1, round, round]);
    }
    expect(verifier.stats).toMatchObject({ pending: 0, inThread: 240, pooled: 0 });
    expect(deaths[0]).toContain('did not come back within 1000 ms; until it does, the main thread verifies');
    await startedWorker(verifier);
  });

  it('says of no worker that it is back because it is ended', async () => {
    let returns = 0;
    const verifier = open(1, { workersBack: () => returns++ }, 1);
    const release = hold('answers');
    expect(await verifier.verify(checks(40))).toEqual(verified(40));
    await eventually(() => expect(verifier.stats.workers).toBe(0));
    expect(verifier.stats.repeated).toBe(verifier.stats.batches);
    // It ends the batch that was given up.
    await verifier.close();
    await release();
    expect(returns).toBe(0);
  });

  it('gives a batch up after exactly this time, and ignores that its worker then dies', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    let now = 1000;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const deaths: string[] = [];
    const observer = { workerDied: ({ message }: Error) => deaths.push(message) };
    const release = hold('answers');
    const verifiers = [open(1, observer, 1000), open(1, {}, 1000)] as const;
    const jobs = verifiers.map(async (verifier) => verifier.verify(checks(20)));
    await nextTurn();
    // One batch is out, the other place is free. Nothing that a worker says is read before the next turn.
    expect(verifiers.map(({ stats }) => stats.batches)).toEqual([1, 1]);
    const pass = (ms: number) => {
      now += ms;
      vi.advanceTimersByTime(ms);
    };
    for (let looks = 0; looks < 5; looks++) pass(200);
    expect([deaths, verifiers[0].stats.repeated]).toEqual([[], 0]);
    pass(200);
    expect(deaths).toEqual([
      'a batch of signatures did not come back within 1000 ms; until it does, the main thread verifies',
    ]);
    expect(await Promise.all(jobs)).toEqual([verified(20), verified(20)]);
    for (const { stats } of verifiers)
      expect(stats).toMatchObject({ pending: 0, inThread: 20, pooled: 0, repeated: 1, workers: 0 });

    // Without workers, this thread verifies, and rests when that is done.
    expect(await verifiers[0].verify(checks(40))).toEqual(verified(40));
    await nextTurn();
    const immediates = vi.spyOn(globalThis, 'setImmediate');
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(immediates).not.toHaveBeenCalled();
    immediates.mockRestore();

    // It has others in place of those that die.
    await Promise.all(threads.map(async (thread) => thread.terminate()));
    await release();
    for (const verifier of verifiers) {
      await eventually(() => expect(verifier.stats.workers).toBe(1));
      expect(verifier.stats).toMatchObject({ pending: 0, pooled: 0, repeated: 1 });
    }
    expect(deaths.length).toBe(1);
  });

  it('gives no batch up because this process stood still', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const deaths: string[] = [];
    const release = hold('answers');
    const verifier = open(1, { workerDied: ({ message }) => deaths.push(message) });
    const job = verifier.verify(checks(40));
    await nextTurn();
    expect(verifier.stats.batches).toBeGreaterThan(0);
    // After SIGSTOP, or where a virtual machine is moved, the clock has gone on, and one look is due before any answer is read.
    const now = performance.now() + 3_600_000;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    vi.advanceTimersToNextTimer();
    await release();
    expect(await job).toEqual(verified(40));
    expect([deaths, verifier.stats.workers]).toEqual([[], 1]);
  });

  it('has no room for what nobody waits for, however often that comes', async () => {
    const verifier = open(1);
    for (let turn = 0; turn < 5; turn++) {
      const unwanted = verifier.verify(checks(10), () => false);
      await expect(unwanted).rejects.toMatchObject({ name: 'WorkDropped' });
    }
    expect(verifier.stats).toMatchObject({ pending: 0, inThread: 0, pooled: 0, batches: 0 });
    expect(await verifier.verify(checks(40))).toEqual(verified(40));
    expect(verifier.stats.batches).toBeGreaterThan(0);
  });

  it.each([
    ['tells of', true],
    ['needs nobody who hears of', false],
  ])('%s a worker that dies while it has nothing to do', async (_, isObserved) => {
    const deaths: Error[] = [];
    let out = 0;
    const observer = {
      batchSent: () => out++,
      batchReturned: () => out--,
      ...(isObserved && { workerDied: (error: Error) => deaths.push(error) }),
    };
    const verifier = patientPool(observer);
    await startedWorker(verifier);
    await expect.poll(() => out).toBe(0);
    // What Node reports of a thread whose memory is exhausted.
    threads[0]?.emit('error', new Error('out of memory'));
    await expect.poll(() => threads.length).toBe(2);
    expect(deaths.map(({ message }) => message)).toEqual(isObserved ? ['out of memory'] : []);
    const { pooled } = verifier.stats;
    while (verifier.stats.pooled === pooled) expect(await verifier.verify(checks(40))).toEqual(verified(40));
  });

  it('finishes on its workers what was submitted, and ends them, when it is closed', async () => {
    const deaths: Error[] = [];
    const verifier = patientPool({ workerDied: (error) => deaths.push(error) }, 2);
    const result = verifier.verify(checks(100));
    // Threads are announced in the turn after that in which they were started.
    await nextTurn();
    const exits = threads.map(async (thread) => once(thread, 'exit'));
    await verifier.close();
    expect(await result).toEqual(verified(100));
    expect([deaths, verifier.stats.repeated, exits.length]).toEqual([[], 0, 2]);
    await Promise.all(exits);
  });

  it('drops what nobody waits for any more, and gives its place back', async () => {
    const verifier = open(1);
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
  });

  it.runIf(availableParallelism() > 1)(
    'hands a busy worker no small batch, but verifies it here',
    async () => {
      const verifier = open(1);
      const jobs = [checks(32), checks(7)].map(async (job) => verifier.verify(job));
      // Behind the end of this turn, at which batches are handed over.
      await new Promise((resolve) => setImmediate(resolve));
      expect(verifier.stats).toMatchObject({ batches: 1, inThread: 4, pending: 35 });
      expect(await Promise.all(jobs)).toEqual([verified(32), verified(7)]);
      const larger = open(1);
      const more = [checks(32), checks(8)].map(async (job) => larger.verify(job));
      await nextTurn();
      expect(larger.stats).toMatchObject({ batches: 2, inThread: 0, pending: 40 });
      expect(await Promise.all(more)).toEqual([verified(32), verified(8)]);
      await larger.close();
    },
  );

  it.runIf(cores > 1)('takes back what a worker has not begun, once nothing new comes', async () => {
    const release = hold('batches');
    const verifier = open(1);
    const job = verifier.verify(checks(32));
    await nextTurn();
    expect(verifier.stats).toMatchObject({ batches: 1, inThread: 0 });
    await nextTurn();
    expect(verifier.stats).toMatchObject({ batches: 1, inThread: 1 });
    await release();
    expect(await job).toEqual(verified(32));
  });

  it.runIf(cores > 1)(
    'waits for the answer to a batch that it took back, before it ends its workers',
    async () => {
      const release = hold('batches');
      const deaths: Error[] = [];
      const verifier = patientPool({ workerDied: (error) => deaths.push(error) });
      expect(await verifier.verify(checks(32))).toEqual(verified(32));
      expect(verifier.stats).toMatchObject({ batches: 1, inThread: 32, pending: 0 });
      const closed = verifier.close();
      await release();
      await closed;
      expect([deaths, verifier.stats.repeated]).toEqual([[], 0]);
    },
  );

  it('verifies nothing at once while other work waits, or is out', async () => {
    const release = hold('batches');
    const verifier = open(cores);
    const jobs = [verifier.verify(checks(32 * cores)), verifier.verify(checks(1))];
    expect(jobs[1]).toBeInstanceOf(Promise);
    expect(verifier.verify([])).toEqual([]);
    await nextTurn();
    const last = verifier.verify(checks(1));
    expect(last).toBeInstanceOf(Promise);
    await nextTurn();
    // As many workers as cores: this thread has other things to do.
    expect(verifier.stats.inThread).toBe(0);
    await release();
    expect(await Promise.all([...jobs, last])).toEqual([verified(32 * cores), [true], [true]]);
  });

  it.runIf(cores > 1)('does not take a moment in which the process stood still for a queue', async () => {
    const verifier = open(1);
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
  });

  it('drops the rest of what was begun, too', async () => {
    const verifier = open(1);
    // More than the slots hold, so that some of it waits while the first batches are out.
    let asked = 0;
    const begun = verifier.verify(checks(400), () => ++asked < 3);
    await expect(begun).rejects.toThrow(WorkDropped);
    await expect.poll(() => verifier.stats.pending).toBe(0);
    expect(await verifier.verify(checks(10))).toEqual(verified(10));
  });

  it.each([
    ['tells of it', true],
    ['needs nobody who hears of it', false],
  ])('verifies again what a worker that dies had not finished, and %s', async (_, isObserved) => {
    const deaths: string[] = [];
    const workerDied = ({ message }: Error) => deaths.push(message);
    const verifier = patientPool(isObserved ? { workerDied } : {});
    await startedWorker(verifier);
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
    expect(deaths).toHaveLength(isObserved ? verifier.stats.repeated : 0);
    // Its successor verifies, too.
    const { pooled: pooledBefore } = verifier.stats;
    await expect.poll(() => verifier.stats.workers, { timeout: 20_000 }).toBe(1);
    while (verifier.stats.pooled === pooledBefore)
      expect(await verifier.verify(checks(40))).toEqual(verified(40));
    expect(threads).toHaveLength(2);
  });
});

describe('a turn of a pool', () => {
  it('verifies the first few at once, and gives idle workers equal shares of the others', async () => {
    const sent: number[] = [];
    const verifier = open(3, { batchSent: (count) => sent.push(count) });
    expect(verifier.verify([])).toEqual([]);
    expect(verifier.verify(checks(3))).toEqual(verified(3));
    // One more is few, two more are not.
    const jobs = [checks(2), checks(28)].map(async (job) => verifier.verify(job));
    expect(verifier.stats).toMatchObject({ inThread: 3, pending: 30 });
    await nextTurn();
    expect(sent).toEqual([10, 10, 10]);
    expect(await Promise.all(jobs)).toEqual([verified(2), verified(28)]);
  });

  it('gives all to the next place that is free where no worker is idle', async () => {
    const sent: number[] = [];
    const release = hold('batches');
    const workers = cores + 1;
    const verifier = open(workers, { batchSent: (count) => sent.push(count) });
    const first = verifier.verify(checks(3 * workers));
    await nextTurn();
    const second = verifier.verify(checks(20));
    await nextTurn();
    expect(sent).toEqual([...Array<number>(workers).fill(3), 20]);
    await release();
    expect(await Promise.all([first, second])).toEqual([verified(3 * workers), verified(20)]);
  });

  it('tells what it sent, what came back, and how long that took', async () => {
    const events = { sent: [] as number[], waited: [] as number[], returned: [] as number[] };
    const verifier = patientPool({
      batchSent: (count) => events.sent.push(count),
      waited: (ms) => events.waited.push(ms),
      batchReturned: (ms) => events.returned.push(ms),
    });
    const startedAt = performance.now();
    const jobs = [checks(20), checks(30), checks(40)].map(async (job) => verifier.verify(job));
    expect(await Promise.all(jobs)).toEqual([verified(20), verified(30), verified(40)]);
    // This thread may have finished what a worker has not answered for yet.
    await expect.poll(() => events.returned.length, { timeout: 20_000 }).toBe(events.sent.length);
    // Nothing is out any more.
    expect(verifier.verify(checks(4))).toEqual(verified(4));
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
