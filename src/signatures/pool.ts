import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import type { SignatureCheck } from '../protocol/jwt.js';
import { Batches, Job, JobQueue } from './batches.js';
import { verifyCheck } from './in-thread.js';
import type { SignatureStats, SignatureObserver, SignatureVerifier } from './signature-verifier.js';
import { BATCH_CHECKS } from './slot.js';

// Signatures verified on this thread at once, in a turn of the event loop, while every worker is idle.
const AT_ONCE = 4;

// Queued signatures this thread verifies per event-loop turn while all workers are full.
const HELPING = 4;

// While every worker has a batch already, fewer checks than this are not handed over: this thread verifies them.
const MIN_NEXT = 8;

// A check that took longer than this many averages was interrupted by the operating system, so it counts as this many.
const MAX_TIMES_AVERAGE = 4;

// A batch takes milliseconds. If it takes this long, its worker is stuck, or it has no worker.
const LOST_AFTER_MS = 5_000;

/**
 * Verifies signatures on a Piscina pool of libsodium workers.
 *
 * One task for each signature would cost as much as the signature. So the signatures that are submitted during one turn
 * of the event loop are handed over together at its end. While all workers are busy, signatures gather for the next
 * batch. While all workers are idle, this thread verifies the first few of a turn, because waking a worker takes longer.
 *
 * If a core is free, this thread helps: it verifies what no worker can take yet and, while no request arrives,
 * what was handed over and not begun. If the OS deschedules a worker, only the check it is working on is delayed.
 */
export class PoolVerifier implements SignatureVerifier {
  readonly #workers: number;
  readonly #helps: boolean;
  readonly #batches: Batches;
  readonly #observer: SignatureObserver;
  readonly #queue = new JobQueue();
  #isFlushDue = false;
  // Whether something has been submitted since the last flush.
  #hasNew = false;
  // Checks that wait for a worker, or were handed to one.
  #out = 0;
  #atOnce = 0;
  // Time that a check took on this thread lately; a moving average.
  #msPerCheck = 0.1;
  #inThread = 0;
  #pooled = 0;

  /**
   * @param workers threads, at least 1
   * @param observer receives events, for metrics and the log
   * @param lostAfterMs milliseconds after which a batch counts as lost
   */
  constructor(workers: number, observer: SignatureObserver = {}, lostAfterMs = LOST_AFTER_MS) {
    this.#workers = workers;
    this.#observer = observer;
    this.#helps = workers < availableParallelism();
    this.#batches = new Batches(workers, lostAfterMs, {
      onVerified: (job, check, isVerified) => {
        this.#out--;
        this.#pooled++;
        job.record(check, isVerified);
      },
      onUnverified: (job, check) => this.#verifyHere(job, check),
      onReturned: () => this.#flush(),
      observer,
    });
  }

  get stats(): SignatureStats {
    return {
      pending: this.#queue.waiting + this.#out,
      inThread: this.#inThread,
      pooled: this.#pooled,
      batches: this.#batches.sent,
      repeated: this.#batches.repeated,
      workers: this.#batches.workers,
    };
  }

  get waitMs(): number {
    return ((this.#queue.waiting + this.#out) * this.#msPerCheck) / this.#workers;
  }

  verify(checks: readonly SignatureCheck[], isWanted = always): boolean[] | Promise<boolean[]> {
    const count = checks.length;
    if (count === 0) return [];
    this.#hasNew = true;
    this.#flushLater();
    const isIdle = this.#batches.out === 0 && this.#queue.waiting === 0;
    if (isIdle && this.#atOnce + count <= AT_ONCE) {
      this.#atOnce += count;
      this.#inThread += count;
      return checks.map(verifyCheck);
    }
    const job = new Job(checks, isWanted, performance.now());
    this.#queue.add(job);
    return job.done;
  }

  async close(): Promise<void> {
    // A batch of which this thread took back all is out, too: ended meanwhile, its worker would count as dead.
    while (this.stats.pending > 0 || this.#batches.out > 0)
      await new Promise((resolve) => setImmediate(resolve));
    await this.#batches.close();
  }

  #flushLater(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    setImmediate(() => {
      const isQuiet = !this.#hasNew;
      this.#isFlushDue = false;
      this.#hasNew = false;
      this.#atOnce = 0;
      this.#flush();
      if (this.#helps && this.#batches.out > 0) this.#help(isQuiet);
    });
  }

  #flush(): void {
    const { waiting } = this.#queue;
    if (waiting === 0) return;
    if (this.#batches.isBroken) {
      // At most one batch in a turn, so that the event loop can do its other work.
      this.#takeHere(BATCH_CHECKS);
      this.#flushLater();
      return;
    }
    if (waiting === 1 && this.#batches.out === 0) {
      this.#takeHere(1);
      return;
    }
    // If several workers are idle, they get equal shares.
    const idle = Math.max(1, this.#workers - this.#batches.out);
    const share = Math.min(BATCH_CHECKS, Math.ceil(waiting / idle));
    while (this.#queue.waiting > 0 && this.#batches.hasRoom) {
      if (this.#helps && this.#batches.out >= this.#workers && this.#queue.waiting < MIN_NEXT) break;
      this.#out += this.#batches.send(this.#queue, share);
    }
  }

  /** Verifies a few of the waiting checks, then returns to the event loop. */
  #help(isQuiet: boolean): void {
    if (this.#queue.waiting > 0) this.#takeHere(HELPING);
    else if (isQuiet) {
      const taken = this.#batches.takeBack();
      if (taken === null) return;
      this.#verifyHere(taken.job, taken.check);
    }
    this.#flushLater();
  }

  #takeHere(limit: number): void {
    const now = performance.now();
    for (const { job, from, to } of this.#queue.take(limit)) {
      this.#out += to - from;
      this.#observer.waited?.(now - job.submittedAt);
      for (let check = from; check < to; check++) this.#verifyHere(job, check);
    }
  }

  #verifyHere(job: Job, check: number): void {
    this.#out--;
    this.#inThread++;
    const startedAt = performance.now();
    const isVerified = verifyCheck(job.checks[check] as SignatureCheck);
    const took = Math.min(performance.now() - startedAt, MAX_TIMES_AVERAGE * this.#msPerCheck);
    this.#msPerCheck += (took - this.#msPerCheck) / 16;
    job.record(check, isVerified);
  }
}

const always = () => true;
