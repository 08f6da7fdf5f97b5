import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import type { SignatureCheck } from '../verify/blocks/c-signatures.js';
import { verifyAtOnce, verifyCheck } from './in-thread.js';
import type { SignatureFigures, SignatureJob, SignatureVerifier } from './signature-verifier.js';
import { BATCH_CHECKS, sizeOfCheck, SLOT_BYTES, writeChecks, type Batch } from './slot.js';

// While a worker verifies one batch the next already lies in its queue, so that it never waits for this thread.
const BATCHES_PER_WORKER = 2;

// Signatures that this thread verifies at once in a turn of the event loop while every worker is idle.
const AT_ONCE = 4;

// Signatures that this thread verifies before it looks at the event loop again: the most of a chain that comes alone,
// and of what has gathered while no worker can take another batch.
const OWN_SHARE = 8;
const HELPING = 4;

// A batch takes milliseconds. One that is out for this long is with a worker that is stuck, or with none at all.
const LOST_AFTER_MS = 5_000;

/** A batch that was handed to a worker and has not come back. */
interface RunningBatch {
  readonly entries: readonly Entry[];
  readonly slot: number;
  readonly startedAt: number;
}

/** The part of a job that has a place in a batch. */
interface Entry {
  readonly job: PooledJob;
  readonly check: number;
}

class PooledJob {
  readonly job: SignatureJob;
  readonly results: Uint8Array;
  left: number;

  constructor(job: SignatureJob) {
    this.job = job;
    this.left = job.checks.length;
    this.results = new Uint8Array(this.left);
  }

  record(check: number, isVerified: boolean): void {
    this.results[check] = isVerified ? 1 : 0;
    if (--this.left === 0) this.job.settle((at) => this.results[at] === 1);
  }
}

/**
 * Verifies signatures on a Piscina pool of libsodium workers.
 *
 * One task for each signature would cost as much as the signature, so what is submitted during a turn of the event
 * loop is handed over together at its end, and while all workers are busy it gathers for the next batch. While they
 * are idle, the first few signatures of a turn are verified here at once: waking a worker for them would take longer.
 * Where there is a core for it, this thread also takes a share of a deep chain that comes alone, and of what no worker
 * can take any more.
 */
export class PoolVerifier implements SignatureVerifier {
  readonly #pool: Piscina;
  readonly #slots: readonly Buffer[];
  readonly #freeSlots: number[];
  readonly #workers: number;
  readonly #helps: boolean;
  readonly #onWorkerDeath: (error: Error) => void;
  #queue: Entry[] = [];
  // By slot. A Set would do, but of one that is added to and deleted from for ever, V8 keeps old tables that point to newer
  // ones, and with them whatever was in it: requests that were answered long ago lived until the next full collection.
  readonly #running: (RunningBatch | null)[];
  #out = 0;
  readonly #watch: NodeJS.Timeout;
  // Owner: #giveUp. Once set, this thread does all the work.
  #isBroken = false;
  #isFlushDue = false;
  #pending = 0;
  #atOnce = 0;
  #figures = { inThread: 0, pooled: 0, batches: 0, repeated: 0 };

