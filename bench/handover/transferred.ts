import { Piscina } from 'piscina';
import { BATCH_CHECKS, bytesFor, CheckState, SlotWriter } from '../../src/signatures/slot.js';
import type { SignatureStats, SignatureVerifier } from '../../src/signatures/signature-verifier.js';
import type { SignatureCheck } from '../../src/protocol/jwt.js';
import { program } from '../run/paths.js';
import type { Design } from './job.js';

/** A batch as it is sent: its memory moves to the worker, and the answer moves back. */
export interface TransferredBatch {
  readonly memory: ArrayBuffer;
  readonly checks: number;
}

/** Transfers each batch in memory of its own: no batch waits for a slot, but each one allocates memory. */
class TransferringVerifier implements SignatureVerifier {
  readonly #pool: Piscina<TransferredBatch, Uint8Array>;
  readonly #workers: number;
  readonly waitMs = 0;
  #queue: {
    check: SignatureCheck;
    resolve: (isVerified: boolean) => void;
    reject: (error: Error) => void;
  }[] = [];
  #running = 0;
  #isFlushDue = false;

  constructor(workers: number) {
    this.#workers = workers;
    this.#pool = new Piscina({
      filename: program('handover/transferred-worker.js'),
      minThreads: workers,
      maxThreads: workers,
      concurrentTasksPerWorker: 2,
      idleTimeout: Infinity,
      recordTiming: false,
    });
  }

  get stats(): SignatureStats {
    return { pending: this.#queue.length, inThread: 0, pooled: 0, batches: 0, repeated: 0, workers: 1 };
  }

  verify(checks: readonly SignatureCheck[]): Promise<boolean[]> {
    const results = checks.map(
      (check) => new Promise<boolean>((resolve, reject) => this.#queue.push({ check, resolve, reject })),
    );
    if (!this.#isFlushDue) {
      this.#isFlushDue = true;
      setImmediate(() => {
        this.#isFlushDue = false;
        this.#flush();
      });
    }
    return Promise.all(results);
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#running < 2 * this.#workers) {
      const entries = this.#queue.splice(0, BATCH_CHECKS);
      const checks = entries.map(({ check }) => check);
      const memory = new ArrayBuffer(bytesFor(checks));
      const writer = new SlotWriter(Buffer.from(memory));
      for (const check of checks) writer.write(check);
      this.#running++;
      this.#pool.run({ memory, checks: checks.length }, { transferList: [memory] }).then(
        (results) => {
          this.#running--;
          for (const [at, { resolve }] of entries.entries()) resolve(results[at] === CheckState.verified);
          this.#flush();
        },
        (error: unknown) => {
          for (const { reject } of entries) reject(error as Error);
        },
      );
    }
  }
}

/** First design. */
export const transferred: Design = {
  name: 'transferred',
  about: 'each batch in an ArrayBuffer of its own that is transferred to a worker',
  open: (workers) => new TransferringVerifier(workers),
};
