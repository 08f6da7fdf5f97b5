import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { program } from '../run/paths.js';
import type { Workload } from '../workload/workload.js';

/** The two services of a pair, and their requests. */
export interface SlicesJob {
  readonly sides: readonly [Side, Side];
  readonly workload: Workload;
}

/** A service under load. */
export interface Side {
  readonly port: number;
  readonly pid: number;
}

/**
 * One slice: a closed loop on one side. It ends after a number of requests, so that slow and fast moments of the
 * machine have equal weight, and at the latest after a time.
 */
export interface SliceOrder {
  readonly side: 0 | 1;
  readonly connections: number;
  readonly requests: number;
  readonly milliseconds: number;
}

/** The result of a slice; times in µs. */
export interface Slice {
  readonly requests: number;
  readonly seconds: number;
  /** Processor time of the service per request. */
  readonly cpu: number;
  /** Time per request in which the service was ready to run but did not get a core. */
  readonly waited: number;
  readonly p50: number;
  readonly p99: number;
  /** Share of all cores that neither the service nor the generator had. */
  readonly others: number;
  readonly wrong: number;
  readonly firstWrong: string;
}

/** The load generator for slices: one process for both sides, since two processes would differ. */
export class Slicer {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(job: SlicesJob): Promise<Slicer> {
    const child = fork(program('compare/slices-process.js'), [JSON.stringify(job)], {
      // Otherwise V8's helper threads take cores from the service, in bursts.
      execArgv: ['--single-threaded'],
    });
    const slicer = new Slicer(child);
    await slicer.#reply();
    return slicer;
  }

  async slice(order: SliceOrder): Promise<Slice> {
    this.#child.send(order);
    return (await this.#reply()) as Slice;
  }

  stop(): void {
    this.#child.kill();
  }

  async #reply(): Promise<unknown> {
    const ended = new AbortController();
    const gone = once(this.#child, 'exit', { signal: ended.signal }).then(([code]: unknown[]) => {
      throw new Error(`the generator of slices ended with ${String(code)}`);
    });
    // It rejects when it is aborted below, if the answer comes first.
    gone.catch(() => undefined);
    try {
      const [message] = (await Promise.race([once(this.#child, 'message'), gone])) as unknown[];
      return message;
    } finally {
      ended.abort();
    }
  }
}
