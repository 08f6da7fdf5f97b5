import { randomUUID } from 'node:crypto';
import { reasonOf, rejectAfter, type RedisConnection } from '../../redis/connection.js';
import { RedisLink } from '../../redis/link.js';
import { Entries } from '../entries.js';
import { hasRunOut, type Entry } from '../entry.js';
import { BEGINNING, PROBE_KEY, RedisLog, type LogEntry } from './redis-log.js';
import {
  RevocationStoreError,
  storeIsFull,
  type RevocationStore,
  type StoreDeps,
} from './revocation-store.js';

/** Where the store is, and what an acknowledgement requires. */
export interface RedisStoreOptions {
  /** As for `connectRedis`. */
  readonly url: string;
  /** Replicas that must have a revocation before it is acknowledged. */
  readonly minReplicas: number;
  /** Milliseconds between two looks at the settings of Redis, ± a quarter; default 4,000. Only tests change it. */
  readonly lookMs?: number;
}

/** The log over the link's connection, and over a second one for blocking reads. */
interface Session {
  readonly log: RedisLog;
  readonly readerLog: RedisLog;
}

/** What revocations need of a Redis. */
export function needsOf({ url, minReplicas }: RedisStoreOptions) {
  const write = (connection: RedisConnection) =>
    connection.send(PROBE_KEY, ['SET', PROBE_KEY, '1', 'PX', '1000']);
  const otherwise = 'REVOCATION_MIN_REPLICAS to 1 or more if it has replicas';
  return { url, keeps: 'revocations', needsFile: minReplicas === 0 && otherwise, write };
}

const LEASE_MS = 3_000;
/** This process treats its lease as this much shorter than Redis does, since clocks do not run at the same rate. */
const LEASE_MARGIN_MS = 200;
const BEAT_MS = 500;
const REPLICATE_MS = 1_000;
const MAX_CONFIRM_MS = LEASE_MS + 2_000;
const CLOSE_MS = 500;
const PUSH = 1_000;

/**
 * Revocations that all instances share over Redis, with a copy of all of them in this process.
 *
 * Redis sends each new revocation to every instance at once (a blocked `XREAD`). Without Redis, or while its settings
 * let it lose revocations, the copy is still used, but the instance is not ready. When Redis is back, or another server
 * has replaced it, the copy is completed first. Then revocations that this server lacks, because they were not
 * replicated before a fail-over, are recorded again from the copy.
 */
export class RedisStore implements RevocationStore {
  readonly #options: RedisStoreOptions;
  readonly #deps: StoreDeps;
  readonly #link: RedisLink;
  #hasEnded = false;
  #isLoaded = false;
  /** Only this class changes it. */
  entries = new Entries();
  /** The id of the last entry in the copy. */
  #readTo = BEGINNING;
  #session: Session | null = null;
  #reader = '';
  /** Milliseconds of `performance.now()`. */
  #leaseUntil = -Infinity;
  #completeAt = -Infinity;
  /** The clock of Redis minus the clock of this process, in milliseconds. */
  #clockOffset = 0;

