import { performance } from 'node:perf_hooks';

// If more than one wait in ODDS + 1 finds no request, the next 16 waits are skipped, doubling up to 1,024.
const ODDS = 4;
const FIRST_LEFT_OUT = 16;
const MAX_LEFT_OUT = 1024;
// Waits that found a request count in favour of later ones, up to this many, so that a change shows soon.
const MAX_CREDIT = 4 * ODDS;

/**
 * Keeps the event loop polling for a moment after the last request is answered, since a wake-up takes as long as a
 * verification. A client that sends one request after another gets its answers sooner, for no more processor time. If
 * polling too often finds no request, most waits are skipped, so that scattered requests cost nothing extra.
 */
export class BusyPoll {
  readonly #milliseconds: number;
  readonly #now: () => number;
  readonly #defer: (turn: () => void) => void;
  #until = 0;
  #lookedAt = 0;
  #isTurning = false;
  #hasArrived = false;
  #credit = 0;
  #leaveOut = FIRST_LEFT_OUT;
  #leftOut = 0;

  /**
   * @param microseconds maximum time of one wait; 0 turns polling off
   * @param now milliseconds
   * @param defer calls its argument in the next turn of the event loop
   */
  constructor(
    microseconds: number,
    now: () => number = () => performance.now(),
    defer: (turn: () => void) => void = setImmediate,
  ) {
    this.#milliseconds = microseconds / 1000;
    this.#now = now;
    this.#defer = defer;
  }

  /** When it last looked for a request and found none, in milliseconds. */
  get lookedAt(): number {
    return this.#lookedAt;
  }

  /** Tells that a request has arrived. */
  end(): void {
    if (!this.#isTurning || this.#hasArrived) return;
    this.#until = 0;
    this.#hasArrived = true;
    this.#credit = Math.min(MAX_CREDIT, this.#credit + 1);
    this.#leaveOut = FIRST_LEFT_OUT;
  }

  /** Tells that no request is open any more. */
  begin(): void {
    if (this.#milliseconds === 0) return;
    if (this.#leftOut > 0) {
      this.#leftOut--;
      return;
    }
    this.#until = this.#now() + this.#milliseconds;
    this.#hasArrived = false;
    if (this.#isTurning) return;
    this.#isTurning = true;
    this.#defer(this.#turn);
  }

  readonly #turn = (): void => {
    const now = this.#now();
    this.#lookedAt = now;
    if (now < this.#until) {
      this.#defer(this.#turn);
      return;
    }
    this.#isTurning = false;
    if (this.#hasArrived) return;
    this.#credit -= ODDS;
    if (this.#credit >= 0) return;
    this.#credit = 0;
    this.#leftOut = this.#leaveOut;
    this.#leaveOut = Math.min(MAX_LEFT_OUT, 2 * this.#leaveOut);
  };
}
