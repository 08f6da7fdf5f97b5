/**
 * The time that a call may take: one timer, and one function that is told. An `AbortSignal` for each call would cost as
 * much as its share of an exchange.
 */
export class Deadline {
  /** Called when the time is over. Owner: whoever the call waits for. */
  onOver: () => void = () => undefined;
  #isOver = false;
  readonly #timer: ReturnType<typeof setTimeout>;

  /** @param ms milliseconds from now */
  constructor(ms: number) {
    // A longer timer would ring at once.
    this.#timer = setTimeout(
      () => {
        this.#isOver = true;
        this.onOver();
      },
      Math.min(ms, MAX_TIMER_MS),
    );
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Stops the timer: the call is answered. */
  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** Why a call was given up. */
export const timeIsOver = (): DOMException => new DOMException('the time is over', 'TimeoutError');

const MAX_TIMER_MS = 2 ** 31 - 1;