  private constructor(options: RedisStoreOptions, deps: StoreDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#link = new RedisLink({
      ...needsOf(options),
      lookMs: options.lookMs,
      log: deps.log,
      onUp: (connection) => this.#begin(connection),
      onDown: (error) => {
        this.#endSession();
        deps.log.error(
          { err: error, revocations: this.entries.size },
          `${this.#link.place} cannot be used: verification goes on with the copy, this instance is not ready, and cannot revoke`,
        );
      },
      onBack: () =>
        deps.log.info(
          { revocations: this.entries.size },
          `${this.#link.place} is back: the copy is complete again`,
        ),
    });
  }

  /**
   * Connects, and reads all revocations.
   *
   * @throws {@link RevocationStoreError} `unreadable` if Redis cannot be reached, or would lose revocations
   */
  static async open(options: RedisStoreOptions, deps: StoreDeps): Promise<RedisStore> {
    const store = new RedisStore(options, deps);
    try {
      await store.#link.open();
      return store;
    } catch (error) {
      await store.close();
      const message = `the revocation store in Redis cannot be used: ${reasonOf(error)}`;
      throw new RevocationStoreError('unreadable', message, { cause: error });
    }
  }

  get isCurrent(): boolean {
    return this.#session !== null && performance.now() < this.#leaseUntil;
  }

  get missingReplicas(): number {
    return Math.max(0, this.#options.minReplicas - this.#link.replicas) || 0;
  }

  get copyAgeSecs(): number {
    return (performance.now() - this.#completeAt) / 1000;
  }

  async record(entry: Entry): Promise<void> {
    const sweeping = this.entries.sweep(this.#deps.now() + Math.min(0, this.#clockOffset));
    if (sweeping !== null) await sweeping;
    if (this.#hasEnded) throw new RevocationStoreError('closed', 'the revocation store is closed');
    const session = this.#session;
    if (session === null || !this.isCurrent)
      throw new RevocationStoreError(
        'not_recorded',
        `${this.#link.place} does not answer; nothing was recorded`,
      );
    const { maxEntries } = this.#deps;
    if (this.entries.size >= maxEntries && !this.entries.has(entry.target)) throw storeIsFull(maxEntries);
    try {
      // Known entries are appended too: the server that had one may have failed before its replica had it.
      const id = await session.log.append([entry]);
      this.entries.add(entry);
      await session.log.replicate(this.#options.minReplicas, REPLICATE_MS);
      await session.log.waitForReaders(id, MAX_CONFIRM_MS);
    } catch (error) {
      const message = `${this.#link.place} did not confirm a revocation: ${reasonOf(error)}`;
      this.#deps.log.error({ err: error }, message);
      throw new RevocationStoreError('unconfirmed', message, { cause: error });
    }
  }

  async close(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const session = this.#session;
    if (session !== null) await rejectAfter(CLOSE_MS, session.log.leave(this.#reader)).catch(() => undefined);
    this.#endSession();
    this.#link.close();
  }

  /** Makes the copy complete over a new connection, and follows the log from then on. */
  async #begin(connection: RedisConnection): Promise<void> {
    const reader = await connection.duplicate();
    const session = { log: new RedisLog(connection), readerLog: new RedisLog(reader) };
    try {
      if (this.#isLoaded) await this.#catchUp(session);
      else {
        const runOut = await this.#load(session.log, this.entries);
        for (let at = 0; at < runOut.length; at += PUSH)
          await session.log.remove(runOut.slice(at, at + PUSH));
      }
      this.#isLoaded = true;
      await this.#join(session);
      if (this.#link.connection !== connection) throw new Error('the connection was lost');
    } catch (error) {
      reader.destroy();
      this.#leaseUntil = -Infinity;
      throw error;
    }
    this.#session = session;
    void this.#follow(session);
  }

  /** Reads new entries for as long as the session lasts. Never rejects. */
  async #follow(session: Session): Promise<void> {
    try {
      while (session === this.#session) await this.#readNext(session);
    } catch (error) {
      // Also the error of a session that has just been ended.
      if (session === this.#session) this.#link.fail(error as Error);
    }
  }

  #endSession(): void {
    this.#session?.readerLog.connection.destroy();
    this.#session = null;
    this.#leaseUntil = -Infinity;
  }

  /** Takes a lease, then reads the revocations that were acknowledged while there was none. */
  async #join(session: Session): Promise<void> {
    const { readerLog } = session;
    const askedAt = this.#deps.now();
    this.#clockOffset = (await readerLog.time()) - (askedAt + this.#deps.now()) / 2;
    this.#reader = randomUUID();
    const joinedAt = performance.now();
    await readerLog.join(this.#reader, this.#readTo, LEASE_MS);
    for await (const page of readerLog.pagesAfter(this.#readTo)) for (const entry of page) this.#take(entry);
    this.#completeAt = joinedAt;
    this.#leaseUntil = joinedAt + LEASE_MS - LEASE_MARGIN_MS;
  }

  async #readNext(session: Session): Promise<void> {
    const { readerLog } = session;
    const entries = await readerLog.waitAfter(this.#readTo, BEAT_MS);
    const readAt = performance.now();
    for (const entry of entries) {
      this.#take(entry);
      const madeAt = Number.parseInt(entry.id, 10) - this.#clockOffset;
      this.#deps.observer.revocationPropagated?.(Math.max(0, this.#deps.now() - madeAt));
    }
    this.#completeAt = readAt;
    if (await readerLog.renew(this.#reader, this.#readTo, LEASE_MS)) {
      this.#leaseUntil = readAt + LEASE_MS - LEASE_MARGIN_MS;
    } else {
      // This process was suspended for so long that revocations may have been acknowledged without it.
      this.#leaseUntil = -Infinity;
      await this.#join(session);
    }
  }

  #take({ id, entry }: LogEntry): void {
    this.#readTo = id;
    this.entries.add(entry);
  }

  /** Completes the copy after an interruption. */
  async #catchUp(session: Session): Promise<void> {
    if (await session.log.has(this.#readTo)) return;
    // Another server, or one that lost its data. Read everything, and record again what it does not have.
    const { log } = session;
    const now = await this.#nowBy(log);
    const found = new Entries();
    this.#readTo = BEGINNING;
    await this.#load(log, found);
    const known = this.entries;
    const missing = [...known.values()].filter((entry) => !found.covers(entry) && !hasRunOut(entry, now));
    let recorded = 0;
    for (let at = 0; at < missing.length; at += PUSH) {
      // Other instances do the same at this moment. What they have recorded need not be recorded again.
      await this.#load(log, found);
      const left = missing.slice(at, at + PUSH).filter((entry) => !found.covers(entry));
      recorded += left.length;
      if (left.length > 0) await log.append(left);
    }
    for (const entry of known.values()) found.add(entry);
    this.entries = found;
    this.#deps.log.warn(
      { recorded, revocations: this.entries.size },
      `${this.#link.place} lacked revocations that were read before: they were recorded again from the copy`,
    );
  }

  /** The earlier of two clocks, in Unix milliseconds: one that is ahead must not end what others have revoked. */
  async #nowBy(log: RedisLog): Promise<number> {
    return Math.min(this.#deps.now(), await log.time());
  }

  /** Reads the log from {@link #readTo} to its end. @returns the ids of entries that have run out, but the last */
  async #load(log: RedisLog, into: Entries): Promise<string[]> {
    const runOut: string[] = [];
    let lastRunOut: string | null = null;
    const now = await this.#nowBy(log);
    for await (const page of log.pagesAfter(this.#readTo)) {
      for (const { id, entry } of page) {
        // An instance that comes back asks for the last one that it has read.
        if (lastRunOut !== null) runOut.push(lastRunOut);
        this.#readTo = id;
        lastRunOut = hasRunOut(entry, now) ? id : null;
        if (lastRunOut === null) into.add(entry);
      }
    }
    return runOut;
  }
}
