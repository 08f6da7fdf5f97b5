// All waiting bodies together may take longer than this. A request that waits longer is refused, and can be repeated.
const MAX_WAIT_MS = 1000;

interface Turn {
  readonly run: (isLate: boolean) => void;
  /** When it began to wait: `performance.now()`. */
  readonly at: number;
}

/** Runs long tasks one per turn of the event loop, so that other requests are served between them. */
export class Turns {
  /** Oldest first. */
  readonly #waiting: Turn[] = [];

  /** Queues a task, which must not throw. `isLate` tells it that it has waited for more than a second. */
  add(run: (isLate: boolean) => void): void {
    this.#waiting.push({ run, at: performance.now() });
    if (this.#waiting.length === 1) setImmediate(this.#next);
  }

  readonly #next = (): void => {
    const next = this.#waiting.shift();
    if (this.#waiting.length > 0) setImmediate(this.#next);
    next?.run(performance.now() - next.at > MAX_WAIT_MS);
  };
}
