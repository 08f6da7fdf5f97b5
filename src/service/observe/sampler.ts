const WINDOW_MS = 1000;

/** Admits a limited number of events per second, and reports how many it skipped. */
export class Sampler {
  readonly #perSecond: number;
  readonly #onLeftOut: (count: number) => void;
  #timer: NodeJS.Timeout | null = null;
  #passed = 0;
  #leftOut = 0;

  /**
   * @param perSecond maximum number of events per second; Infinity for all
   * @param onLeftOut called at the end of each second in which events were skipped, with their number
   */
  constructor(perSecond: number, onLeftOut: (count: number) => void) {
    this.#perSecond = perSecond;
    this.#onLeftOut = onLeftOut;
  }

  /** Counts an event. @returns whether it is within the limit */
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

  /** Ends the current second early, so that its skipped events are reported. */
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
