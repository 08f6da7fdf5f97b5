import { performance } from 'node:perf_hooks';

/** The limits of {@link Backlog}. */
export interface BacklogLimits {
  /** Milliseconds that a request may wait in a burst. */
  readonly queueBurstMs: number;
  /** Milliseconds that it may wait in a lasting overload; if that is more, the other limit holds. */
  readonly queueTargetMs: number;
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
// An overload is found by intervals of so long, of which so many in a row have more late requests than one in so many. A
// moment in which the whole process stood still makes one or two intervals late.
const INTERVAL_MS = 100;
const MIN_BAD_INTERVALS = 3;
const MAX_LATE_SHARE = 1 / 20;
// An overload is over when nobody was late for so long, or on trial after a longer time: a crowd that the lower limit
// refuses in part may fit into the higher one. A trial lasts for about half a second, so trials take 2 % of the time.
const CALM_MS = 200;
const TRIAL_AFTER_MS = 30_000;

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

/** Work that waits. `isLate`: it has waited for too long, and is to be refused. Must not throw. */
export type Work = (isLate: boolean) => void;

interface Waiting {
  readonly work: Work;
  /** When it began to wait. */
  readonly since: number;
}

/**
 * Requests that wait for the main thread. One turn of the event loop delivers every request that has arrived, and the
 * work for one of them delays all others, also refusals. So a turn serves some of the waiting requests and leaves the
 * rest to the next turns. If nothing waits, a request is served as soon as it arrives.
 *
 * Each client has a lane of its own, oldest first, and the lanes take turns, so a client with many requests delays only
 * itself. A request that has waited too long is refused when its turn comes; see {@link Lane}. That also slows down
 * clients that ask again as soon as they are refused. Nothing is estimated.
 */
export class Backlog {
  readonly #limits: BacklogLimits;
  readonly #signatures: { readonly waitMs: number };
  readonly #loop: Loop;
  readonly #lanes: RoundRobin<Lane>;
  /** Large bodies, of which one is parsed per turn: those of a client wait for each other, too. */
  readonly #large = new RoundRobin((client) => new Line(client));
  #length = 0;
  /** When the first request of this turn came; `null` between turns. */
  #turnStartedAt: number | null = null;
  #isTurnDue = false;
  /** When waiting requests were last served, if some were left. */
  #servedAt: number | null = null;

  /** @param signatures `waitMs`: milliseconds that signatures will wait for a thread if they are submitted now */
  constructor(limits: BacklogLimits, signatures: { readonly waitMs: number }, loop: Loop = eventLoop) {
    this.#limits = limits;
    this.#lanes = new RoundRobin((client) => new Lane(client, limits));
    this.#signatures = signatures;
    this.#loop = loop;
  }

  /** How many requests wait, without large bodies. */
  get length(): number {
    return this.#length;
  }

