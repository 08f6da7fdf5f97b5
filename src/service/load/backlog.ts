import { performance } from 'node:perf_hooks';
import { LRUCache } from 'lru-cache';
import type { Sender } from './gatekeeper.js';
import { Patience } from './patience.js';
import { RoundRobin, type Line, type Waiting, type Work } from './round-robin.js';

/** The limits of {@link Backlog}. */
export interface BacklogLimits {
  /** Milliseconds that a request may wait. */
  readonly queueBurstMs: number;
  /** Maximum number of requests; a single client may have half as many. */
  readonly maxPending: number;
}

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
// How long a turn works on requests that have just arrived while none waited. A turn with a hundred warm calls takes less.
const AT_ONCE_MS = 15;
// A large body takes milliseconds by itself, so the limits above would refuse the second of a few.
const MAX_LARGE_WAIT_MS = 1000;
// Clients whose callers give up are kept apart, so many at most, and forgotten after so long without a request.
const FORGET_MS = 1000;
const MAX_IMPATIENT = 1024;

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
 * itself. A request that has waited for too long is refused when its turn comes. That also slows down clients that ask again as
 * soon as they are refused. {@link Patience} says what else is refused. Nothing is estimated.
 */
export class Backlog {
  readonly #limits: BacklogLimits;
  readonly #signatures: { readonly waitMs: number };
  readonly #loop: Loop;
  readonly #lanes = new RoundRobin();
  /** Large bodies, of which one is parsed per turn: those of a client wait for each other, too. */
  readonly #large = new RoundRobin();
  /** Clients whose callers have given up lately. */
  readonly #impatient = new LRUCache<string, Patience>({ max: MAX_IMPATIENT });
  #length = 0;
  /** When the first request of this turn came, or the turn before it ended if it left some; `null` between turns. */
  #turnStartedAt: number | null = null;
  #isTurnDue = false;
  #forgotAt = 0;

  /** @param signatures `waitMs`: milliseconds that signatures will wait for a thread if they are submitted now */
  constructor(limits: BacklogLimits, signatures: { readonly waitMs: number }, loop: Loop = eventLoop) {
    this.#limits = limits;
    this.#signatures = signatures;
    this.#loop = loop;
  }

  /** How many requests wait, without large bodies. */
  get length(): number {
    return this.#length;
  }

