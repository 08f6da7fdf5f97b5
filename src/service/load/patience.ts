// Fewer give up for reasons of their own, or are too few to tell: so many more than one of so many that are served.
const MIN_GIVEN_UP = 8;
const GIVING_UP_SHARE = 1 / 8;
// Those who gave up so long ago do not count any more.
const FORGET_MS = 100;
// What a change has led to is seen after that.
const SETTLING_MS = 20;
const FIRST_LOWERING = 8;
const LOWERING = 4;
const RAISING = 1.3;
const FILLING_MS = 10;
// A place whose caller has gone is not free again at once.
const HOLDING_MS = 10;

/**
 * How many requests of a client may wait: all, until its callers give up. What is in flight may then fit into all limits, and yet what
 * comes has waited at the callers for nearly as long as they wait. Almost all of it is given up, each time at the price of a connection, and
 * it stays so (a metastable failure: Bronson et al., HotOS 2021). Their own queue ends only if more is answered than asked. So
 * all but a few are refused as they come. The number falls while callers give up, grows if the service could have served more, and slowly
 * otherwise, to find out whether they still would.
 */
export class Patience {
  places = Infinity;
  /** Requests that were refused as they came, since the last review. */
  refused = 0;
  /** Callers who gave up, less a share of those who were served. */
  #balance = 0;
  #gaveUpAt = -Infinity;
  /** How many have gone since when. */
  #gone = 0;
  #goneSince = -Infinity;
  #loweredAt = -Infinity;
  #raisedAt = -Infinity;
  #refusedBefore = 0;

  noteServed(): void {
    this.#balance = Math.max(0, this.#balance - GIVING_UP_SHARE);
  }

  /**
   * Whether one more may wait. Where callers go as soon as they have asked, each would find the place free that the one before has left:
   * nobody would be refused, and each connection end without an answer.
   */
  hasPlace(now: number, waiting: number): boolean {
    if (now - this.#goneSince >= HOLDING_MS) this.#gone = 0;
    return waiting + this.#gone < this.places;
  }

  /** Notes that a caller has gone. @param waiting how many requests wait */
  noteGivenUp(now: number, waiting: number): void {
    if (now - this.#gaveUpAt >= FORGET_MS) this.#balance = 0;
    this.#gaveUpAt = now;
    if (this.#gone === 0) this.#goneSince = now;
    this.#gone++;
    this.#balance = Math.min(this.#balance + 1, MIN_GIVEN_UP);
    if (this.#balance < MIN_GIVEN_UP || now - this.#loweredAt < SETTLING_MS) return;
    this.#loweredAt = now;
    const places = this.places === Infinity ? waiting / FIRST_LOWERING : this.places / LOWERING;
    this.places = Math.max(1, Math.floor(places));
  }

  /** Notes that a turn had time for more than waited. */
  couldServeMore(now: number): void {
    if (this.refused === this.#refusedBefore || this.#balance >= MIN_GIVEN_UP) return;
    if (now - this.#raisedAt < FILLING_MS) return;
    this.#raisedAt = now;
    this.#refusedBefore = this.refused;
    this.places++;
  }

  /** Reviews it. @returns whether it is over: nobody was refused since the last review, and nobody gives up any more */
  isOver(now: number): boolean {
    const { refused } = this;
    this.refused = this.#refusedBefore = 0;
    if (this.#balance < MIN_GIVEN_UP) this.places = Math.ceil(RAISING * this.places);
    return refused === 0 && now - this.#gaveUpAt >= FORGET_MS;
  }
}