  /** Whether to serve a request at once: none waits, and this turn and the threads have time. Call it once for each. */
  hasTime(): boolean {
    if (this.#length > 0 || this.#signatures.waitMs >= AHEAD_MS) return false;
    const now = this.#loop.now();
    if (this.#turnStartedAt !== null) return now - this.#turnStartedAt < AT_ONCE_MS;
    this.#turnStartedAt = now;
    this.#deferTurn();
    return true;
  }

  /**
   * Lets a request wait for its turn.
   *
   * @param client its address
   * @returns false if too many requests of this client wait; then `work` is never called
   */
  add(client: string, work: Work): boolean {
    const lane = this.#lanes.of(client);
    if (lane.waiting.length >= this.#limits.maxPending / 2) return false;
    lane.waiting.push({ work, since: this.#loop.now() });
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
    const othersMs = now - (this.#servedAt ?? this.#turnStartedAt ?? now);
    this.#isTurnDue = false;
    this.#turnStartedAt = null;
    this.#servedAt = null;
    if (!this.#hasWaiting()) return;
    const line = this.#large.next();
    if (line !== undefined) {
      const { work, since } = line.waiting.shift() as Waiting;
      this.#large.putBack(line);
      work(now - since > MAX_LARGE_WAIT_MS);
    }
    const isMoving = this.#serve(othersMs);
    if (!this.#hasWaiting()) return;
    this.#servedAt = this.#loop.now();
    // If the threads have enough work, it waits a little longer, so that they get the cores.
    if (isMoving || this.#large.length > 0) this.#deferTurn();
    else this.#pauseTurn();
  };

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
      const lane = this.#lanes.next() as Lane;
      const isLate = lane.isLate(now);
      if (isLate ? refusingMs < MAX_REFUSING_MS : hasTimeToServe()) {
        this.#length--;
        isMoving = true;
        lane.take(isLate, now)(isLate);
        const spentMs = this.#loop.now() - now;
        now += spentMs;
        if (isLate) refusingMs += spentMs;
        else servingMs += spentMs;
        skipped = 0;
      } else skipped++;
      this.#lanes.putBack(lane);
    }
    return isMoving;
  }
}

/** First in, first out. What is taken out is freed at once. */
export class Fifo<Item> {
  #items: (Item | undefined)[] = [];
  #next = 0;

  get length(): number {
    return this.#items.length - this.#next;
  }

  get first(): Item | undefined {
    return this.#items[this.#next];
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item | undefined {
    const item = this.#items[this.#next];
    if (item === undefined) return undefined;
    this.#items[this.#next++] = undefined;
    // Moving the others costs their number, so it is worth it once they are at most half of all.
    if (2 * this.#next >= this.#items.length) {
      this.#items = this.#items.slice(this.#next);
      this.#next = 0;
    }
    return item;
  }
}

/** What waits for one client, oldest first. */
class Line {
  readonly client: string;
  readonly waiting = new Fifo<Waiting>();

  constructor(client: string) {
    this.client = client;
  }
}

/** Lines of clients that take turns. */
class RoundRobin<One extends Line> {
  readonly #make: (client: string) => One;
  /** By client. None of them is empty. */
  readonly #lines = new Map<string, One>();
  readonly #order = new Fifo<One>();

  constructor(make: (client: string) => One) {
    this.#make = make;
  }

  /** Number of lines. */
  get length(): number {
    return this.#order.length;
  }

  /** The line of a client, to which something must be added if it is new. */
  of(client: string): One {
    let line = this.#lines.get(client);
    if (line === undefined) {
      this.#lines.set(client, (line = this.#make(client)));
      this.#order.push(line);
    }
    return line;
  }

  /** Takes out the line whose turn it is. {@link putBack} must follow. */
  next(): One | undefined {
    return this.#order.shift();
  }

  /** Puts a line behind the others; forgets it if it is empty. */
  putBack(line: One): void {
    if (line.waiting.length > 0) this.#order.push(line);
    else this.#lines.delete(line.client);
  }
}

/**
 * The waiting requests of one client, oldest first, and how long they may wait: `queueBurstMs`, so that a burst is
 * served, and so is a crowd of clients that each wait for their answer. Where that is not enough for a while, more comes
 * than can be served. Waiting then only makes every answer later, so the limit is `queueTargetMs`.
 */
class Lane extends Line {
  readonly #limits: BacklogLimits;
  /** Requests of this interval, and how many of them were late. */
  #taken = 0;
  #late = 0;
  #countedSince = -Infinity;
  /** In a row. */
  #badIntervals = 0;
  #lateAt = -Infinity;
  #overloadedSince = -Infinity;

  constructor(client: string, limits: BacklogLimits) {
    super(client);
    this.#limits = limits;
  }

  /** Whether the oldest request, which must exist, has waited for too long. */
  isLate(now: number): boolean {
    const { queueBurstMs, queueTargetMs } = this.#limits;
    const isOverloaded = now - this.#overloadedSince < TRIAL_AFTER_MS && now - this.#lateAt < CALM_MS;
    const { since } = this.waiting.first as Waiting;
    return now - since > (isOverloaded ? Math.min(queueTargetMs, queueBurstMs) : queueBurstMs);
  }

  /** Takes out the oldest request, which must exist. */
  take(isLate: boolean, now: number): Work {
    if (now - this.#countedSince >= INTERVAL_MS) {
      this.#badIntervals = this.#late > MAX_LATE_SHARE * this.#taken ? this.#badIntervals + 1 : 0;
      if (this.#badIntervals === MIN_BAD_INTERVALS) this.#overloadedSince = now;
      this.#taken = this.#late = 0;
      this.#countedSince = now;
    }
    this.#taken++;
    if (isLate) {
      this.#late++;
      this.#lateAt = now;
    }
    return (this.waiting.shift() as Waiting).work;
  }
}
