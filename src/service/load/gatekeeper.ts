import type { Configuration } from '../configuration/configuration.js';
import { Backlog, type BacklogLimits, type Sender } from './backlog.js';
import type { Place } from './lanes.js';

/** The limits of a {@link Gatekeeper}. `maxBodyMemory` is for bodies that are being read, parsed or waiting, with their parsed values. */
export type GatekeeperLimits = BacklogLimits & Pick<Configuration, 'maxBodyMemory'>;

// Memory for the text and the parsed value, per byte of body, in the worst case that MAX_JSON_NODES allows. A bundle
// takes 5.
const EXPANSION = 16;

/** The largest body that is parsed at once when it is complete. Of larger ones, one is parsed per event-loop turn. */
export const MAX_TYPICAL_BYTES = 64 * 1024;
/** A body up to this size arrives in the first packets, so its buffer is not worth a check in advance. */
export const SMALL_BYTES = 16 * 1024;

/** What is in use. Only tickets write it. */
class InUse {
  /** Requests that wait for a verdict, and for a status list instead. */
  pending = 0;
  parked = 0;
  parkedBytes = 0;
  /** Bytes of bodies that are being read, or wait for their turn. */
  reading = 0;
  /** Bytes charged for what waits for a verdict. */
  charged = 0;
  /** Bytes of bodies that are being read, by client. Has only clients that hold some: it is as small as the open requests are few. */
  readonly byClient = new Map<string, number>();
}

/**
 * Decides whether requests are admitted. Limits how many wait for a verdict, and how much memory their bodies take; how long they wait for
 * the main thread, {@link Backlog} limits. Each request has a {@link Ticket}, which must be given back on every path.
 *
 * Reading may use half of the memory, so that slow clients leave the other half to fast ones. One client may hold as much of this half
 * as it leaves free: alone half of it, beside another greedy client a third. So a client that stalls in all its bodies does not keep
 * others from sending theirs.
 */
export class Gatekeeper {
  /** Set by the service when it is asked to stop. It is then not ready, and every answer closes its connection. */
  isLeaving = false;
  /** Set by the service when the drain begins. From then on, no new bundle is accepted. */
  isDraining = false;
  readonly #backlog: Backlog;
  readonly #limits: GatekeeperLimits;
  readonly #inUse = new InUse();

  constructor(limits: GatekeeperLimits, backlog: Backlog) {
    this.#limits = limits;
    this.#backlog = backlog;
  }

  /** Number of requests that wait for a verdict, including parked ones. */
  get pending(): number {
    return this.#backlog.length + this.#inUse.pending + this.#inUse.parked;
  }

  /** Bytes held by bodies that are being read, plus the bytes charged for those that wait. */
  get bodyBytes(): number {
    return this.#inUse.reading + this.#inUse.charged;
  }

  /** Number of clients whose bodies are being read. */
  get readingClients(): number {
    return this.#inUse.byClient.size;
  }

