import { setTimeout as pause } from 'node:timers/promises';
import { rejectAfter, type RedisConnection } from '../../redis/connection.js';
import { readEntry, toJson, type LocalRevocation } from '../entry.js';

// A common hash tag, so that a Redis Cluster keeps all keys on one node.
const TAG = '{drs:revocations}';
const ENTRIES_KEY = `${TAG}:entries`;
const READERS_KEY = `${TAG}:readers`;
/** A key that says nothing: it is written to see whether Redis takes writes. */
export const PROBE_KEY = `${TAG}:probe`;
/** The name of the only field. */
const ENTRY = 'e';
const PAGE = 5_000;
/** How many entries are written or removed at a time. */
const PART = 1_000;

/** If a command takes longer, the connection counts as dead. */
const TIMEOUT_MS = 5_000;

/** An id that comes before all entries. */
export const BEGINNING = '0-0';

export interface LogEntry {
  /** `<Unix milliseconds of Redis>-<number>`. Later entries have greater ids. */
  readonly id: string;
  readonly entry: LocalRevocation;
}

/**
 * The revocations in Redis: a stream in the order in which they were made, and its readers.
 *
 * Each ready instance has a *lease*: a key that says how far it has read. Redis deletes the key unless the instance renews it in
 * time. A revocation is acknowledged when all leases say that it was read. An instance that is cut off delays this only until its
 * lease ends. By then it knows from its own clock that it is no longer ready.
 */
export class RedisLog {
  readonly connection: RedisConnection;

  constructor(connection: RedisConnection) {
    this.connection = connection;
  }

  /** Whether an entry is in the log. If so, all earlier entries are too, since the log is append-only. */
  async has(id: string): Promise<boolean> {
    if (id === BEGINNING) return true;
    const found = await this.#send('XRANGE', ENTRIES_KEY, id, id);
    return (found as unknown[]).length > 0;
  }

  /**
   * Reads all entries after an id, a page at a time.
   *
   * @throws Error if one is not an entry that this version knows
   */
  async *pagesAfter(id: string): AsyncGenerator<LogEntry[]> {
    for (let readTo: string | undefined = id; readTo !== undefined;) {
      const command = ['XRANGE', ENTRIES_KEY, `(${readTo}`, '+', 'COUNT', String(PAGE)];
      const page: LogEntry[] = toEntries(await this.#send(...command));
      readTo = page.at(-1)?.id;
      if (readTo !== undefined) yield page;
    }
  }

  /** Reads a page of entries after an id. At the end of the log it waits for new ones. Blocks its connection. */
  async waitAfter(id: string, waitMs: number): Promise<LogEntry[]> {
    const command = ['XREAD', 'COUNT', String(PAGE), 'BLOCK', String(waitMs), 'STREAMS', ENTRIES_KEY, id];
    const reply = await rejectAfter(waitMs + TIMEOUT_MS, this.connection.send(ENTRIES_KEY, command));
    return reply === null ? [] : toEntries((reply as [[string, unknown]])[0][1]);
  }

  /** Appends revocations. @returns the id of the last one */
  async append(entries: readonly LocalRevocation[]): Promise<string> {
    const ids = await Promise.all(
      entries.map((entry) => this.#send('XADD', ENTRIES_KEY, '*', ENTRY, toJson(entry))),
    );
    return String(ids.at(-1));
  }

  async remove(ids: readonly string[]): Promise<void> {
    await this.#send('XDEL', ENTRIES_KEY, ...ids);
  }

  /** Waits until this many replicas have what this connection wrote. @throws Error if fewer have it then */
  async replicate(replicas: number, waitMs: number): Promise<void> {
    if (replicas === 0) return;
    const found = Number(await this.#send('WAIT', String(replicas), String(waitMs)));
    if (found < replicas) throw new Error(`${found} replicas have it, expected ${replicas}; try again`);
  }

  /** The clock of Redis, in Unix milliseconds. */
  async time(): Promise<number> {
    const [seconds, micros] = (await this.#send('TIME')) as [string, string];
    return Number(seconds) * 1000 + Number(micros) / 1000;
  }

  /** Begins a lease. Its name must be new, since the name of an expired lease may be removed at any moment. */
  async join(reader: string, readTo: string, leaseMs: number): Promise<void> {
    await this.#send('SET', readerKey(reader), readTo, 'PX', String(leaseMs));
    // After the lease is set: readers that are listed without a lease are removed.
    await this.#send('SADD', READERS_KEY, reader);
  }

  /** Renews a lease. @returns false if it has expired */
  async renew(reader: string, readTo: string, leaseMs: number): Promise<boolean> {
    return (await this.#send('SET', readerKey(reader), readTo, 'XX', 'PX', String(leaseMs))) !== null;
  }

  /** Ends a lease, so that no acknowledgement waits for it. */
  async leave(reader: string): Promise<void> {
    await this.#send('DEL', readerKey(reader));
    await this.#send('SREM', READERS_KEY, reader);
  }

  /** Waits until all readers with a lease have read an entry. */
  async waitForReaders(id: string, maxMs: number): Promise<void> {
    const deadline = performance.now() + maxMs;
    for (let waitMs = 1; ; waitMs = Math.min(2 * waitMs, 50)) {
      const readers = (await this.#send('SMEMBERS', READERS_KEY)) as string[];
      if (readers.length === 0) return;
      const places = (await this.#send('MGET', ...readers.map(readerKey))) as (string | null)[];
      const lapsed = readers.filter((_, at) => places[at] === null);
      if (lapsed.length > 0) await this.#send('SREM', READERS_KEY, ...lapsed);
      if (places.every((place) => place === null || !isBefore(place, id))) return;
      if (performance.now() > deadline) throw new Error(`not all instances have read it after ${maxMs} ms`);
      await pause(waitMs);
    }
  }

  #send(...command: string[]): Promise<unknown> {
    return rejectAfter(TIMEOUT_MS, this.connection.send(ENTRIES_KEY, command));
  }
}

/** A list in parts, each of which Redis is sent at a time. */
export function* partsOf<T>(list: readonly T[]): Generator<T[]> {
  for (let at = 0; at < list.length; at += PART) yield list.slice(at, at + PART);
}

const readerKey = (reader: string) => `${TAG}:reader:${reader}`;

function toEntries(reply: unknown): LogEntry[] {
  return (reply as [string, string[] | null][]).map(([id, fields]) => {
    const [name, text = ''] = fields ?? [];
    const entry = name === ENTRY ? readEntry(text) : '';
    if (typeof entry !== 'string') return { id, entry };
    throw new Error(
      `entry ${id} of the revocations is none that this version knows, and nothing may be skipped; ` +
        'delete it (XDEL), or start the version that wrote it',
    );
  });
}

function isBefore(id: string, other: string): boolean {
  const [ms = 0, number = 0] = id.split('-').map(Number);
  const [otherMs = 0, otherNumber = 0] = other.split('-').map(Number);
  return ms < otherMs || (ms === otherMs && number < otherNumber);
}
