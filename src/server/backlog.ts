import { performance } from 'node:perf_hooks';

// How long a turn of the event loop works on what waits before it looks at the sockets again. Whoever is refused, and
// whoever asks for /healthz, waits for about one such slice.
const SLICE_MS = 3;
// How long a turn works on what has just come, where nothing waited. A turn that finds a hundred warm calls takes less.
const AT_ONCE_MS = 15;
// Signatures for this long are handed to the threads ahead of time, so that none runs dry within a turn. The rest waits here.
const AHEAD_MS = 5;
// The cost of a request is averaged over the last 128 to 256.
const REMEMBERED = 256;
// Of a request, before any was timed.
const FIRST_GUESS_MS = 0.3;
// A slice that took longer was held up, by the operating system or a collection of garbage. That says little about the next.
const LONGEST_MS = 4 * SLICE_MS;

/** What {@link Backlog} needs of the event loop; a test has one of its own. */
export interface Loop {
  /** Milliseconds. */
  now(): number;
  /** Calls its argument behind all requests that are there already. */
  defer(turn: () => void): void;
  /** Calls its argument in about a millisecond. */
  pause(turn: () => void): void;
}

const eventLoop: Loop = {
  now: () => performance.now(),
  defer: setImmediate,
  pause: (turn) => setTimeout(turn, 1),
};

/**
 * Requests that wait for the main thread, oldest first. One turn of the event loop delivers every request that has come,
 * and what is done for one of them delays all others: refusals, too. So a turn does a slice of what waits and leaves the
 * rest to the next turns. Where nothing waits, a request is served as soon as it comes.
 */
export class Backlog {
  readonly #signatures: { readonly waitMs: number };
  readonly #loop: Loop;
  #waiting: (() => void)[] = [];
  /** Index of the oldest. */
  #next = 0;
  /** When the first request of this turn came; `null` between turns. */
  #turnStartedAt: number | null = null;
  #isTurnDue = false;
  /** When the last slice ended, if it left something waiting. */
  #sliceEndedAt: number | null = null;
  // Time that waiting requests took lately, and how many: from slice to slice, so that refusals and busy threads count.
  #ms = FIRST_GUESS_MS;
  #done = 1;

  /** @param signatures `waitMs`: how long signatures that are submitted now will wait for a thread, in milliseconds */
  constructor(signatures: { readonly waitMs: number }, loop: Loop = eventLoop) {
    this.#signatures = signatures;
    this.#loop = loop;
  }

  /** How many requests wait. */
  get length(): number {
    return this.#waiting.length - this.#next;
  }

  /**
   * How long a request that comes now waits, in its socket, here and for a thread, in milliseconds. It came while the last
   * slice was served, and what waits will take as long as such requests took lately.
   */
  get waitMs(): number {
    const { waitMs } = this.#signatures;
    return this.length === 0 ? waitMs : SLICE_MS + (this.length * this.#ms) / this.#done + waitMs;
  }

  /** Whether a request that has come is to be served at once: none waits, and this turn has time. Ask once for each. */
  hasTime(): boolean {
    if (this.length > 0) return false;
    const now = this.#loop.now();
    if (this.#turnStartedAt !== null) return now - this.#turnStartedAt < AT_ONCE_MS;
    this.#turnStartedAt = now;
    this.#deferTurn();
    return true;
  }

  /** Lets a request wait for its turn. `run` must not throw. */
  add(run: () => void): void {
    this.#waiting.push(run);
    this.#deferTurn();
  }

  #deferTurn(): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    this.#loop.defer(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    this.#isTurnDue = false;
    this.#turnStartedAt = null;
    if (this.length > 0) this.#serve();
  };

  /** Serves a slice of what waits. */
  #serve(): void {
    const startedAt = this.#loop.now();
    let now = startedAt;
    let served = 0;
    while (this.length > 0 && now - startedAt < SLICE_MS && this.#signatures.waitMs < AHEAD_MS) {
      this.#waiting[this.#next++]?.();
      served++;
      now = this.#loop.now();
    }
    this.#learn(now - (this.#sliceEndedAt ?? startedAt), served);
    this.#forget();
    this.#sliceEndedAt = this.length > 0 ? now : null;
    if (this.length > 0) this.#goOn(served);
  }

  /** Comes back in the next turn; a little later where the threads have enough to do, so that this one leaves them the cores. */
  #goOn(served: number): void {
    if (served > 0) this.#deferTurn();
    else {
      this.#isTurnDue = true;
      this.#loop.pause(this.#endTurn);
    }
  }

  #learn(ms: number, served: number): void {
    this.#ms += Math.min(ms, LONGEST_MS);
    this.#done += served;
    if (this.#done < REMEMBERED) return;
    this.#ms /= 2;
    this.#done /= 2;
  }

  /** Lets go of what was served. Moving what waits costs as much as that is, so it is done once as much was served. */
  #forget(): void {
    if (2 * this.#next < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#next);
    this.#next = 0;
  }
}
