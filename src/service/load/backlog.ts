import { performance } from 'node:perf_hooks';
import { LRUCache } from 'lru-cache';
import type { Configuration } from '../configuration/configuration.js';
import { Lanes, oldestOf, takeOut, type Lane, type Place, type Work } from './lanes.js';
import { Patience } from './patience.js';

/** Who asks: what has `clientOf` its address. Asked for only if memory is short or there is no time, as it takes a microsecond. */
export interface Sender {
  readonly client: string;
}

/** The limits of {@link Backlog}. A single client may have half of `maxPending`. */
export type BacklogLimits = Pick<Configuration, 'requestTimeoutSecs' | 'maxPending'>;

// A turn of the event loop serves waiting requests for at least MIN_SLICE_MS and at most MAX_SLICE_MS, so that it looks at
// its sockets every few milliseconds.
const MIN_SLICE_MS = 3;
const MAX_SLICE_MS = 12;
// The threads get signatures for a whole turn, so that none runs out of work within one. The rest waits here.
const AHEAD_MS = MAX_SLICE_MS;
// Between these limits, it serves for this many times as long as it read sockets, accepted connections and refused. So
// a storm of these leaves three quarters of the time to what is served.
const SERVING_SHARE = 3;
// Refusing is bounded too: a client that is refused may ask again at once.
const MAX_REFUSING_MS = 5;
// How long a turn works on requests that have just arrived while none waited. A turn with fifty warm calls takes less. What came after
// that is served in the next turn: whether its caller has gone is read by then, and nothing else tells.
const AT_ONCE_MS = 5;
/** How often it is seen whether there is rest: at least such a share of the time in which nothing is left to do. */
const WINDOW_MS = 100;
const REST_SHARE = 1 / 3;
const MIN_TURNS = 4;
// A shorter time is none.
const MIN_REST_MS = 0.5;
// Clients whose callers give up are kept apart, so many at most.
const MAX_IMPATIENT = 1024;

/** What a turn of the event loop has done, in milliseconds. */
interface Turn {
  now: number;
  readonly othersMs: number;
  servingMs: number;
  refusingMs: number;
}

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
 * Requests that wait for the main thread. One turn of the event loop delivers every request that has arrived, and the
 * work for one of them delays all others, also refusals. So a turn serves some of the waiting requests and leaves the
 * rest to the next turns. If nothing waits, a request is served as soon as it arrives.
 *
 * Each client has a lane of its own, oldest first, and the lanes take turns, so a client with many requests delays only
 * itself. As long as callers wait, so do their requests. Where they give up, {@link Patience} says how many may wait. Nothing is
 * estimated.
 */
export class Backlog {
  /** How many requests wait, without large bodies. Only the methods write it. */
  length = 0;
  readonly #limits: BacklogLimits;
  readonly #signatures: { readonly waitMs: number };
  readonly #loop: Loop;
  readonly #lanes = new Lanes();
  /** Large bodies, of which one is parsed per turn: those of a client wait for each other, too. */
  readonly #large = new Lanes();
  /** Clients whose callers have given up while there was no rest. */
  readonly #impatient = new LRUCache<string, Patience>({ max: MAX_IMPATIENT });
  /** When the first request of this turn came, or the turn before it ended if it left some; `null` between turns. */
  #turnStartedAt: number | null = null;
  #turn = 0;
  #isTurnDue = false;
  /** Whether there was no rest in the last {@link WINDOW_MS}. */
  #isSaturated = false;
  /** From when on nothing is left to do, also not for the threads; `null` while something waits here. */
  #restsSince: number | null = 0;
  /** Of this window: how long that was, and when and with which turn it began. */
  #restMs = 0;
  #windowAt = 0;
  #windowTurn = 0;
  /** The turn in which it was last seen whether a window is over. */
  #reviewed = -1;

  /** @param signatures `waitMs`: milliseconds that signatures will wait for a thread if they are submitted now */
  constructor(limits: BacklogLimits, signatures: { readonly waitMs: number }, loop: Loop = eventLoop) {
    this.#limits = limits;
    this.#signatures = signatures;
    this.#loop = loop;
  }

