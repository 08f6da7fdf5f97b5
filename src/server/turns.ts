// So many bytes of bodies may wait that the last would wait for long: whoever comes late is told to come again.
const MAX_WAIT_MS = 1000;

interface Turn {
  readonly run: (isLate: boolean) => void;
  /** When it began to wait, in milliseconds of `performance.now()`. */
  readonly at: number;
}

/** Lets what takes long take turns: one in each turn of the event loop, so that everything else is served between them. */
export class Turns {
  /** Oldest first. */
  readonly #waiting: Turn[] = [];

  /** Lets `run` wait for its turn. It must not throw; `isLate` says that it has waited for longer than a second. */
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
