import { performance } from 'node:perf_hooks';

// How long a turn of the event loop works on waiting requests before it looks at the sockets again. A refusal, and an
// answer of /healthz, waits for about one such slice.
const SLICE_MS = 3;
// How long a turn works on requests that have just arrived while none waited. A turn with a hundred warm calls takes less.
const AT_ONCE_MS = 15;
// The threads get signatures for the next few milliseconds, so that none runs out of work within a turn. The rest waits here.
const AHEAD_MS = 5;
// The cost of a request is averaged over the last 128 to 256.
const REMEMBERED = 256;
// The assumed time of a request, before any was timed.
const FIRST_GUESS_MS = 0.3;
// If a slice took longer, the operating system or a garbage collection held it up, which says little about the next slice.
const MAX_SLICE_MS = 4 * SLICE_MS;

/** The part of the event loop that {@link Backlog} needs; a test passes its own. */
export interface Loop {
  /** Milliseconds. */
  now(): number;
  /** Calls its argument after all requests that have already arrived. */
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
 * Requests that wait for the main thread, oldest first. One turn of the event loop delivers every request that has
 * arrived, and the work for one of them delays all others, also refusals. So a turn serves a slice of the waiting
 * requests and leaves the rest to the next turns. If nothing waits, a request is served as soon as it arrives.
 */
export class Backlog {
  readonly #signatures: { readonly waitMs: number };
  readonly #loop: Loop;
  /** `null` for those that were served, so that their bodies can be freed. */
  #waiting: ((() => void) | null)[] = [];
  /** Index of the oldest. */
  #next = 0;
  /** When the first request of this turn came; `null` between turns. */
  #turnStartedAt: number | null = null;
  #isTurnDue = false;
  /** When the last slice ended, if it left something waiting. */
  #sliceEndedAt: number | null = null;
  // The recent time of waiting requests, and their number. Measured from slice to slice, so it includes refusals and busy threads.
  #ms = FIRST_GUESS_MS;
  #done = 1;

  /** @param signatures `waitMs`: milliseconds that signatures will wait for a thread if they are submitted now */
  constructor(signatures: { readonly waitMs: number }, loop: Loop = eventLoop) {
    this.#signatures = signatures;
    this.#loop = loop;
  }

  /** How many requests wait. */
  get length(): number {
    return this.#waiting.length - this.#next;
  }

  /**
   * Estimated milliseconds that a request waits if it arrives now: in its socket while the last slice was served, then
   * here, and for a thread.
   */
  get waitMs(): number {
    const { waitMs } = this.#signatures;
    return this.length === 0 ? waitMs : SLICE_MS + (this.length * this.#ms) / this.#done + waitMs;
  }

  /** Whether to serve a request at once: none waits, and this turn has time. Call it once for each request. */
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

  /** Serves a slice of the waiting requests. */
  #serve(): void {
    const startedAt = this.#loop.now();
    let now = startedAt;
    let served = 0;
    while (this.length > 0 && now - startedAt < SLICE_MS && this.#signatures.waitMs < AHEAD_MS) {
      const run = this.#waiting[this.#next];
      this.#waiting[this.#next++] = null;
      run?.();
      served++;
      now = this.#loop.now();
    }
    this.#learn(now - (this.#sliceEndedAt ?? startedAt), served);
    this.#forget();
    this.#sliceEndedAt = this.length > 0 ? now : null;
    if (this.length > 0) this.#goOn(served);
  }

  /** Continues in the next turn. If the threads have enough work, it waits a little longer, so that they get the cores. */
  #goOn(served: number): void {
    if (served > 0) this.#deferTurn();
    else {
      this.#isTurnDue = true;
      this.#loop.pause(this.#endTurn);
    }
  }

  #learn(ms: number, served: number): void {
    this.#ms += Math.min(ms, MAX_SLICE_MS);
    this.#done += served;
    if (this.#done < REMEMBERED) return;
    this.#ms /= 2;
    this.#done /= 2;
  }

  /** Removes served requests from the list, once they are at least half of it: moving the others costs their number. */
  #forget(): void {
    if (2 * this.#next < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#next);
    this.#next = 0;
  }
}
