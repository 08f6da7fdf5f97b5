/** What {@link Admission} is bounded by. */
export interface AdmissionLimits {
  /** The most requests that wait for a verdict. */
  readonly maxPending: number;
  /** The most bytes of bodies that are being read, parsed or waiting, as {@link chargeOf} counts them. */
  readonly maxBodyMemory: number;
}

// The worst JSON that was found ([{"31":1},…]) takes 38 bytes of heap for each of its own, a bundle about 5. Large
// bodies count at the worst; typical ones at three times what they take, since at the worst 800 of them would fill
// the default budget. So what waits takes at most 2.4 times the budget, and that only if someone means it to.
const WORST_EXPANSION = 40;
const EXPANSION = 16;

/** The largest body that counts as a typical one. Larger ones are parsed one for each turn of the event loop. */
export const MAX_TYPICAL_BYTES = 64 * 1024;
// What fits into the first packets needs no buffer that is worth refusing it for.
const SMALL_BYTES = 16 * 1024;

/** A request that was let in. */
export interface Ticket {
  /** Gives back what it took; once is enough, and twice does no harm. */
  release(): void;
}

/**
 * Lets requests in, or not: how many wait for a verdict, how much memory their bodies take, and whether the service
 * is about to stop. Whoever takes something here gives it back on every path.
 */
export class Admission {
  /** Set once the service is asked to stop: every answer then ends its connection. Owner: the service. */
  isLeaving = false;
  /** Set once no new bundle is taken in. Owner: the service. */
  isDraining = false;
  readonly #limits: AdmissionLimits;
  #pending = 0;
  #readBytes = 0;
  #waitingBytes = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /** Requests that wait for a verdict. */
  get pending(): number {
    return this.#pending;
  }

  /** Bytes held by bodies that are being read, and counted for those that wait. */
  get bodyBytes(): number {
    return this.#readBytes + this.#waitingBytes;
  }

  /** Whether it is worth reading a body of so many bytes (0 where its length is not announced). */
  hasRoomFor(announcedBytes: number): boolean {
    if (this.#pending >= this.#limits.maxPending || this.#isFull(0)) return false;
    return announcedBytes <= SMALL_BYTES || this.#canBuffer(announcedBytes);
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
    const charge = Math.min(chargeOf(bodyBytes), this.#limits.maxBodyMemory / 2);
    if (this.#pending >= this.#limits.maxPending || this.#isFull(charge)) return null;
    this.#pending++;
    this.#waitingBytes += charge;
    return new HeldTicket(this, charge);
  }

  /** For {@link Ticket.release} alone. */
  leave(charge: number): void {
    this.#pending--;
    this.#waitingBytes -= charge;
  }

  #canBuffer(bytes: number): boolean {
    return this.#readBytes + bytes <= this.#limits.maxBodyMemory / 2 && !this.#isFull(bytes);
  }

  #isFull(more: number): boolean {
    return this.#readBytes + this.#waitingBytes + more > this.#limits.maxBodyMemory;
  }
}

/** The bytes that a body of so many bytes takes at most while it waits for a verdict: its text and what is parsed. */
export function chargeOf(bodyBytes: number): number {
  return bodyBytes * (bodyBytes > MAX_TYPICAL_BYTES ? WORST_EXPANSION : EXPANSION);
}

class HeldTicket implements Ticket {
  readonly #admission: Admission;
  readonly #charge: number;
  #isReleased = false;

  constructor(admission: Admission, charge: number) {
    this.#admission = admission;
    this.#charge = charge;
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#admission.leave(this.#charge);
  }
}
