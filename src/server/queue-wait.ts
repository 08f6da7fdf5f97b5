import { performance } from 'node:perf_hooks';

/** Estimates how long a request that arrives now waits in queues: in its socket, and for a thread. */
export class QueueWait {
  readonly #signatures: { readonly waitMs: number };
  readonly #now: () => number;
  readonly #defer: (turn: () => void) => void;
  /** When the first request of this turn of the event loop was seen; `null` between turns. */
  #turnStartedAt: number | null = null;

  /**
   * @param signatures says how long a signature waits for a thread
   * @param now milliseconds
   * @param defer calls its argument after all requests that have already arrived
   */
  constructor(
    signatures: { readonly waitMs: number },
    now: () => number = () => performance.now(),
    defer: (turn: () => void) => void = setImmediate,
  ) {
    this.#signatures = signatures;
    this.#now = now;
    this.#defer = defer;
  }

  /**
   * The estimate in milliseconds. All requests of one turn of the event loop were in their sockets when it began. So a
   * request has waited for those before it in this turn. It may also have waited for the turn before, which is assumed
   * to be as long: therefore the time counts twice. If the request is admitted, it then waits for a thread.
   */
  get ms(): number {
    const now = this.#now();
    if (this.#turnStartedAt === null) {
      this.#turnStartedAt = now;
      this.#defer(this.#endTurn);
    }
    return 2 * (now - this.#turnStartedAt) + this.#signatures.waitMs;
  }

  readonly #endTurn = (): void => {
    this.#turnStartedAt = null;
  };
}