  /**
   * Admits a request, before its body is read.
   *
   * @param announcedBytes its `Content-Length`; 0 if absent
   * @returns `null` if a limit is reached
   */
  enter(sender: Sender, announcedBytes: number): Ticket | null {
    if (this.#inUse.pending + this.#backlog.length >= this.#limits.maxPending) return null;
    if (this.bodyBytes > this.#limits.maxBodyMemory) return null;
    const ticket = this.ticketWithoutLimits(sender);
    return announcedBytes <= SMALL_BYTES || ticket.canGrow(announcedBytes) ? ticket : null;
  }

  /** Whether some requests may have to be refused as they come: ask {@link refusesAtOnce}. While it drains, all are, for that reason. */
  get isRefusing(): boolean {
    return !this.isDraining && this.#backlog.isRefusing;
  }

  /** Whether a request must be refused before anything of it is read, since as many of its client's wait as may. Counts it if so. */
  refusesAtOnce(client: string): boolean {
    return this.#backlog.refuses(client);
  }

  /** Notes that the sender of a request had gone before it came here. */
  noteGivenUp(sender: Sender): void {
    this.#backlog.gaveUp(sender, null);
  }

  /** Lets in what no limit may keep out, such as a revocation, or is a part of what was admitted. */
  ticketWithoutLimits(sender: Sender): Ticket {
    return new Ticket(sender, this.#inUse, this.#limits, this.#backlog);
  }
}

/** The reservation of a request. It grows with the body, and then stands for the request that waits for its verdict. */
export class Ticket {
  readonly #sender: Sender;
  readonly #inUse: InUse;
  readonly #limits: GatekeeperLimits;
  readonly #backlog: Backlog;
  /** Bytes that count as being read, in the share of the sender. */
  #held = 0;
  /** Bytes charged while it waits for its verdict. */
  #charge = 0;
  #place: 'pending' | 'parked' | null = null;
  /** Where it waits for its turn, or has waited. */
  #waited: Place | null = null;

  constructor(sender: Sender, inUse: InUse, limits: GatekeeperLimits, backlog: Backlog) {
    this.#sender = sender;
    this.#inUse = inUse;
    this.#limits = limits;
    this.#backlog = backlog;
  }

  /** Whether the sender could hold that many more bytes. */
  canGrow(bytes: number): boolean {
    if (!this.#fits(bytes)) return false;
    const free = this.#limits.maxBodyMemory / 2 - this.#inUse.reading - bytes;
    // Nobody holds more than is free while less than half is in use.
    if (this.#inUse.reading + bytes <= free) return true;
    return (this.#inUse.byClient.get(this.#sender.client) ?? 0) + bytes <= free;
  }

  /** Takes memory for that many more bytes of the body. @returns false if there is not enough; then nothing is taken */
  grow(bytes: number): boolean {
    if (!this.canGrow(bytes)) return false;
    this.add(bytes);
    return true;
  }

  /** Counts what is in memory already, whether there is room for it or not. */
  add(bytes: number): void {
    // An empty piece holds nothing, and must leave no entry behind.
    if (bytes === 0) return;
    const { byClient } = this.#inUse;
    this.#inUse.reading += bytes;
    this.#held += bytes;
    byClient.set(this.#sender.client, (byClient.get(this.#sender.client) ?? 0) + bytes);
  }

  /**
   * Does the work when its turn comes: at once if the main thread has time. A body that takes long to parse waits for a turn of its own.
   * From then on the request waits for its verdict, and what it holds counts as parsed.
   *
   * @param bytes of its body
   * @param work nothing else runs before it first waits for something. `isRefused`: a limit is reached, or it has waited for too long
   */
  takeTurn<T>(bytes: number, work: (isRefused: boolean) => Promise<T>): Promise<T> {
    const isLarge = bytes > MAX_TYPICAL_BYTES;
    const begin = (isLate: boolean) => work(isLate || !this.#await(bytes));
    if (!isLarge && this.#backlog.hasTime(this.#sender)) return begin(false);
    // How long it waits is not in its sender's hands: what came in one piece does not count in the sender's share.
    const uncounted = Math.max(0, bytes - this.#held);
    if ((!isLarge && this.#isCrowded()) || !this.#fits(uncounted)) return begin(true);
    return new Promise((resolve) => {
      const turn = (isLate: boolean) => {
        this.#inUse.reading -= uncounted;
        resolve(begin(isLate));
      };
      this.#inUse.reading += uncounted;
      if (isLarge) this.#backlog.addLarge(this.#sender.client, turn);
      else if ((this.#waited = this.#backlog.add(this.#sender.client, turn)) === null) turn(true);
    });
  }

  /**
   * Parks the request while it waits for something that other requests do not need, such as a status list. It then no
   * longer counts as pending, but its memory still counts.
   *
   * @returns false if too many requests are parked already
   */
  park(): boolean {
    const { maxPending, maxBodyMemory } = this.#limits;
    const inUse = this.#inUse;
    // Parked requests may use half of each limit. The other half is for requests that need not wait.
    if (this.#place !== 'pending' || inUse.parked >= maxPending / 2) return false;
    if (inUse.parkedBytes + this.#charge > maxBodyMemory / 2) return false;
    inUse.pending--;
    inUse.parked++;
    inUse.parkedBytes += this.#charge;
    this.#place = 'parked';
    return true;
  }

  /** Notes that the sender does not wait for the answer any more. If it waits for its turn, that comes now, as a refusal. */
  giveUp(): void {
    const waited = this.#waited;
    this.#waited = null;
    // Else it waits for its body or for a status list, or has its answer.
    if (waited !== null || this.#place === 'pending') this.#backlog.gaveUp(this.#sender, waited);
  }

  /** Gives everything back. The ticket can grow again, for what is kept longer than the verdict takes. */
  release(): void {
    this.#waited = null;
    this.#giveBody();
    const inUse = this.#inUse;
    inUse.charged -= this.#charge;
    if (this.#place === 'pending') inUse.pending--;
    else if (this.#place === 'parked') {
      inUse.parked--;
      inUse.parkedBytes -= this.#charge;
    }
    this.#charge = 0;
    this.#place = null;
  }

  /** Begins to wait for the verdict. @returns false if a limit is reached */
  #await(bytes: number): boolean {
    const { maxBodyMemory } = this.#limits;
    const charge = Math.min(EXPANSION * bytes, maxBodyMemory / 2);
    this.#giveBody();
    if (this.#isCrowded() || this.#inUse.reading + this.#inUse.charged + charge > maxBodyMemory) return false;
    this.#inUse.pending++;
    this.#inUse.charged += this.#charge = charge;
    this.#place = 'pending';
    return true;
  }

  #giveBody(): void {
    if (this.#held === 0) return;
    const { byClient } = this.#inUse;
    const left = (byClient.get(this.#sender.client) ?? 0) - this.#held;
    if (left > 0) byClient.set(this.#sender.client, left);
    else byClient.delete(this.#sender.client);
    this.#inUse.reading -= this.#held;
    this.#held = 0;
  }

  #isCrowded(): boolean {
    return this.#inUse.pending + this.#backlog.length >= this.#limits.maxPending;
  }

  #fits(bytes: number): boolean {
    const { reading, charged } = this.#inUse;
    const { maxBodyMemory } = this.#limits;
    return reading + bytes <= maxBodyMemory / 2 && reading + charged + bytes <= maxBodyMemory;
  }
}
