const WINDOW_MS = 1000;
/** For lines that a caller can cause as often as it likes. */
const PER_SECOND = 10;

/** Admits a limited number of log lines per second, and reports how many it left out. */
export class Sampler {
  readonly #perSecond: number;
  readonly #onLeftOut: (count: number) => void;
  #timer: NodeJS.Timeout | null = null;
  #passed = 0;
  #leftOut = 0;

  /**
   * @param onLeftOut called at the end of each second in which lines were left out, with their number
   * @param perSecond maximum number of lines per second; Infinity for all
   */
  constructor(onLeftOut: (count: number) => void, perSecond = PER_SECOND) {
    this.#perSecond = perSecond;
    this.#onLeftOut = onLeftOut;
  }

  /** Counts a line. @returns whether it is within the limit */
  admits(): boolean {
    if (this.#perSecond === Infinity) return true;
    this.#timer ??= setTimeout(() => this.close(), WINDOW_MS).unref();
    if (this.#passed < this.#perSecond) {
      this.#passed++;
      return true;
    }
    this.#leftOut++;
    return false;
  }

  /** Ends the current second, also early, so that what it left out is reported. */
  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    const leftOut = this.#leftOut;
    this.#timer = null;
    this.#passed = this.#leftOut = 0;
    if (leftOut > 0) this.#onLeftOut(leftOut);
  }
}
