import type { Backlog, Work } from './backlog.js';
import { clientOf } from './rate-limit.js';

/** The limits of {@link Admission}. */
export interface AdmissionLimits {
  /** Maximum number of requests that wait for a verdict. */
  readonly maxPending: number;
  /** Maximum number of bytes for bodies that are being read, parsed or waiting, including their parsed values. */
  readonly maxBodyMemory: number;
}

// Memory for the text and the parsed value, per byte of body, in the worst case that MAX_JSON_NODES allows. A bundle
// takes 5.
const EXPANSION = 16;

/** The largest body that is parsed at once when it is complete. Of larger ones, one is parsed per event-loop turn. */
export const MAX_TYPICAL_BYTES = 64 * 1024;
// A body up to this size arrives in the first packets, so its buffer is not worth a check in advance.
const SMALL_BYTES = 16 * 1024;

/**
 * Decides whether requests are admitted. Limits how many wait for a verdict, and how much memory their bodies take; how
 * long they wait, {@link Backlog} limits. Callers must give back what they take on every path.
 */
export class Admission {
  /** The memory of bodies, of all routes and protocols. */
  readonly memory: BodyMemory;
  readonly #backlog: Backlog;
  /** Set by the service when it is asked to stop. It is then not ready, and every answer closes its connection. */
  isLeaving = false;
  /** Set by the service when the drain begins. From then on, no new bundle is accepted. */
  isDraining = false;
  readonly #limits: AdmissionLimits;
  readonly #counts = { pending: 0, parked: 0, parkedBytes: 0 };

  constructor(limits: AdmissionLimits, backlog: Backlog) {
    this.#limits = limits;
    this.#backlog = backlog;
    this.memory = new BodyMemory(limits.maxBodyMemory);
  }

  /** Number of requests that wait for a verdict, including parked ones. */
  get pending(): number {
    return this.#counts.pending + this.#backlog.length + this.#counts.parked;
  }

  /** Whether to read a body. @param announcedBytes its `Content-Length`; 0 if absent */
  hasRoomFor(announcedBytes: number, sender: BodySender): boolean {
    if (this.#isCrowded() || !this.memory.hasRoom(0)) return false;
    return announcedBytes <= SMALL_BYTES || this.memory.canRead(announcedBytes, sender);
  }

  /**
   * Runs the work for a request whose body has arrived: at once if the main thread has time, else when its turn comes. A
   * body that takes long to parse waits for a turn of its own.
   *
   * @param client its address; asked for only if it must wait
   * @param bytes of its body
   * @param uncounted those of them that do not count yet; they count as a body that is being read while it waits
   * @param work called once. `isLate`: a limit is reached, or it has waited for too long
   * @returns whether `work` has been called
   */
  run(client: () => string, bytes: number, uncounted: number, work: Work): boolean {
    const isLarge = bytes > MAX_TYPICAL_BYTES;
    if (!isLarge && this.#backlog.hasTime()) {
      work(false);
      return true;
    }
    if (isLarge ? this.#waitAlone(client(), uncounted, work) : this.wait(client(), uncounted, work))
      return false;
    work(true);
    return true;
  }

  /**
   * Lets a request wait for the main thread.
   *
   * @param client its address
   * @param bytes of its body; they count as a body that is being read
   * @param work called when its turn comes
   * @returns false if a limit is reached; then `work` is never called
   */
  wait(client: string, bytes: number, work: Work): boolean {
    if (this.#isCrowded() || !this.memory.take(bytes)) return false;
    const isWaiting = this.#backlog.add(client, (isLate) => {
      this.memory.give(bytes);
      work(isLate);
    });
    if (!isWaiting) this.memory.give(bytes);
    return isWaiting;
  }

  #waitAlone(client: string, bytes: number, work: Work): boolean {
    if (!this.memory.take(bytes)) return false;
    this.#backlog.addLarge(client, (isLate) => {
      this.memory.give(bytes);
      work(isLate);
    });
    return true;
  }

  /**
   * Admits a request, before its body is parsed.
   *
   * @param bodyBytes the length of its body
   * @returns `null` if a limit is reached
   */
  enter(bodyBytes: number): Ticket | null {
    const charge = Math.min(EXPANSION * bodyBytes, this.memory.limit / 2);
    if (this.#isCrowded() || !this.memory.hasRoom(charge)) return null;
    return new Ticket(this.#counts, this.memory, this.#limits, charge);
  }

  #isCrowded(): boolean {
    return this.#counts.pending + this.#backlog.length >= this.#limits.maxPending;
  }
}

/** The reservation of an admitted request. */
export class Ticket {
  readonly #counts: { pending: number; parked: number; parkedBytes: number };
  readonly #memory: BodyMemory;
  readonly #limits: AdmissionLimits;
  readonly #charge: number;
  #place: 'pending' | 'parked' | null = 'pending';

  /** @param charge bytes of memory, for as long as the reservation lasts */
  constructor(
    counts: { pending: number; parked: number; parkedBytes: number },
    memory: BodyMemory,
    limits: AdmissionLimits,
    charge: number,
  ) {
    this.#counts = counts;
    this.#memory = memory;
    this.#limits = limits;
    this.#charge = charge;
    counts.pending++;
    memory.charge(charge);
  }

  /**
   * Parks the request while it waits for something that other requests do not need, such as a status list. It then no
   * longer counts as pending, but its memory still counts.
   *
   * @returns false if too many requests are parked already
   */
  park(): boolean {
    const { maxPending, maxBodyMemory } = this.#limits;
    const counts = this.#counts;
    // Parked requests may use half of each limit. The other half is for requests that need not wait.
    if (this.#place !== 'pending' || counts.parked >= maxPending / 2) return false;
    if (counts.parkedBytes + this.#charge > maxBodyMemory / 2) return false;
    counts.pending--;
    counts.parked++;
    counts.parkedBytes += this.#charge;
    this.#place = 'parked';
    return true;
  }

  /** Ends the reservation. Calling it again has no effect. */
  release(): void {
    if (this.#place === null) return;
    this.#memory.discharge(this.#charge);
    if (this.#place === 'pending') this.#counts.pending--;
    else {
      this.#counts.parked--;
      this.#counts.parkedBytes -= this.#charge;
    }
    this.#place = null;
  }
}

/** Who sends a body: an `Exchange`. */
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
