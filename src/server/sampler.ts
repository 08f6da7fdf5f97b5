const WINDOW_MS = 1000;

/** Lets so many events a second through, and tells how many were left out. */
export class Sampler {
  readonly #perSecond: number;
  readonly #onLeftOut: (count: number) => void;
  #timer: NodeJS.Timeout | null = null;
  #passed = 0;
  #leftOut = 0;

  /**
   * @param perSecond Infinity for all
   * @param onLeftOut told at the end of each second in which anything was left out
   */
  constructor(perSecond: number, onLeftOut: (count: number) => void) {
    this.#perSecond = perSecond;
    this.#onLeftOut = onLeftOut;
  }

  /** Whether this event is among those that pass. */
  admits(): boolean {
    if (this.#perSecond === Infinity) return true;
    this.#timer ??= setTimeout(() => this.#end(), WINDOW_MS).unref();
    if (this.#passed < this.#perSecond) {
      this.#passed++;
      return true;
    }
    this.#leftOut++;
    return false;
  }

  /** Ends the second early, so that nothing that was left out goes untold. */
  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#end();
  }

  #end(): void {
    const leftOut = this.#leftOut;
    this.#timer = null;
    this.#passed = this.#leftOut = 0;
    if (leftOut > 0) this.#onLeftOut(leftOut);
  }
}