  /**
   * Whether to serve a request at once: none waits, this turn and the threads have time, and the callers of its client do not give up.
   * Call it once for each.
   */
  hasTime(sender: Sender): boolean {
    const now = this.#loop.now();
    const startedAt = (this.#turnStartedAt ??= now);
    this.#deferTurn();
    const isBusy = this.#isBusy(now);
    // When it has gone, its address is not known any more.
    const client = isBusy || this.#impatient.size > 0 ? sender.client : null;
    const patience = client === null ? undefined : this.#impatient.get(client);
    patience?.count(false, isBusy, now);
    if (this.#length > 0 || this.#signatures.waitMs >= AHEAD_MS) return false;
    return now - startedAt < AT_ONCE_MS && patience?.isLow !== true;
  }

  /** Notes that the caller of a request did not wait for its answer. */
  gaveUp(client: string): void {
    const now = this.#loop.now();
    const isBusy = this.#isBusy(now);
    let patience = this.#impatient.get(client);
    if (patience === undefined) {
      // As long as nobody is noted here, a request costs nothing more.
      if (!isBusy) return;
      this.#impatient.set(client, (patience = new Patience(now, this.#limits.queueBurstMs)));
    }
    patience.count(true, isBusy, now);
  }

  #isBusy(now: number): boolean {
    const turnMs = now - (this.#turnStartedAt ?? now);
    return this.#length > 0 || turnMs >= MIN_SLICE_MS || this.#signatures.waitMs >= MIN_SLICE_MS;
  }

  #patienceOf(client: string): Patience | undefined {
    return this.#impatient.size === 0 ? undefined : this.#impatient.get(client);
  }

  /**
   * Lets a request wait for its turn.
   *
   * @param client its address
   * @returns false if too many requests of this client wait; then `work` is never called
   */
  add(client: string, work: Work): boolean {
    const { waiting } = this.#lanes.of(client);
    const now = this.#loop.now();
    if (waiting.length >= (this.#patienceOf(client)?.places ?? Infinity)) return false;
    if (waiting.length >= this.#limits.maxPending / 2) return false;
    waiting.push({ work, since: now });
    this.#length++;
    this.#deferTurn();
    return true;
  }

  /** Lets a large body wait for a turn of its own. @param client its address */
  addLarge(client: string, work: Work): void {
    this.#large.of(client).waiting.push({ work, since: this.#loop.now() });
    this.#deferTurn();
  }

  #deferTurn(): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    this.#loop.defer(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    const now = this.#loop.now();
    const othersMs = now - (this.#turnStartedAt ?? now);
    this.#isTurnDue = false;
    this.#turnStartedAt = null;
    this.#forgetPatient(now);
    if (!this.#hasWaiting()) return;
    const line = this.#large.next();
    if (line !== undefined) {
      const { work, since } = line.waiting.shift() as Waiting;
      this.#large.putBack(line);
      work(now - since > MAX_LARGE_WAIT_MS);
    }
    const isMoving = this.#serve(othersMs);
    if (!this.#hasWaiting()) return;
    // The next turn begins with what this one left.
    this.#turnStartedAt = this.#loop.now();
    // If the threads have enough work, it waits a little longer, so that they get the cores.
    if (isMoving || this.#large.length > 0) this.#deferTurn();
    else this.#pauseTurn();
  };

  #forgetPatient(now: number): void {
    if (this.#impatient.size === 0 || now - this.#forgotAt < FORGET_MS) return;
    this.#forgotAt = now;
    for (const [client, patience] of this.#impatient)
      if (patience.isOlderThan(FORGET_MS, now)) this.#impatient.delete(client);
  }

  #pauseTurn(): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    this.#loop.pause(this.#endTurn);
  }

  #hasWaiting(): boolean {
    return this.#length > 0 || this.#large.length > 0;
  }

  /**
   * Serves and refuses some of the waiting requests, from each lane in turn.
   *
   * @param othersMs what else this turn has done
   * @returns whether there was one to serve or refuse
   */
  #serve(othersMs: number): boolean {
    let [servingMs, refusingMs] = [0, 0];
    let isMoving = false;
    let now = this.#loop.now();
    const hasTimeToServe = () => {
      const sliceMs = Math.max(MIN_SLICE_MS, SERVING_SHARE * (othersMs + refusingMs));
      return servingMs < Math.min(MAX_SLICE_MS, sliceMs) && this.#signatures.waitMs < AHEAD_MS;
    };
    // Once every lane was skipped in a row, there is no time left for what they hold.
    for (let skipped = 0; skipped < this.#lanes.length;) {
      const lane = this.#lanes.next() as Line;
      const { waiting } = lane;
      const patience = this.#patienceOf(lane.client);
      const limitMs = Math.min(this.#limits.queueBurstMs, patience?.limitMs ?? Infinity);
      const isLate =
        now - (waiting.first as Waiting).since > limitMs || waiting.length > (patience?.places ?? Infinity);
      const isRefused = isLate && refusingMs < MAX_REFUSING_MS;
      // Of callers who give up, the newest request has the most time left.
      const isNewest = patience?.isLow === true;
      if (isRefused || ((isNewest || !isLate) && hasTimeToServe())) {
        const { work } = (isRefused || !isNewest ? waiting.shift() : waiting.pop()) as Waiting;
        this.#length--;
        isMoving = true;
        work(isRefused);
        const spentMs = this.#loop.now() - now;
        now += spentMs;
        if (isRefused) refusingMs += spentMs;
        else servingMs += spentMs;
        skipped = 0;
      } else skipped++;
      this.#lanes.putBack(lane);
    }
    return isMoving;
  }
}
