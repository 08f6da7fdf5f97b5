import { performance } from 'node:perf_hooks';

/**
 * How long requests lie in their sockets before the event loop gets to them, at most. No system call tells when bytes of
 * a TCP connection came; but what a turn of the loop finds came after the turn before had looked, or after the loop was
 * woken.
 */
export class SocketWait {
  readonly #clock: Clock;
  readonly #lookedAt: () => number;
  #isInTurn = false;
  #startedAt = 0;
  #endedAt = 0;
  #idleAtEnd = 0;
  /** What this turn has found can not have come earlier. */
  #since = 0;

  /** @param lookedAt when a turn without a request last looked for one, as far as is known */
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
    // Where the loop slept, it was woken by what has come, and has been busy for the rest of the time since the last turn.
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

/** What {@link SocketWait} knows of the event loop. */
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
