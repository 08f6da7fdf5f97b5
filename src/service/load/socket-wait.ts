import { performance } from 'node:perf_hooks';

/**
 * Upper bound of the time that requests wait in their sockets before the event loop reads them. No system call tells
 * when bytes of a TCP connection arrived. But what one turn of the loop finds arrived after the previous turn had
 * looked, or after the loop was woken.
 */
export class SocketWait {
  readonly #clock: Clock;
  readonly #lookedAt: () => number;
  #isInTurn = false;
  #startedAt = 0;
  #endedAt = 0;
  #idleAtEnd = 0;
  /** The requests that this turn has found cannot have arrived earlier. */
  #since = 0;

  /** @param lookedAt when a turn last looked for a request and found none, if known */
  constructor(lookedAt: () => number, clock: Clock = eventLoop) {
    this.#lookedAt = lookedAt;
    this.#clock = clock;
  }

  /**
   * @param now when a request's line was read, in milliseconds of `performance.now()`
   * @returns milliseconds
   */
  waitOf(now: number): number {
    if (!this.#isInTurn) this.#begin(now);
    return Math.max(0, now - this.#since);
  }

  #begin(now: number): void {
    const idle = this.#clock.idleMs() - this.#idleAtEnd;
    // If the loop has slept since the last turn, an arriving request woke it: at the earliest after all of that sleep.
    this.#since = idle > 0 ? this.#endedAt + idle : Math.max(this.#startedAt, this.#lookedAt());
    this.#startedAt = now;
    this.#isInTurn = true;
    this.#clock.defer(this.#end);
  }

  readonly #end = (): void => {
    this.#isInTurn = false;
    this.#endedAt = this.#clock.now();
    this.#idleAtEnd = this.#clock.idleMs();
  };
}

/** What {@link SocketWait} needs to know about the event loop. */
export interface Clock {
  /** Milliseconds. */
  now(): number;
  /** Milliseconds that the loop has slept so far. */
  idleMs(): number;
  /** Calls its argument at the end of this turn. */
  defer(end: () => void): void;
}

const eventLoop: Clock = {
  now: () => performance.now(),
  idleMs: () => performance.nodeTiming.idleTime,
  defer: setImmediate,
};
