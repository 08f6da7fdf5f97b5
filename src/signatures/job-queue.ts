import type { SignatureCheck } from '../protocol/jwt.js';
import { WorkDropped } from './signature-verifier.js';

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
export interface Share {
  readonly job: Job;
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** Jobs with checks that nobody has taken yet, in the order in which they came. */
export class JobQueue {
  #jobs: Job[] = [];
  #waiting = 0;

  /** Checks that nobody has taken yet. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The check that is next; there must be one. */
  get first(): SignatureCheck {
    const { checks, next } = this.#jobs[0] as Job;
    return checks[next] as SignatureCheck;
  }

  add(job: Job): void {
    this.#jobs.push(job);
    this.#waiting += job.checks.length;
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
        this.#waiting -= job.next - from;
        if (job.next > from) shares.push({ job, from, to: job.next });
        if (job.next < checks.length) break;
      } else {
        this.#waiting -= checks.length - from;
        job.drop();
      }
      done++;
    }
    if (done === this.#jobs.length) this.#jobs = [];
    else if (done > 0) this.#jobs.splice(0, done);
    return shares;
  }
}
