import { Buffer } from 'node:buffer';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { Piscina } from 'piscina';
import { type SignatureObserver, WorkDropped } from './signature-verifier.js';
import { bytesFor, SLOT_BYTES, SlotWriter, type Batch } from './slot.js';
import type { SignatureCheck } from '../protocol/jwt.js';

// While a worker verifies one batch, the next one is already in its queue. So it never waits for this thread.
const BATCHES_PER_WORKER = 2;

// Looks at a batch that is out, in the time after which it is lost. Looks are counted, not time: where the process stood still,
// its answer may be there, unread.
const LOOKS = 5;

/** A batch that was handed to a worker, which has not answered yet. */
interface RunningBatch {
  /** In the order of the checks. */
  readonly shares: readonly Share[];
  readonly slot: number;
  readonly writer: SlotWriter;
  readonly startedAt: number;
  /** How often it was seen out. */
  looks: number;
}

interface BatchEvents {
  /** A worker has verified a check. */
  readonly onVerified: (job: Job, check: number, isVerified: boolean) => void;
  /** A check was handed over and nobody verified it. */
  readonly onUnverified: (job: Job, check: number) => void;
  /** A worker has answered for a batch, or the batch was given up: another one can be handed over. */
  readonly onReturned: () => void;
  readonly observer: SignatureObserver;
}

/** Carries batches of checks to Piscina's workers and back, in slots of shared memory. */
export class Batches {
  readonly #pool: Piscina;
  readonly #slots: readonly SlotWriter[];
  readonly #freeSlots: number[];
  readonly #events: BatchEvents;
  readonly #lostAfterMs: number;
  // By slot. An array, not a Set: V8 keeps the old tables of a long-lived Set alive, and with them answered requests.
  readonly #running: (RunningBatch | null)[];
  readonly #watch: NodeJS.Timeout;
  // Only this class changes these four.
  /** Batches that were handed over and not answered yet. */
  out = 0;
  /** Batches that were handed over since the start. */
  sent = 0;
  /** Batches whose worker died. */
  repeated = 0;
  /** Whether nothing can be handed over, since a batch was lost that has not come back. */
  isBroken = false;

  constructor(workers: number, lostAfterMs: number, events: BatchEvents) {
    this.#events = events;
    this.#lostAfterMs = lostAfterMs;
    const slots = workers * BATCHES_PER_WORKER;
    const memory = Array.from({ length: slots }, () => new SharedArrayBuffer(SLOT_BYTES));
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
    // A worker that dies while it has no task is reported here. Without a listener, that would end the process.
    this.#pool.on('error', (error: Error) => events.observer.workerDied?.(error));
    this.#watch = setInterval(() => this.#lookForLost(), lostAfterMs / LOOKS).unref();
  }

  /** Worker threads that take batches. */
  get workers(): number {
    return this.isBroken ? 0 : this.#pool.threads.length;
  }

  get hasRoom(): boolean {
    return this.#freeSlots.length > 0 && !this.isBroken;
  }

