import { Buffer } from 'node:buffer';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { Piscina } from 'piscina';
import type { SignatureCheck } from '../verify/blocks/c-signatures.js';
import { verifyCheck } from './in-thread.js';
import { WorkDropped, type SignatureFigures, type SignatureVerifier } from './signature-verifier.js';
import { BATCH_CHECKS, bytesFor, SLOT_BYTES, SlotWriter, type Batch } from './slot.js';

// While a worker verifies one batch the next already lies in its queue, so that it never waits for this thread.
const BATCHES_PER_WORKER = 2;

// Signatures that this thread verifies at once in a turn of the event loop while every worker is idle.
const AT_ONCE = 4;

// Signatures of those that no worker can be handed yet that this thread verifies before it looks at the event loop again.
const HELPING = 4;

// A batch takes milliseconds. One that is out for this long is with a worker that is stuck, or with none at all.
const LOST_AFTER_MS = 5_000;

/** Checks of one job that follow one another. */
interface Share {
  readonly job: PooledJob;
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** A batch that was handed to a worker and has not come back. */
interface RunningBatch {
  /** In the order of the checks. */
  readonly shares: readonly Share[];
  readonly slot: number;
  readonly writer: SlotWriter;
  readonly startedAt: number;
}

/** Checks that belong together, verified a few at a time. */
class PooledJob {
  readonly checks: readonly SignatureCheck[];
  readonly isWanted: () => boolean;
  readonly done: Promise<boolean[]>;
  /** The first check that nobody has taken yet. */
  next = 0;
  readonly #results: boolean[];
  #left: number;
  #resolve!: (results: boolean[]) => void;
  #reject!: (error: Error) => void;

