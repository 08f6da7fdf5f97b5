import { performance } from 'node:perf_hooks';
import { LRUCache } from 'lru-cache';
import type { Configuration } from '../configuration/configuration.js';
import { Patience } from './patience.js';

/** Who asks: what has `clientOf` its address. Asked for only if memory is short or there is no time, as it takes a microsecond. */
export interface Sender {
  readonly client: string;
}

/** Work that waits. `isLate`: it has waited for too long, and is to be refused. Must not throw. */
type Work = (isLate: boolean) => void;

/** What waits for one client, oldest first, each since when. Plain arrays: to take out the first of 2,000 costs 0.3 µs, of 50,000 5 µs. */
interface Lane {
  readonly client: string;
  readonly waiting: { readonly work: Work; readonly since: number }[];
}

/** Lanes of clients that take turns. */
class RoundRobin {
  /** None of them is empty. */
  readonly #byClient = new Map<string, Lane>();
  /** Those whose turn is to come. */
  readonly #order: Lane[] = [];

  get length(): number {
    return this.#order.length;
  }

  waitingOf(client: string): number {
    return this.#byClient.get(client)?.waiting.length ?? 0;
  }

  add(client: string, work: Work, since: number): void {
    let lane = this.#byClient.get(client);
    if (lane === undefined) {
      this.#byClient.set(client, (lane = { client, waiting: [] }));
      this.#order.push(lane);
    }
    lane.waiting.push({ work, since });
  }

  /** Takes out the lane whose turn it is. {@link putBack} must follow. */
  next(): Lane | undefined {
    return this.#order.shift();
  }

  /** Puts a lane behind the others; forgets it if it is empty. */
  putBack(lane: Lane): void {
    if (lane.waiting.length > 0) this.#order.push(lane);
    else this.#byClient.delete(lane.client);
  }
}

/** The limits of {@link Backlog}. A single client may have half of `maxPending`. */
export type BacklogLimits = Pick<Configuration, 'queueBurstMs' | 'maxPending'>;

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
  /** How many requests wait, without large bodies. Only the methods write it. */
  length = 0;
  readonly #limits: BacklogLimits;
  readonly #signatures: { readonly waitMs: number };
  readonly #loop: Loop;
  readonly #lanes = new RoundRobin();
  /** Large bodies, of which one is parsed per turn: those of a client wait for each other, too. */
  readonly #large = new RoundRobin();
  /** Clients whose callers have given up lately. */
  readonly #impatient = new LRUCache<string, Patience>({ max: MAX_IMPATIENT });
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

  /**
   * Whether to serve a request at once: none waits, this turn and the threads have time, and the callers of its client do not give up.
   * Call it once for each.
   */
  hasTime(sender: Sender): boolean {
    const now = this.#loop.now();
    const startedAt = (this.#turnStartedAt ??= now);
    this.#deferTurn();
    const hasTime = this.length === 0 && this.#signatures.waitMs < AHEAD_MS && now - startedAt < AT_ONCE_MS;
    // While one waits, its caller may go, and then its address is not known any more.
    const client = hasTime && this.#impatient.size === 0 ? null : sender.client;
    const patience = client === null ? undefined : this.#impatient.get(client);
    patience?.count(false, this.#isBusy(now), now);
    return hasTime && patience?.isLow !== true;
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
    return this.length > 0 || turnMs >= MIN_SLICE_MS || this.#signatures.waitMs >= MIN_SLICE_MS;
  }

  /**
   * Lets a request wait for its turn.
   *
   * @param client its address
   * @returns false if too many requests of this client wait; then `work` is never called
   */
  add(client: string, work: Work): boolean {
    const places = this.#impatient.get(client)?.places ?? Infinity;
    if (this.#lanes.waitingOf(client) >= Math.min(places, this.#limits.maxPending / 2)) return false;
    this.#lanes.add(client, work, this.#loop.now());
    this.length++;
    this.#deferTurn();
    return true;
  }

  /** Lets a large body wait for a turn of its own. @param client its address */
  addLarge(client: string, work: Work): void {
    this.#large.add(client, work, this.#loop.now());
    this.#deferTurn();
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
    this.#forgetPatient(now);
    if (!this.#hasWaiting()) return;
    const large = this.#large.next();
    const first = large?.waiting.shift();
    if (large !== undefined) this.#large.putBack(large);
    first?.work(now - first.since > MAX_LARGE_WAIT_MS);
    const isMoving = this.#serve(othersMs);
    if (!this.#hasWaiting()) return;
    // The next turn begins with what this one left.
    this.#turnStartedAt = this.#loop.now();
    // If the threads have enough work, it waits a little longer, so that they get the cores.
    this.#deferTurn(isMoving || this.#large.length > 0 ? 'defer' : 'pause');
  };

  #forgetPatient(now: number): void {
    if (this.#impatient.size === 0 || now - this.#forgotAt < FORGET_MS) return;
    this.#forgotAt = now;
    for (const [client, patience] of this.#impatient)
      if (patience.isOlderThan(FORGET_MS, now)) this.#impatient.delete(client);
  }

  #hasWaiting(): boolean {
    return this.length > 0 || this.#large.length > 0;
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
      const lane = this.#lanes.next() as Lane;
      const { waiting } = lane;
      const patience = this.#impatient.get(lane.client);
      const limitMs = Math.min(this.#limits.queueBurstMs, patience?.limitMs ?? Infinity);
      const isLate =
        now - (waiting[0]?.since ?? now) > limitMs || waiting.length > (patience?.places ?? Infinity);
      const isRefused = isLate && refusingMs < MAX_REFUSING_MS;
      // Of callers who give up, the newest request has the most time left.
      const isNewest = patience?.isLow === true;
      if (isRefused || ((isNewest || !isLate) && hasTimeToServe())) {
        const one = isRefused || !isNewest ? waiting.shift() : waiting.pop();
        this.length--;
        isMoving = true;
        one?.work(isRefused);
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
