import { within } from './operators-list.js';

const GIVE_UP_MS = 5_000;
const MAX_FETCHES = 128;
/** Of these, lists whose last fetch failed: servers that hang leave places to those that answer. */
const MAX_FAILED = 16;

/** Who fetches when: only so many at once; and what came is read one after the other. */
export class FetchTurns {
  // Only `take` changes these.
  #running = 0;
  #failedRunning = 0;
  readonly #waiting = { first: [] as (() => void)[], failed: [] as (() => void)[] };
  /** The last list that is read. */
  #reading: Promise<unknown> = Promise.resolve();

  /**
   * Does a fetch when there is a place.
   *
   * @param isFailed whether the last one of this list failed
   * @param stop ends it, also while it waits
   */
  async take<T>(isFailed: boolean, stop: AbortController, work: () => Promise<T>): Promise<T> {
    const { first, failed } = this.#waiting;
    while (this.#running >= MAX_FETCHES || (isFailed && this.#failedRunning >= MAX_FAILED)) {
      await new Promise<void>((resolve) => {
        (isFailed ? failed : first).push(resolve);
        stop.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      if (stop.signal.aborted) break;
    }
    this.#running++;
    if (isFailed) this.#failedRunning++;
    try {
      stop.signal.throwIfAborted();
      return await within(GIVE_UP_MS, stop, work);
    } finally {
      this.#running--;
      if (isFailed) this.#failedRunning--;
      const next = first.shift() ?? (this.#failedRunning < MAX_FAILED ? failed.shift() : undefined);
      next?.();
    }
  }

  /** Reads a list when the ones before it have been read: each takes memory, and time of the main thread. */
  read<T>(work: () => Promise<T>): Promise<T> {
    const reading = this.#reading.then(work, work);
    this.#reading = reading.catch(() => undefined);
    return reading;
  }
}