  constructor(checks: readonly SignatureCheck[], isWanted: () => boolean) {
    this.checks = checks;
    this.isWanted = isWanted;
    this.#left = checks.length;
    this.#results = new Array<boolean>(this.#left).fill(false);
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  record(check: number, isVerified: boolean): void {
    this.#results[check] = isVerified;
    if (--this.#left === 0) this.#resolve(this.#results);
  }

  /** Gives up what nobody has taken yet. @returns how many checks that is */
  drop(): number {
    const dropped = this.checks.length - this.next;
    this.next = this.checks.length;
    this.#reject(new WorkDropped('nobody waits for these signatures any more'));
    return dropped;
  }
}

/**
 * Verifies signatures on a Piscina pool of libsodium workers.
 *
 * One task for each signature would cost as much as the signature, so what is submitted during a turn of the event
 * loop is handed over together at its end, and while all workers are busy it gathers for the next batch. While they
 * are idle, the first few signatures of a turn are verified here at once: waking a worker for them would take longer.
 * Where there is a core for it, this thread helps: with what no worker can be handed yet, and, while no requests arrive,
 * with what was handed over and not begun. Of a batch whose worker the system has put aside, only what it had begun waits.
 */
export class PoolVerifier implements SignatureVerifier {
  readonly #pool: Piscina;
  readonly #slots: readonly SlotWriter[];
  readonly #freeSlots: number[];
  readonly #workers: number;
  readonly #helps: boolean;
  readonly #onWorkerDeath: (error: Error) => void;
  // Jobs with checks that nobody has taken yet, and how many these are.
  #queue: PooledJob[] = [];
  #waiting = 0;
  // By slot. A Set would do, but of one that is added to and deleted from for ever, V8 keeps old tables that point to newer
  // ones, and with them whatever was in it: requests that were answered long ago lived until the next full collection.
  readonly #running: (RunningBatch | null)[];
  #out = 0;
  readonly #watch: NodeJS.Timeout;
  // Owner: #giveUp. Once set, this thread does all the work.
  #isBroken = false;
  #isFlushDue = false;
  // Since the last flush, has something been submitted?
  #hasNew = false;
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
    this.#slots = memory.map((slot) => new SlotWriter(Buffer.from(slot)));
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

  verify(
    checks: readonly SignatureCheck[],
    isWanted: () => boolean = always,
  ): boolean[] | Promise<boolean[]> {
    const count = checks.length;
    if (count === 0) return [];
    this.#hasNew = true;
    this.#flushLater();
    if (this.#out === 0 && this.#waiting === 0 && this.#atOnce + count <= AT_ONCE) {
      this.#atOnce += count;
      this.#figures.inThread += count;
      return checks.map(verifyCheck);
    }
    this.#pending += count;
    this.#waiting += count;
    const job = new PooledJob(checks, isWanted);
    this.#queue.push(job);
    return job.done;
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
      if (this.#helps && this.#out > 0) this.#help(isQuiet);
    });
  }

  async close(): Promise<void> {
    while (this.#pending > 0) await new Promise((resolve) => setImmediate(resolve));
    clearInterval(this.#watch);
    await this.#pool.destroy();
  }

  #flush(): void {
    const waiting = this.#waiting;
    if (waiting === 0) return;
    if (this.#isBroken) {
      // A batch a turn, so that the event loop still sees to everything else.
      this.#verifyHere(Math.min(BATCH_CHECKS, waiting));
      if (this.#waiting > 0) this.#flushLater();
      return;
    }
    if (waiting === 1 && this.#out === 0) {
      this.#verifyHere(1);
      return;
    }
    // Where several are idle, they share what there is evenly.
    const share = Math.min(BATCH_CHECKS, Math.ceil(waiting / Math.max(1, this.#workers - this.#out)));
    while (this.#waiting > 0 && this.#freeSlots.length > 0) this.#dispatch(Math.min(share, this.#waiting));
  }

  /** Verifies a little of what would have to wait, then looks at the event loop again. */
  #help(isQuiet: boolean): void {
    if (this.#waiting > 0) this.#verifyHere(Math.min(HELPING, this.#waiting));
    else if (isQuiet && !this.#takeBack()) return;
    this.#flushLater();
  }

  /** Verifies a check that was handed over and not begun. @returns whether there was one */
  #takeBack(): boolean {
    for (const batch of this.#running) {
      const taken = batch?.writer.takeBack() ?? -1;
      if (batch === null || taken < 0) continue;
      let first = 0;
      for (const { job, from, to } of batch.shares) {
        const check = from + taken - first;
        if (check < to) {
          this.#verify(job, check);
          return true;
        }
        first += to - from;
      }
    }
    return false;
  }

  #dispatch(most: number): void {
    const slot = this.#freeSlots.pop() as number;
    let writer = this.#slots[slot] as SlotWriter;
    let memory: number | SharedArrayBuffer = slot;
    writer.clear();
    const shares = this.#take(most, (check) => writer.write(check));
    if (shares.length === 0 && this.#waiting === 0) {
      // All that waited was dropped.
      this.#freeSlots.push(slot);
      return;
    }
    if (shares.length === 0) {
      // A check that is larger than a slot.
      memory = new SharedArrayBuffer(bytesFor([this.#first()]));
      writer = new SlotWriter(Buffer.from(memory));
      shares.push(...this.#take(1, (check) => writer.write(check)));
    }
    const batch: Batch = { memory, checks: writer.checks, bytes: writer.bytes };
    const running: RunningBatch = { shares, slot, writer, startedAt: performance.now() };
    this.#running[slot] = running;
    this.#out++;
    this.#figures.batches++;
    this.#pool.run(batch).then(
      () => this.#finish(running),
      (error: unknown) => this.#repeat(running, error as Error),
    );
  }

  #finish(batch: RunningBatch): void {
    if (!this.#end(batch)) return;
    forEachLeft(batch, (job, check, at) => {
      this.#pending--;
      this.#figures.pooled++;
      job.record(check, batch.writer.isVerified(at));
    });
    this.#freeSlots.push(batch.slot);
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

  #verifyAgain(batch: RunningBatch): void {
    this.#figures.repeated++;
    forEachLeft(batch, (job, check) => this.#verify(job, check));
  }

  #verifyHere(count: number): void {
    for (const { job, from, to } of this.#take(count, () => true)) {
      for (let check = from; check < to; check++) this.#verify(job, check);
    }
  }

  #verify(job: PooledJob, check: number): void {
    this.#pending--;
    this.#figures.inThread++;
    job.record(check, verifyCheck(checkOf(job, check)));
  }

  /** The check that is next. */
  #first(): SignatureCheck {
    const job = this.#queue[0] as PooledJob;
    return checkOf(job, job.next);
  }

  /**
   * Takes checks out of the queue, in order.
   *
   * @param accept called with each; the first that it refuses stays, and all behind it
   */
  #take(most: number, accept: (check: SignatureCheck) => boolean): Share[] {
    const shares: Share[] = [];
    let left = most;
    let dropped = 0;
    let done = 0;
    for (const job of this.#queue) {
      if (left === 0) break;
      if (!job.isWanted()) {
        dropped += job.drop();
        done++;
        continue;
      }
      const from = job.next;
      const end = Math.min(job.checks.length, from + left);
      while (job.next < end && accept(checkOf(job, job.next))) job.next++;
      left -= job.next - from;
      if (job.next > from) shares.push({ job, from, to: job.next });
      if (job.next < job.checks.length) break;
      done++;
    }
    this.#waiting -= most - left + dropped;
    this.#pending -= dropped;
    if (done === this.#queue.length) this.#queue = [];
    else if (done > 0) this.#queue.splice(0, done);
    return shares;
  }
}

/**
 * Calls with each check of a batch that this thread has not taken back.
 *
 * @param use with `at`, its place in the batch
 */
function forEachLeft(
  { shares, writer }: RunningBatch,
  use: (job: PooledJob, check: number, at: number) => void,
): void {
  let at = 0;
  for (const { job, from, to } of shares) {
    for (let check = from; check < to; check++, at++) {
      if (!writer.isTakenBack(at)) use(job, check, at);
    }
  }
}

function checkOf({ checks }: PooledJob, check: number): SignatureCheck {
  return checks[check] as SignatureCheck;
}

const always = () => true;
