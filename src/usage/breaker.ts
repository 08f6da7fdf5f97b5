import { setTimeout as pause } from 'node:timers/promises';

/** Number of failures in a row after which the breaker opens. */
const MAX_FAILURES = 3;
const PROBE_MS = 250;

/** Options of a {@link Breaker}. */
export interface BreakerOptions {
  /** Tests whether the other side works again: resolves if it does, rejects if not. One test runs at a time. */
  readonly probe: () => Promise<void>;
  /** Called when it opens, with the reason. */
  readonly onOpen: (reason: Error) => void;
  /** Called when it closes, with the milliseconds for which it was open. */
  readonly onClose: (openMs: number) => void;
  /** Ends the probing. */
  readonly ended: AbortSignal;
}

/**
 * Stops asking a server that does not answer. After a few failures in a row the breaker is open: every task fails at
 * once, and a probe in the background finds out when to close it again. So callers do not each wait for a time-out.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  /** Why it is open; `null` if it is closed. */
  #reason: Error | null = null;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /** Why nothing is tried at the moment: the failure that opened it, or that of the last probe. `null` if it is closed. */
  get reason(): Error | null {
    return this.#reason;
  }

  /** Runs a task. If the breaker is open, throws the reason for that instead. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#reason !== null) throw this.#reason;
    try {
      const result = await task();
      this.#failures = 0;
      return result;
    } catch (error) {
      if (++this.#failures >= MAX_FAILURES) this.open(error as Error);
      throw error;
    }
  }

  /** Opens it at once, after a failure that is certain to last, such as a lost connection. */
  open(reason: Error): void {
    if (this.#reason !== null || this.#options.ended.aborted) return;
    this.#reason = reason;
    this.#options.onOpen(reason);
    void this.#probeUntilWell(performance.now());
  }

  async #probeUntilWell(openedAt: number): Promise<void> {
    const { ended: signal } = this.#options;
    do {
      // Jitter: instances that lost the same server must not all return to it at the same moment.
      await pause(PROBE_MS * (0.75 + Math.random() / 2), undefined, { signal, ref: false }).catch(
        () => undefined,
      );
    } while (!signal.aborted && !(await this.#isWell()));
    if (signal.aborted) return;
    this.#failures = 0;
    this.#reason = null;
    this.#options.onClose(performance.now() - openedAt);
  }

  async #isWell(): Promise<boolean> {
    try {
      await this.#options.probe();
      return true;
    } catch (error) {
      this.#reason = error as Error;
      return false;
    }
  }
}
