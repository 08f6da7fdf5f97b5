import { clientOf } from './rate-limit.js';

/** Who sends a body: an `Exchange`, or the peer of a gRPC call. */
export interface BodySender {
  readonly clientAddress: string;
}

/** Memory for one body while it is being read. */
export interface BodyReservation {
  /** @returns false if there is not enough for that many more bytes; then nothing is taken */
  take(bytes: number): boolean;
  /** Counts what is in memory already, whether there is room for it or not. */
  add(bytes: number): void;
  /** Gives everything back. Calling it again has no effect. */
  release(): void;
}

/**
 * Counts the memory of request bodies: those that are being read, and those that wait for a verdict. Whoever takes
 * must give back on every path.
 *
 * Reading may use half of the memory, so that slow clients leave the other half to fast ones. One client may hold as
 * much of this half as it leaves free: alone half of it, beside another greedy client a third. So a client that stalls
 * in all its bodies does not keep others from sending theirs.
 */
export class BodyMemory {
  readonly limit: number;
  readonly #readLimit: number;
  #reading = 0;
  #waiting = 0;
  /** Bytes by client. Has only clients that hold some, so it is bounded by the number of open requests. */
  readonly #byClient = new Map<string, number>();

  constructor(limit: number) {
    this.limit = limit;
    this.#readLimit = limit / 2;
  }

  /** Bytes held by bodies that are being read, plus the bytes charged for those that wait. */
  get bytes(): number {
    return this.#reading + this.#waiting;
  }

  /** Number of clients whose bodies are being read. */
  get clients(): number {
    return this.#byClient.size;
  }

  /** Whether a client could take this much for reading. Its address is asked for only if memory is short. */
  canRead(bytes: number, sender: BodySender): boolean {
    if (!this.#fits(bytes)) return false;
    // Nobody can hold more than is free while less than half is in use.
    if (2 * (this.#reading + bytes) <= this.#readLimit) return true;
    return this.#isFair(bytes, clientOf(sender.clientAddress));
  }

  /** Begins to read a body of a client; see {@link clientOf}. Takes nothing yet. */
  reserve(client: string): BodyReservation {
    let held = 0;
    const add = (bytes: number) => {
      this.#reading += bytes;
      held += bytes;
      // An empty piece holds nothing, and must leave no entry behind.
      if (bytes > 0) this.#byClient.set(client, (this.#byClient.get(client) ?? 0) + bytes);
    };
    return {
      take: (bytes) => {
        if (!this.#isFair(bytes, client) || !this.#fits(bytes)) return false;
        add(bytes);
        return true;
      },
      add,
      release: () => {
        if (held === 0) return;
        this.give(held);
        const left = (this.#byClient.get(client) ?? 0) - held;
        if (left > 0) this.#byClient.set(client, left);
        else this.#byClient.delete(client);
        held = 0;
      },
    };
  }

  /**
   * Takes memory for a body that has arrived and waits for the main thread. How long it waits is not in its client's
   * hands, so it does not count towards the client's share.
   *
   * @returns false if there is not enough; then nothing is taken
   */
  take(bytes: number): boolean {
    if (!this.#fits(bytes)) return false;
    this.#reading += bytes;
    return true;
  }

  /** Gives back what {@link take} took. */
  give(bytes: number): void {
    this.#reading -= bytes;
  }

  /** Whether that many bytes could be charged for a body that waits for a verdict. */
  hasRoom(bytes: number): boolean {
    return this.bytes + bytes <= this.limit;
  }

  /** Charges bytes for a body that waits for a verdict. Ask {@link hasRoom} first. */
  charge(bytes: number): void {
    this.#waiting += bytes;
  }

  /** Gives back what {@link charge} charged. */
  discharge(bytes: number): void {
    this.#waiting -= bytes;
  }

  #fits(bytes: number): boolean {
    return this.#reading + bytes <= this.#readLimit && this.hasRoom(bytes);
  }

  #isFair(bytes: number, client: string): boolean {
    const free = this.#readLimit - this.#reading - bytes;
    return (this.#byClient.get(client) ?? 0) + bytes <= free;
  }
}