  /**
   * @param workers threads, at least 1
   * @param onWorkerDeath told when a worker ended on its own; its batches are verified again on this thread
   */
  constructor(workers: number, onWorkerDeath: (error: Error) => void = () => undefined) {
    this.#workers = workers;
    this.#helps = workers < availableParallelism();
    this.#onWorkerDeath = onWorkerDeath;
    const memory = Array.from(
      { length: workers * BATCHES_PER_WORKER },
      () => new SharedArrayBuffer(SLOT_BYTES),
    );
    this.#slots = memory.map((slot) => Buffer.from(slot));
    this.#freeSlots = memory.map((_, index) => index);
    this.#running = memory.map(() => null);
    this.#pool = new Piscina({
      filename: createRequire(import.meta.url).resolve('#signature-worker'),
      minThreads: workers,
      maxThreads: workers,
      concurrentTasksPerWorker: BATCHES_PER_WORKER,
      idleTimeout: Infinity,
      recordTiming: false,
      workerData: memory,
    });
    // A worker that dies with no task reports it here; without a listener that would end the process.
    this.#pool.on('error', onWorkerDeath);
    this.#watch = setInterval(() => this.#lookForLostBatches(), LOST_AFTER_MS / 5).unref();
  }

  get figures(): SignatureFigures {
    return { pending: this.#pending, ...this.#figures };
  }

  submit(job: SignatureJob): void {
    const count = job.checks.length;
    this.#flushLater();
    if (this.#out === 0 && this.#queue.length === 0 && this.#atOnce + count <= AT_ONCE) {
      this.#atOnce += count;
      this.#figures.inThread += count;
      verifyAtOnce(job);
      return;
    }
    const pooled = new PooledJob(job);
    this.#pending += count;
    for (let check = 0; check < count; check++) this.#queue.push({ job: pooled, check });
  }

  #flushLater(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    setImmediate(() => {
      this.#isFlushDue = false;
      this.#atOnce = 0;
      this.#flush();
    });
  }

  async close(): Promise<void> {
    while (this.#pending > 0) await new Promise((resolve) => setImmediate(resolve));
    clearInterval(this.#watch);
    await this.#pool.destroy();
  }

  #flush(): void {
    const waiting = this.#queue.length;
    if (waiting === 0) return;
    if ((waiting === 1 && this.#out === 0) || this.#isBroken) {
      this.#verifyHere(this.#take(waiting));
      return;
    }
    // Where all are idle, a deep chain is shared out evenly, and this thread takes part.
    const isAlone = this.#out === 0;
    const own = isAlone && this.#helps ? Math.min(OWN_SHARE, Math.floor(waiting / (this.#workers + 1))) : 0;
    const free = Math.max(1, this.#workers - this.#out);
    const share = Math.min(BATCH_CHECKS, Math.ceil((waiting - own) / free));
    while (this.#queue.length > own && this.#freeSlots.length > 0) {
      this.#dispatch(Math.min(share, this.#queue.length - own));
    }
    if (this.#queue.length === 0 || !this.#helps) return;
    this.#verifyHere(this.#take(Math.min(own || HELPING, this.#queue.length)));
    if (this.#queue.length > 0) this.#flushLater();
  }

  #dispatch(most: number): void {
    let bytes = 0;
    let count = 0;
    for (const { job, check } of this.#queue) {
      const size = sizeOfCheck(checkOf(job, check));
      if (count === most || (count > 0 && bytes + size > SLOT_BYTES)) break;
      bytes += size;
      count++;
    }
    const entries = this.#take(count);
    const checks = entries.map(({ job, check }) => checkOf(job, check));
    const slot = this.#freeSlots.pop() as number;
    const memory = bytes > SLOT_BYTES ? new SharedArrayBuffer(bytes) : null;
    const buffer = memory === null ? (this.#slots[slot] as Buffer) : Buffer.from(memory);
    const batch: Batch = { memory: memory ?? slot, checks: count, bytes: writeChecks(buffer, checks) };
    const running: RunningBatch = { entries, slot, startedAt: performance.now() };
    this.#running[slot] = running;
    this.#out++;
    this.#figures.batches++;
    this.#figures.pooled += count;
    this.#pool.run(batch).then(
      () => this.#finish(running, buffer),
      (error: unknown) => this.#repeat(running, error as Error),
    );
  }

  #finish(batch: RunningBatch, results: Uint8Array): void {
    const { entries, slot } = batch;
    if (!this.#end(batch)) return;
    const verified = results.slice(0, entries.length);
    this.#freeSlots.push(slot);
    this.#pending -= entries.length;
    for (const [at, { job, check }] of entries.entries()) job.record(check, verified[at] === 1);
    this.#flush();
  }

  /** @returns whether the batch was still waited for */
  #end(batch: RunningBatch): boolean {
    if (this.#running[batch.slot] !== batch) return false;
    this.#running[batch.slot] = null;
    this.#out--;
    return true;
  }

  #repeat(batch: RunningBatch, error: Error): void {
    if (!this.#end(batch)) return;
    this.#freeSlots.push(batch.slot);
    this.#onWorkerDeath(error);
    this.#verifyAgain(batch);
    this.#flush();
  }

  #lookForLostBatches(): void {
    const latest = performance.now() - LOST_AFTER_MS;
    if (this.#running.some((batch) => batch !== null && batch.startedAt < latest)) this.#giveUp();
  }

  /** Piscina starts no worker anew after one that failed to start, and tells nobody whose task it then keeps. */
  #giveUp(): void {
    // For good: a worker that is only slow may still write into its slot, which must never be used again.
    this.#isBroken = true;
    this.#onWorkerDeath(
      new Error(
        `a batch of signatures did not come back within ${LOST_AFTER_MS} ms; from now on the main thread verifies`,
      ),
    );
    const lost = this.#running.filter((batch) => batch !== null);
    this.#running.fill(null);
    this.#out = 0;
    for (const batch of lost) this.#verifyAgain(batch);
    this.#flush();
  }

  #verifyAgain({ entries }: RunningBatch): void {
    this.#figures.repeated++;
    this.#verifyHere(entries);
  }

  #verifyHere(entries: readonly Entry[]): void {
    this.#pending -= entries.length;
    this.#figures.inThread += entries.length;
    for (const { job, check } of entries) job.record(check, verifyCheck(checkOf(job, check)));
  }

  #take(count: number): Entry[] {
    if (count === this.#queue.length) {
      const all = this.#queue;
      this.#queue = [];
      return all;
    }
    return this.#queue.splice(0, count);
  }
}

function checkOf({ job }: PooledJob, check: number): SignatureCheck {
  return job.checks[check] as SignatureCheck;
}
