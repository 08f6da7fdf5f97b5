/** What {@link Admission} is bounded by. */
export interface AdmissionLimits {
  /** The most requests that wait for a verdict. */
  readonly maxPending: number;
  /** The most bytes of bodies that are being read, parsed or waiting, parsed form included. */
  readonly maxBodyMemory: number;
  /** Milliseconds that a request may wait for its turn. */
  readonly queueTargetMs: number;
}

// Text and parsed form of a body, in bytes for each of its own: the worst that MAX_JSON_NODES leaves; a bundle takes 5.
const EXPANSION = 16;

/** The largest body that is parsed as it comes. Larger ones are parsed one for each turn of the event loop. */
export const MAX_TYPICAL_BYTES = 64 * 1024;
// What fits into the first packets needs no buffer that is worth refusing it for.
const SMALL_BYTES = 16 * 1024;

/** A request that was let in. */
export interface Ticket {
  /**
   * Lets the request wait for something that not all others need: it leaves its place, but not its memory, to them.
   *
   * @returns false where too many wait so already
   */
  park(): boolean;
  /** Gives back what it took; once is enough, and twice does no harm. */
  release(): void;
}

/**
 * Lets requests in, or not: how many wait for a verdict, how much memory their bodies take, and whether the service
 * is about to stop. Whoever takes something here gives it back on every path.
 */
export class Admission {
  /** Set once the service is asked to stop: it is not ready, and every answer ends its connection. Owner: the service. */
  isLeaving = false;
  /** Set once another process has taken its place: every answer ends its connection. Owner: the service. */
  isReplaced = false;
  /** Set once no new bundle is taken in. Owner: the service. */
  isDraining = false;
  readonly #limits: AdmissionLimits;
  readonly #queue: { readonly ms: number };
  #pending = 0;
  #parked = 0;
  #parkedBytes = 0;
  #readBytes = 0;
  #waitingBytes = 0;

  /** @param queue how long what comes in now has to wait */
  constructor(limits: AdmissionLimits, queue: { readonly ms: number }) {
    this.#limits = limits;
    this.#queue = queue;
  }

  /** Requests that wait for a verdict. */
  get pending(): number {
    return this.#pending + this.#parked;
  }

  /** Bytes held by bodies that are being read, and counted for those that wait. */
  get bodyBytes(): number {
    return this.#readBytes + this.#waitingBytes;
  }

  /** Whether it is worth reading a body of so many bytes (0 where its length is not announced). */
  hasRoomFor(announcedBytes: number): boolean {
    if (this.#pending >= this.#limits.maxPending || this.#isFull(0)) return false;
    // A small body is there by now, and enter() says whether it came in time.
    return announcedBytes <= SMALL_BYTES || (!this.#isLate() && this.#canBuffer(announcedBytes));
  }

  /**
   * Takes memory for a body that is being read. All bodies that are being read have half of the budget, so that
   * clients that send slowly leave room for those that send at once.
   *
   * @returns false, with nothing taken, where there is not enough
   */
  takeBuffer(bytes: number): boolean {
    if (!this.#canBuffer(bytes)) return false;
    this.#readBytes += bytes;
    return true;
  }

  /** Gives back what {@link takeBuffer} took. */
  giveBuffer(bytes: number): void {
    this.#readBytes -= bytes;
  }

  /**
   * Lets a request wait for a verdict, before its body is parsed.
   *
   * @param bodyBytes the length of its body
   * @returns `null` where there is no room
   */
  enter(bodyBytes: number): Ticket | null {
    const charge = Math.min(EXPANSION * bodyBytes, this.#limits.maxBodyMemory / 2);
    if (this.#isLate() || this.#pending >= this.#limits.maxPending || this.#isFull(charge)) return null;
    this.#pending++;
    this.#waitingBytes += charge;
    let place: 'pending' | 'parked' | null = 'pending';
    return {
      park: () => {
        const { maxPending, maxBodyMemory } = this.#limits;
        // Half of everything is left to those that need not wait.
        if (place !== 'pending' || this.#parked >= maxPending / 2) return false;
        if (this.#parkedBytes + charge > maxBodyMemory / 2) return false;
        this.#pending--;
        this.#parked++;
        this.#parkedBytes += charge;
        place = 'parked';
        return true;
      },
      release: () => {
        if (place === null) return;
        this.#waitingBytes -= charge;
        if (place === 'pending') this.#pending--;
        else {
          this.#parked--;
          this.#parkedBytes -= charge;
        }
        place = null;
      },
    };
  }

  /** Whether what came in now would wait for too long: it is refused at once, and those before it are served in time. */
  #isLate(): boolean {
    return this.#queue.ms > this.#limits.queueTargetMs;
  }

  #canBuffer(bytes: number): boolean {
    return this.#readBytes + bytes <= this.#limits.maxBodyMemory / 2 && !this.#isFull(bytes);
  }

  #isFull(more: number): boolean {
    return this.#readBytes + this.#waitingBytes + more > this.#limits.maxBodyMemory;
  }
}
