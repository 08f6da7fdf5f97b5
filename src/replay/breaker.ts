import { setTimeout as pause } from 'node:timers/promises';

/** Failures in a row after which nothing is tried any more. */
const MAX_FAILURES = 3;
const PROBE_MS = 250;

/** What a {@link Breaker} is given. */
export interface BreakerOptions {
  /** Asks whether what failed is well again: resolves where it is, rejects where it is not. One runs at a time. */
  readonly probe: () => Promise<void>;
  /** Told when it opens, with the reason. */
  readonly onOpen: (reason: Error) => void;
  /** Told when it closes, with the milliseconds for which it was open. */
  readonly onClose: (openMs: number) => void;
}

/**
 * Stops asking something that does not answer. After a few failures in a row it is open: every task fails at once, and
 * only a probe in the background finds out when to begin again. So callers do not each wait for the same time-out.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #ended = new AbortController();
  #failures = 0;
  /** Why it is open; `null` where it is closed. */
  #reason: Error | null = null;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /** Whether nothing is tried at the moment. */
  get isOpen(): boolean {
    return this.#reason !== null;
  }

  /** Runs a task, unless it is open: then the reason for that is thrown. */
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

  /** Opens it at once, for a failure that leaves no doubt. */
  open(reason: Error): void {
    if (this.#reason !== null || this.#ended.signal.aborted) return;
    this.#reason = reason;
    this.#options.onOpen(reason);
    void this.#probeUntilWell(performance.now());
  }

  /** Ends the probing. */
  close(): void {
    this.#ended.abort();
  }

  async #probeUntilWell(openedAt: number): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      try {
        // Jitter, so that instances that lost the same server do not all come back to it at the same moment.
        await pause(PROBE_MS * (0.75 + Math.random() / 2), undefined, { signal, ref: false });
        await this.#options.probe();
        break;
      } catch {
        // Still not well, or ended.
      }
    }
    if (signal.aborted) return;
    this.#failures = 0;
    this.#reason = null;
    this.#options.onClose(performance.now() - openedAt);
  }
}
