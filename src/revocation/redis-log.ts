import type { RedisConnection } from '../redis/connection.js';
import { within } from '../redis/within.js';

// One hash tag, so that a Redis Cluster keeps all of it on one node.
const TAG = '{drs:revocations}';
const LOG_KEY = `${TAG}:log`;
const READERS_KEY = `${TAG}:readers`;
const FIELD = 'i';
const PAGE = 5_000;

/** For which a command may take before the connection counts as dead. */
const TIMEOUT_MS = 5_000;

/** The place before all entries. */
export const BEGINNING = '0-0';

/** One revocation in the log. */
export interface LogEntry {
  /** `<Unix milliseconds of Redis>-<number>`; those of later entries are greater. */
  readonly id: string;
  /** `null` where somebody else wrote what is no index. */
  readonly index: number | null;
}

/**
 * The revocations in Redis: a stream, in the order in which they were made, and who reads it.
 *
 * Each instance that is ready has a *lease*: a key that says how far it has read, which Redis forgets unless it is renewed
 * in time. A revocation is acknowledged once every lease says that it was read. So an instance that is cut off delays an
 * acknowledgement until its lease is over, and it knows itself, by its own clock, that it is no longer ready.
 */
export class RedisLog {
  readonly #connection: RedisConnection;

  constructor(connection: RedisConnection) {
    this.#connection = connection;
  }

  /** Whether an entry is in the log. Since it only grows at its end, all before it are there, too. */
  async has(id: string): Promise<boolean> {
    if (id === BEGINNING) return true;
    return ((await this.#send('XRANGE', LOG_KEY, id, id)) as unknown[]).length > 0;
  }

  /** What comes behind an entry, a page at most; nothing at the end. */
  async readAfter(id: string): Promise<LogEntry[]> {
    return toEntries(await this.#send('XRANGE', LOG_KEY, `(${id}`, '+', 'COUNT', String(PAGE)));
  }

  /** As {@link readAfter}, but waits at the end. Blocks its connection. */
  async waitAfter(id: string, waitMs: number): Promise<LogEntry[]> {
    const command = ['XREAD', 'COUNT', String(PAGE), 'BLOCK', String(waitMs), 'STREAMS', LOG_KEY, id];
    const reply = await within(waitMs + TIMEOUT_MS, this.#connection.send(LOG_KEY, command));
    return reply === null ? [] : toEntries((reply as [[string, unknown]])[0][1]);
  }

  /** Appends revocations. @returns the id of the last one */
  async append(indices: readonly number[]): Promise<string> {
    const ids = await Promise.all(
      indices.map((index) => this.#send('XADD', LOG_KEY, '*', FIELD, String(index))),
    );
    return String(ids.at(-1));
  }

  /** Waits until so many replicas have what this connection wrote. @returns how many have it */
  async replicate(replicas: number, waitMs: number): Promise<number> {
    return Number(await this.#send('WAIT', String(replicas), String(waitMs)));
  }

  /** The clock of Redis, in Unix milliseconds. */
  async time(): Promise<number> {
    const [seconds, micros] = (await this.#send('TIME')) as [string, string];
    return Number(seconds) * 1000 + Number(micros) / 1000;
  }

  /** Begins a lease. Its name must be new: that of one that has lapsed may be struck off at any moment. */
  async join(reader: string, readTo: string, leaseMs: number): Promise<void> {
    await this.#send('SET', readerKey(reader), readTo, 'PX', String(leaseMs));
    // After it, since whoever is listed without a lease is struck off.
    await this.#send('SADD', READERS_KEY, reader);
  }

  /** Renews a lease. @returns false where it has lapsed */
  async renew(reader: string, readTo: string, leaseMs: number): Promise<boolean> {
    return (await this.#send('SET', readerKey(reader), readTo, 'XX', 'PX', String(leaseMs))) !== null;
  }

  /** Ends a lease, so that nobody waits for it. */
  async leave(reader: string): Promise<void> {
    await this.#send('DEL', readerKey(reader));
    await this.#send('SREM', READERS_KEY, reader);
  }

  /** Whether all who have a lease have read as far as an entry. */
  async isReadByAll(id: string): Promise<boolean> {
    const readers = (await this.#send('SMEMBERS', READERS_KEY)) as string[];
    if (readers.length === 0) return true;
    const places = (await this.#send('MGET', ...readers.map(readerKey))) as (string | null)[];
    const lapsed = readers.filter((_, at) => places[at] === null);
    if (lapsed.length > 0) await this.#send('SREM', READERS_KEY, ...lapsed);
    return places.every((place) => place === null || !isBefore(place, id));
  }

  #send(...command: string[]): Promise<unknown> {
    return within(TIMEOUT_MS, this.#connection.send(LOG_KEY, command));
  }
}

const readerKey = (reader: string) => `${TAG}:reader:${reader}`;

function toEntries(reply: unknown): LogEntry[] {
  return (reply as [string, string[] | null][]).map(([id, fields]) => ({ id, index: toIndex(fields) }));
}

function toIndex(fields: string[] | null): number | null {
  const [field, text = ''] = fields ?? [];
  const index = field === FIELD && /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(index) ? index : null;
}

/** Whether one id comes before another. */
function isBefore(id: string, other: string): boolean {
  const [ms = 0, number = 0] = id.split('-').map(Number);
  const [otherMs = 0, otherNumber = 0] = other.split('-').map(Number);
  return ms < otherMs || (ms === otherMs && number < otherNumber);
}
