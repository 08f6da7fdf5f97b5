import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { program } from '../run/paths.js';
import type { Workload } from '../workload/workload.js';

/** The two services of a pair, and what they get. */
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
 * One slice: a closed loop on one side. It ends after so many requests, so that a slice weighs the same on a slow moment
 * of the machine, and at the latest after so long.
 */
export interface SliceOrder {
  readonly side: 0 | 1;
  readonly connections: number;
  readonly requests: number;
  readonly milliseconds: number;
}

/** What a slice measured; times in µs. */
export interface Slice {
  readonly requests: number;
  readonly seconds: number;
  /** Of the service, for each request. */
  readonly cpu: number;
  /** Ready to run and not on a core, of the service, for each request. */
  readonly waited: number;
  readonly p50: number;
  readonly p99: number;
  /** Share of all cores that neither the service nor the generator had. */
  readonly others: number;
  readonly wrong: number;
  readonly firstWrong: string;
}

/** The generator of slices: one process for both sides, since two would differ. */
export class Slicer {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(job: SlicesJob): Promise<Slicer> {
    const child = fork(program('compare/slices-process.js'), [JSON.stringify(job)], {
      // Else the engine's helper threads take the cores from the service, in bursts.
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
    // Aborted below where the answer comes first.
    gone.catch(() => undefined);
    try {
      const [message] = (await Promise.race([once(this.#child, 'message'), gone])) as unknown[];
      return message;
    } finally {
      ended.abort();
    }
  }
}
