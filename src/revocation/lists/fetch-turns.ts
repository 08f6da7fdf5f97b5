import { GIVE_UP_MS, within } from './operators-list.js';
import { StatusListError } from './status-list-error.js';

const MAX_FETCHES = 64;
/** Of these, lists whose last fetch failed: servers that hang leave places for those that answer. */
const MAX_FAILED = 16;

interface Fetch {
  readonly isFailed: boolean;
  readonly startedAt: number;
  readonly stop: AbortController;
}

/** Who fetches when: only so many at once, and reads what came one after the other. */
export class FetchTurns {
  readonly #patienceMs: number;
  // Only `#enter` and `#leave` change these.
  readonly #running = new Set<Fetch>();
  #failedRunning = 0;
  readonly #waiting = { first: [] as (() => void)[], failed: [] as (() => void)[] };
  #timer: NodeJS.Timeout | undefined;
  /** The last list that is read. */
  #reading: Promise<unknown> = Promise.resolve();

  /** @param patienceMs how long a fetch may take while another one waits */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /**
   * Does a fetch when there is a place.
   *
   * @param isFailed whether the last one of this list failed
   * @param stop ends it, also while it waits
   */
  async take<T>(isFailed: boolean, stop: AbortController, work: () => Promise<T>): Promise<T> {
    const queue = isFailed ? this.#waiting.failed : this.#waiting.first;
    while (this.#running.size >= MAX_FETCHES || (isFailed && this.#failedRunning >= MAX_FAILED)) {
      const place = new Promise<void>((resolve) => {
        queue.push(resolve);
        stop.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#endLate();
      await place;
      if (stop.signal.aborted) {
        // Its place in the queue may have been the next one.
        this.#next();
        throw stop.signal.reason;
      }
    }
    const fetch = { isFailed, startedAt: performance.now(), stop };
    this.#running.add(fetch);
    if (isFailed) this.#failedRunning++;
    try {
      return await within(GIVE_UP_MS, stop, work);
    } finally {
      this.#running.delete(fetch);
      if (isFailed) this.#failedRunning--;
      this.#next();
    }
  }

  /** Reads a list when the ones before it have been read: each takes memory, and time of the main thread. */
  read<T>(work: () => Promise<T>): Promise<T> {
    const reading = this.#reading.then(work, work);
    this.#reading = reading.catch(() => undefined);
    return reading;
  }

  #next(): void {
    const { first, failed } = this.#waiting;
    const next = first.shift() ?? (this.#failedRunning < MAX_FAILED ? failed.shift() : undefined);
    next?.();
  }

  /** As long as lists wait that have not failed, ends the oldest fetch when it is late. */
  #endLate(): void {
    const oldest = [...this.#running].find(({ stop }) => !stop.signal.aborted);
    if (this.#timer !== undefined || oldest === undefined || this.#waiting.first.length === 0) return;
    const leftMs = Math.max(0, oldest.startedAt + this.#patienceMs - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const late = `it did not arrive within ${this.#patienceMs} ms, and others wait`;
      if (this.#waiting.first.length > 0) oldest.stop.abort(new StatusListError('timeout', late));
      this.#endLate();
    }, leftMs).unref();
  }
}
