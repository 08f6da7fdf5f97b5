import { InThreadVerifier } from '../../src/signatures/in-thread.js';
import { PoolVerifier } from '../../src/signatures/pool.js';
import type { SignatureStats, SignatureVerifier } from '../../src/signatures/signature-verifier.js';
import type { SignatureCheck } from '../../src/protocol/jwt.js';
import type { Design } from './job.js';
import { transferred } from './transferred.js';

/** Verifies on this thread while few signatures wait, and hands the others to the pool. */
class ThresholdVerifier implements SignatureVerifier {
  readonly #here = new InThreadVerifier();
  readonly #pool: PoolVerifier;
  readonly #threshold: number;
  #queue: {
    checks: readonly SignatureCheck[];
    resolve: (results: boolean[] | Promise<boolean[]>) => void;
  }[] = [];

  constructor(workers: number, threshold: number) {
    this.#pool = new PoolVerifier(workers);
    this.#threshold = threshold;
  }

  get stats(): SignatureStats {
    return this.#pool.stats;
  }

  get waitMs(): number {
    return this.#pool.waitMs;
  }

  verify(checks: readonly SignatureCheck[]): Promise<boolean[]> {
    return new Promise((resolve) => {
      this.#queue.push({ checks, resolve });
      if (this.#queue.length > 1) return;
      setImmediate(() => {
        const jobs = this.#queue;
        this.#queue = [];
        // Hand over first, so that the workers can begin before this thread verifies its own signatures.
        for (const handedOver of jobs.slice(this.#threshold))
          handedOver.resolve(this.#pool.verify(handedOver.checks));
        for (const own of jobs.slice(0, this.#threshold)) own.resolve(this.#here.verify(own.checks));
      });
    });
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}

const inThreadBelow = (threshold: number): Design => ({
  name: `in-thread-below-${threshold}`,
  about: `up to ${threshold} signatures of a turn on the main thread, the others in shared slots`,
  open: (workers) => new ThresholdVerifier(workers, threshold),
});

/** The designs that are compared; docs/performance.md says which was chosen, and why. */
export const DESIGNS: readonly Design[] = [
  transferred,
  {
    name: 'shared-slots',
    about: 'batches in preallocated shared memory, copied out by the worker (the product)',
    open: (workers) => new PoolVerifier(workers),
  },
  inThreadBelow(2),
  inThreadBelow(8),
  { name: 'in-thread', about: 'no threads at all', open: () => new InThreadVerifier() },
];