  /**
   * Hands over as many checks of a queue as fit. There must be a free slot, and a check in the queue.
   *
   * @returns how many
   */
  send(queue: JobQueue, limit: number): number {
    const slot = this.#freeSlots.pop() as number;
    let writer = this.#slots[slot] as SlotWriter;
    let memory: number | SharedArrayBuffer = slot;
    writer.clear();
    const shares = queue.take(limit, (check) => writer.write(check));
    if (shares.length === 0 && queue.waiting > 0) {
      // A check that is larger than a slot gets memory of its own.
      memory = new SharedArrayBuffer(bytesFor(queue.first));
      writer = new SlotWriter(Buffer.from(memory));
      shares.push(...queue.take(1, (check) => writer.write(check)));
    }
    if (shares.length === 0) {
      // All of them were dropped: nobody waits for them.
      this.#freeSlots.push(slot);
      return 0;
    }
    const batch: Batch = { memory, checks: writer.checks, bytes: writer.bytes };
    const running: RunningBatch = { shares, slot, writer, startedAt: performance.now(), looks: 0 };
    this.#running[slot] = running;
    this.out++;
    this.sent++;
    const { observer } = this.#events;
    for (const { job } of shares) observer.waited?.(running.startedAt - job.submittedAt);
    observer.batchSent?.(writer.checks);
    this.#pool.run(batch).then(
      () => this.#finish(running, null),
      (error: unknown) => this.#finish(running, error as Error),
    );
    return writer.checks;
  }

  /** Takes back a check that no worker has begun, so that this thread can verify it; `null` if there is none. */
  takeBack(): { job: Job; check: number } | null {
    for (const batch of this.#running) {
      const taken = batch?.writer.takeBack() ?? -1;
      if (batch === null || taken < 0) continue;
      let first = 0;
      for (const { job, from, to } of batch.shares) {
        const check = from + taken - first;
        if (check < to) return { job, check };
        first += to - from;
      }
    }
    return null;
  }

  async close(): Promise<void> {
    clearInterval(this.#watch);
    // Batches that come back because the pool is destroyed do not say that the workers are back.
    this.isBroken = false;
    await this.#pool.destroy();
  }

  #finish(batch: RunningBatch, error: Error | null): void {
    const { observer } = this.#events;
    this.#freeSlots.push(batch.slot);
    if (this.#running[batch.slot] !== batch) {
      // It was given up, and its worker was only slow, or has another in its place.
      if (this.isBroken) observer.workersBack?.();
      this.isBroken = false;
      return;
    }
    this.#running[batch.slot] = null;
    this.out--;
    if (error === null) observer.batchReturned?.(performance.now() - batch.startedAt);
    else observer.workerDied?.(error);
    this.#settle(batch, error === null);
    this.#events.onReturned();
  }

  /** Settles each check of a batch that this thread has not taken back. */
  #settle({ shares, writer }: RunningBatch, isAnswered: boolean): void {
    if (!isAnswered) this.repeated++;
    let at = 0;
    for (const { job, from, to } of shares) {
      for (let check = from; check < to; check++, at++) {
        const isVerified = writer.resultOf(at);
        if (isVerified === null) continue;
        if (isAnswered) this.#events.onVerified(job, check, isVerified);
        else this.#events.onUnverified(job, check);
      }
    }
  }

  /** If a worker fails to start, Piscina starts no other one, and its task is never answered. */
  #lookForLost(): void {
    let isLost = false;
    for (const batch of this.#running) if (batch !== null && ++batch.looks > LOOKS) isLost = true;
    if (!isLost) return;
    // No slot is used again before its batch comes back: a worker that is only slow may still write into it.
    this.isBroken = true;
    const lost = this.#running.filter((batch) => batch !== null);
    this.#running.fill(null);
    this.out = 0;
    const what = `a batch of signatures did not come back within ${this.#lostAfterMs} ms`;
    this.#events.observer.workerDied?.(new Error(`${what}; until it does, the main thread verifies`));
    for (const batch of lost) this.#settle(batch, false);
    this.#events.onReturned();
  }
}

/** Checks that belong together, verified a few at a time. */
export class Job {
  readonly checks: readonly SignatureCheck[];
  readonly isWanted: () => boolean;
  /** When it was submitted, in milliseconds of `performance.now()`. */
  readonly submittedAt: number;
  /** For each check, whether it verified; rejects with {@link WorkDropped}. */
  readonly done: Promise<boolean[]>;
  /** The first check that nobody has taken yet. Only {@link JobQueue} changes it. */
  next = 0;
  readonly #results: boolean[];
  #left: number;
  #resolve!: (results: boolean[]) => void;
  #reject!: (error: Error) => void;

  constructor(checks: readonly SignatureCheck[], isWanted: () => boolean, submittedAt: number) {
    this.checks = checks;
    this.isWanted = isWanted;
    this.submittedAt = submittedAt;
    this.#left = checks.length;
    this.#results = new Array<boolean>(this.#left).fill(false);
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Records the result of a check, once. */
  record(check: number, isVerified: boolean): void {
    this.#results[check] = isVerified;
    if (--this.#left === 0) this.#resolve(this.#results);
  }

  /** Gives the job up. Results of checks that are under way are ignored from then on. */
  drop(): void {
    this.#reject(new WorkDropped('nobody waits for these signatures any more'));
  }
}

/** Consecutive checks of one job. */
interface Share {
  readonly job: Job;
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** Jobs with checks that nobody has taken yet, in the order in which they came. */
export class JobQueue {
  #jobs: Job[] = [];
  /** Checks that nobody has taken yet. Only this queue changes it. */
  waiting = 0;

  /** The check that is next; there must be one. */
  get first(): SignatureCheck {
    const { checks, next } = this.#jobs[0] as Job;
    return checks[next] as SignatureCheck;
  }

  add(job: Job): void {
    this.#jobs.push(job);
    this.waiting += job.checks.length;
  }

  /**
   * Takes checks, in order. On the way it drops jobs that nobody waits for any more.
   *
   * @param accept called with each check. The first one that it refuses stays in the queue, and so do all after it
   */
  take(limit: number, accept: (check: SignatureCheck) => boolean = () => true): Share[] {
    const shares: Share[] = [];
    let left = limit;
    let done = 0;
    for (const job of this.#jobs) {
      if (left === 0) break;
      const { checks, next: from } = job;
      if (job.isWanted()) {
        const end = Math.min(checks.length, from + left);
        while (job.next < end && accept(checks[job.next] as SignatureCheck)) job.next++;
        left -= job.next - from;
        this.waiting -= job.next - from;
        if (job.next > from) shares.push({ job, from, to: job.next });
        if (job.next < checks.length) break;
      } else {
        this.waiting -= checks.length - from;
        job.drop();
      }
      done++;
    }
    if (done === this.#jobs.length) this.#jobs = [];
    else if (done > 0) this.#jobs.splice(0, done);
    return shares;
  }
}
