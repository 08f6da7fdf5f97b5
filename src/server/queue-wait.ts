import { performance } from 'node:perf_hooks';

/** How long what comes in now has waited, and will wait: the time that a queue costs, in every mode and thread count. */
export class QueueWait {
  readonly #signatures: { readonly waitMs: number };
  readonly #now: () => number;
  readonly #defer: (turn: () => void) => void;
  /** When the first request of this turn of the event loop was seen; `null` between turns. */
  #turnStartedAt: number | null = null;

  /**
   * @param signatures which tell how far behind the threads are
   * @param now milliseconds
   * @param defer calls its argument behind all requests that are there already
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
   * Milliseconds. What one turn of the event loop finds at the sockets was there when it began, so the last of a long turn
   * has waited for all before it, and perhaps for the turn before, which was as long: so it counts twice. And what is let in
   * now gets its turn after what waits for a thread.
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