  /** Whether some requests may have to be refused as they come: ask {@link refuses}. */
  get isRefusing(): boolean {
    // What is over is known before who asks acts on it.
    if (this.#impatient.size > 0) this.#beginTurn(this.#loop.now());
    return this.#impatient.size > 0 || this.length >= this.#limits.maxPending / 2;
  }

  /** Whether to serve a request at once: none waits, this turn and the threads have time, and none of its callers gave up. */
  hasTime(sender: Sender): boolean {
    const now = this.#loop.now();
    const startedAt = this.#beginTurn(now);
    const hasTime = this.length === 0 && this.#signatures.waitMs < AHEAD_MS && now - startedAt < AT_ONCE_MS;
    if (!hasTime || (!this.#isSaturated && this.#impatient.size === 0)) return hasTime;
    // Asked for now: once its caller has gone, the address is not known any more.
    return !this.#impatient.has(sender.client);
  }

  /** Whether a request of a client must be refused as it comes, since as many wait as may. Counts it if so. */
  refuses(client: string): boolean {
    const now = this.#loop.now();
    this.#beginTurn(now);
    const waiting = this.#lanes.get(client)?.length ?? 0;
    const patience = this.#impatient.get(client);
    if (patience === undefined || patience.hasPlace(now, waiting))
      return waiting >= this.#limits.maxPending / 2;
    patience.refused++;
    return true;
  }

  /**
   * Lets a request wait for its turn.
   *
   * @param client its address
   * @returns `null` if too many requests of this client wait; then `work` is never called
   */
  add(client: string, work: Work): Place | null {
    if (this.refuses(client)) return null;
    this.length++;
    return this.#lanes.add(client, work, this.#loop.now(), this.#turn);
  }

  /** Lets a large body wait for a turn of its own. @param client its address */
  addLarge(client: string, work: Work): void {
    const now = this.#loop.now();
    this.#beginTurn(now);
    this.#large.add(client, work, now, this.#turn);
  }

  /**
   * Notes that the caller of a request has gone, which waited for its turn or for the threads.
   *
   * @param place where it waits, or has waited. If it still does, it is refused now
   */
  gaveUp(sender: Sender, place: Place | null): void {
    this.#beginTurn(this.#loop.now());
    // Where there is rest, it is not the service that its caller has waited for.
    if (this.#isSaturated) this.#noteGivenUp(place?.lane.client ?? sender.client);
    const work = place === null ? null : takeOut(place);
    if (work === null) return;
    this.length--;
    work(true);
  }

  #noteGivenUp(client: string): void {
    let patience = this.#impatient.get(client);
    if (patience === undefined) this.#impatient.set(client, (patience = new Patience()));
    patience.noteGivenUp(this.#loop.now(), this.#lanes.get(client)?.length ?? 0);
  }

  /** @returns when this turn began */
  #beginTurn(now: number): number {
    if (this.#restsSince !== null && now - this.#restsSince >= MIN_REST_MS)
      this.#restMs += now - this.#restsSince;
    this.#restsSince = null;
    // Between turns: what came under a rule is served under it.
    if (now - this.#windowAt >= WINDOW_MS && this.#reviewed !== this.#turn) this.#endWindow(now);
    this.#reviewed = this.#turn;
    this.#deferTurn();
    return (this.#turnStartedAt ??= now);
  }

  #deferTurn(how: 'defer' | 'pause' = 'defer'): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    this.#loop[how](this.#endTurn);
  }

  readonly #endTurn = (): void => {
    const now = this.#loop.now();
    const othersMs = now - (this.#turnStartedAt ?? now);
    this.#isTurnDue = false;
    this.#turnStartedAt = null;
    const isMoving = this.#hasWaiting() && this.#serveTurn(now, othersMs);
    this.#turn++;
    if (this.#hasWaiting()) {
      // The next turn begins with what this one left.
      this.#turnStartedAt = this.#loop.now();
      // If the threads have enough work, it waits a little longer, so that they get the cores.
      this.#deferTurn(isMoving || this.#large.length > 0 ? 'defer' : 'pause');
    } else this.#restsSince = this.#loop.now() + this.#signatures.waitMs;
  };

  /** Sees whether there was rest, which ends all patience, and else whether callers still give up. */
  #endWindow(now: number): void {
    const hadRest = this.#restMs > REST_SHARE * (now - this.#windowAt);
    // A process that stood still had few turns.
    this.#isSaturated = !hadRest && this.#turn - this.#windowTurn >= MIN_TURNS;
    this.#restMs = 0;
    this.#windowAt = now;
    this.#windowTurn = this.#turn;
    if (hadRest) this.#impatient.clear();
    for (const [client, patience] of this.#impatient)
      if (patience.isOver(now)) this.#impatient.delete(client);
  }

  #hasWaiting(): boolean {
    return this.length > 0 || this.#large.length > 0;
  }

  /** @returns whether there was something to serve or refuse */
  #serveTurn(now: number, othersMs: number): boolean {
    const large = this.#large.next();
    if (large !== undefined) {
      const first = oldestOf(large);
      const work = first === undefined ? null : takeOut(first);
      this.#large.putBack(large);
      work?.(this.#isLate(first, now));
    }
    return this.#serve(othersMs);
  }

  #isLate(place: Place | undefined, now: number): boolean {
    return now - (place?.since ?? now) > 1000 * this.#limits.requestTimeoutSecs;
  }

  /**
   * Serves and refuses some of the waiting requests, from each lane in turn.
   *
   * @param othersMs what else this turn has done
   * @returns whether there was one to serve or refuse, or will be in the next turn
   */
  #serve(othersMs: number): boolean {
    const turn: Turn = { now: this.#loop.now(), othersMs, servingMs: 0, refusingMs: 0 };
    let isMoving = false;
    // Once every lane was skipped in a row, there is no time left for what they hold.
    for (let skipped = 0; skipped < this.#lanes.length;) {
      const lane = this.#lanes.next() as Lane;
      const first = oldestOf(lane);
      const what = first === undefined ? 'wait' : this.#whatBecomesOf(first, turn);
      if (first === undefined || what === 'wait' || what === 'next turn') {
        // A lane whose callers have all gone is not put back.
        if (first !== undefined) skipped++;
        isMoving ||= what === 'next turn';
      } else {
        skipped = 0;
        isMoving = true;
        const work = takeOut(first);
        this.length--;
        work?.(what === 'refuse');
        const spentMs = this.#loop.now() - turn.now;
        turn.now += spentMs;
        turn[what === 'refuse' ? 'refusingMs' : 'servingMs'] += spentMs;
      }
      const patience = this.#impatient.get(lane.client);
      if (what === 'serve') patience?.noteServed();
      if ((lane.length === 0 || what === 'next turn') && this.#hasTimeToServe(turn))
        patience?.couldServeMore(turn.now);
      this.#lanes.putBack(lane);
    }
    return isMoving;
  }

  #whatBecomesOf(first: Place, turn: Turn): 'refuse' | 'serve' | 'next turn' | 'wait' {
    const patience = this.#impatient.get(first.lane.client);
    const isLate = this.#isLate(first, turn.now);
    const isTooMuch = patience !== undefined && first.lane.length > patience.places;
    if ((isLate || isTooMuch) && turn.refusingMs < MAX_REFUSING_MS) return 'refuse';
    if (first.turn === this.#turn && (turn.othersMs >= AT_ONCE_MS || patience !== undefined))
      return 'next turn';
    return !isLate && this.#hasTimeToServe(turn) ? 'serve' : 'wait';
  }

  #hasTimeToServe({ othersMs, servingMs, refusingMs }: Turn): boolean {
    const sliceMs = Math.max(MIN_SLICE_MS, SERVING_SHARE * (othersMs + refusingMs));
    return servingMs < Math.min(MAX_SLICE_MS, sliceMs) && this.#signatures.waitMs < AHEAD_MS;
  }
}
