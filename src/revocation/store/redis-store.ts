import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { connectRedis, placeOf, reasonOf, type RedisConnection } from '../../redis/connection.js';
import { rejectAfter } from '../../redis/reject-after.js';
import { Entries } from '../entries.js';
import { hasRunOut, type Entry } from '../entry.js';
import type { RevocationLog, RevocationObserver } from '../observer.js';
import { BEGINNING, RedisLog, type LogEntry } from './redis-log.js';
import { checkRedis, checkRedisFirst } from './redis-checks.js';
import type { RevocationStore } from './revocation-store.js';
import { RevocationStoreError, storeIsFull } from './store-error.js';

/** Where the store is, and what an acknowledgement requires. */
export interface RedisStoreOptions {
  /** As for `connectRedis`. */
  readonly url: string;
  /** Replicas that must have a revocation before it is acknowledged. */
  readonly minReplicas: number;
  /** Milliseconds between two looks at the settings of Redis, ± a quarter; default 4,000. Only tests change it. */
  readonly lookMs?: number;
}

interface Deps {
  readonly log: RevocationLog;
  readonly observer: RevocationObserver;
  readonly maxEntries: number;
  readonly now?: () => number;
}

/** A connection, a second one for blocking reads, and the log over each. */
interface Session {
  readonly connection: RedisConnection;
  readonly reader: RedisConnection;
  readonly log: RedisLog;
  readonly readerLog: RedisLog;
}

const LEASE_MS = 3_000;
/** This process treats its lease as this much shorter than Redis does, since clocks do not run at the same rate. */
const LEASE_MARGIN_MS = 200;
const BEAT_MS = 500;
const REPLICATE_MS = 1_000;
const MAX_CONFIRM_MS = LEASE_MS + 2_000;
const RETRY_MS = 250;
const LOOK_MS = 4_000;
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
  readonly #place: string;
  readonly #deps: Deps;
  readonly #ended = new AbortController();
  #entries = new Entries();
  /** The id of the last entry in the copy. */
  #readTo = BEGINNING;
  #session: Session | null = null;
  #following: Promise<void> = Promise.resolve();
  #reader = '';
  /** Milliseconds of `performance.now()`. */
  #leaseUntil = -Infinity;
  #completeAt = -Infinity;
  /** The clock of Redis minus the clock of this process, in milliseconds. */
  #clockOffset = 0;

  private constructor(options: RedisStoreOptions, deps: Deps) {
    this.#options = options;
    this.#deps = deps;
    this.#place = placeOf(options.url);
  }

  /**
   * Connects, and reads all revocations.
   *
   * @throws {@link RevocationStoreError} `unreadable` if Redis cannot be reached, or would lose revocations
   */
  static async open(options: RedisStoreOptions, deps: Deps): Promise<RedisStore> {
    const store = new RedisStore(options, deps);
    let session: Session | null = null;
    try {
      session = await store.#connect();
      await checkRedisFirst(session.connection, options.minReplicas, deps.log);
      const runOut = await store.#load(session.log, store.#entries);
      for (let at = 0; at < runOut.length; at += PUSH) await session.log.remove(runOut.slice(at, at + PUSH));
      await store.#join(session);
    } catch (error) {
      endSession(session);
      throw new RevocationStoreError(
        'unreadable',
        `the revocation store, ${store.#place}, cannot be used: ${reasonOf(error)}`,
        { cause: error },
      );
    }
    store.#session = session;
    store.#following = store.#follow(session);
    return store;
  }

  get entries(): Entries {
    return this.#entries;
  }

  get isCurrent(): boolean {
    return performance.now() < this.#leaseUntil;
  }

  get copyAgeSecs(): number {
    return (performance.now() - this.#completeAt) / 1000;
  }

  async record(entry: Entry): Promise<void> {
    const sweeping = this.#entries.sweep(this.#now());
    if (sweeping !== null) await sweeping;
    if (this.#hasEnded()) throw new RevocationStoreError('closed', 'the revocation store is closed');
    const session = this.#session;
    if (session === null || !this.isCurrent) {
      throw new RevocationStoreError('not_recorded', `${this.#place} does not answer; nothing was recorded`);
    }
    const { maxEntries } = this.#deps;
    if (this.#entries.size >= maxEntries && !this.#entries.has(entry.target)) throw storeIsFull(maxEntries);
    try {
      // Known entries are appended too: the server that had one may have failed before its replica had it.
      const id = await session.log.append([entry]);
      this.#entries.add(entry);
      const { minReplicas } = this.#options;
      if (minReplicas > 0) {
        const replicas = await session.log.replicate(minReplicas, REPLICATE_MS);
        if (replicas < minReplicas) throw new Error(`${replicas} replicas have it, expected ${minReplicas}`);
      }
      await session.log.waitForReaders(id, MAX_CONFIRM_MS);
    } catch (error) {
      const message = `${this.#place} did not confirm a revocation: ${reasonOf(error)}`;
      this.#deps.log.error({ err: error }, message);
      throw new RevocationStoreError('unconfirmed', message, { cause: error });
    }
  }

  async close(): Promise<void> {
    if (this.#hasEnded()) return;
    this.#ended.abort();
    const session = this.#session;
    this.#session = null;
    this.#leaseUntil = -Infinity;
    if (session !== null) {
      await rejectAfter(CLOSE_MS, session.log.leave(this.#reader)).catch(() => undefined);
      endSession(session);
    }
    // While it connects to an unreachable Redis, this takes long. It ends by itself.
    await rejectAfter(CLOSE_MS, this.#following).catch(() => undefined);
  }

  /** A method, not a field: TypeScript would assume that a field does not change between two checks. */
  #hasEnded(): boolean {
    return this.#ended.signal.aborted;
  }

  /** Reads new entries, and reconnects if the connection ends, until the store is closed. Never rejects. */
  async #follow(first: Session): Promise<void> {
    const { signal } = this.#ended;
    const { log } = this.#deps;
    let session: Session | null = first;
    let awaySince: number | null = null;
    while (!this.#hasEnded()) {
      try {
        if (session === null) {
          session = await this.#connect();
          await checkRedis(session.connection, this.#options.minReplicas, false);
          await this.#catchUp(session);
          await this.#join(session);
          this.#session = session;
          const awayMs = Math.round(performance.now() - (awaySince ?? 0));
          log.info(
            { awayMs, revocations: this.#entries.size },
            `${this.#place} is back: the copy is complete again`,
          );
          awaySince = null;
        }
        while (!this.#hasEnded()) await this.#readUntilLook(session);
      } catch (error) {
        endSession(session);
        session = this.#session = null;
        this.#leaseUntil = -Infinity;
        if (this.#hasEnded()) return;
        if (awaySince === null) {
          awaySince = performance.now();
          log.error(
            { err: error, revocations: this.#entries.size },
            `${this.#place} cannot be used: verification goes on with the copy, this instance is not ready, and cannot revoke`,
          );
        }
        // Jitter, so that instances that lost the same server do not all reconnect at the same moment.
        await pause(RETRY_MS * (0.75 + Math.random() / 2), undefined, { signal, ref: false }).catch(
          () => undefined,
        );
      }
    }
    endSession(session);
  }

  async #connect(): Promise<Session> {
    const connection = await connectRedis({ url: this.#options.url });
    try {
      const reader = await connection.duplicate();
      const log = new RedisLog(connection);
      return { connection, reader, log, readerLog: new RedisLog(reader) };
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** Takes a lease, then reads the revocations that were acknowledged while there was none. */
  async #join(session: Session): Promise<void> {
    const { readerLog } = session;
    const askedAt = Date.now();
    this.#clockOffset = (await readerLog.time()) - (askedAt + Date.now()) / 2;
    this.#reader = randomUUID();
    const joinedAt = performance.now();
    await readerLog.join(this.#reader, this.#readTo, LEASE_MS);
    let readAt: number;
    let entries: LogEntry[];
    do {
      readAt = performance.now();
      entries = await readerLog.readAfter(this.#readTo);
      for (const entry of entries) this.#take(entry);
    } while (entries.length > 0);
    this.#completeAt = readAt;
    this.#leaseUntil = joinedAt + LEASE_MS - LEASE_MARGIN_MS;
  }

  /** Reads until it is time to look at the settings of Redis again, then looks. */
  async #readUntilLook(session: Session): Promise<void> {
    const { minReplicas, lookMs = LOOK_MS } = this.#options;
    const lookAt = performance.now() + lookMs * (0.75 + Math.random() / 2);
    while (performance.now() < lookAt && !this.#hasEnded()) await this.#readNext(session);
    if (!this.#hasEnded()) await checkRedis(session.connection, minReplicas, false);
  }

  async #readNext(session: Session): Promise<void> {
    const { readerLog } = session;
    const entries = await readerLog.waitAfter(this.#readTo, BEAT_MS);
    const readAt = performance.now();
    for (const entry of entries) {
      this.#take(entry);
      const madeAt = Number.parseInt(entry.id, 10) - this.#clockOffset;
      this.#deps.observer.revocationPropagated?.(Math.max(0, Date.now() - madeAt));
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
    this.#entries.add(entry);
  }

  /** Completes the copy after an interruption. */
  async #catchUp(session: Session): Promise<void> {
    if (await session.log.has(this.#readTo)) return;
    // Another server, or one that lost its data. Read everything, and record again what it does not have.
    const { log } = session;
    const found = new Entries();
    this.#readTo = BEGINNING;
    await this.#load(log, found);
    const known = this.#entries;
    let recorded = 0;
    let missing: Entry[] = [];
    const push = async () => {
      // Other instances do the same at this moment. What they have recorded need not be recorded again.
      for (
        let page = await log.readAfter(this.#readTo);
        page.length > 0;
        page = await log.readAfter(this.#readTo)
      ) {
        for (const { id, entry } of page) {
          this.#readTo = id;
          found.add(entry);
        }
      }
      const left = missing.filter((entry) => !found.covers(entry));
      missing = [];
      recorded += left.length;
      if (left.length > 0) await log.append(left);
    };
    for (const entry of known.values()) {
      if (found.covers(entry) || hasRunOut(entry, this.#now())) continue;
      missing.push(entry);
      if (missing.length === PUSH) await push();
    }
    await push();
    for (const entry of known.values()) found.add(entry);
    this.#entries = found;
    this.#deps.log.warn(
      { recorded, revocations: this.#entries.size },
      `${this.#place} lacked revocations that were read before: they were recorded again from the copy`,
    );
  }

  /** Reads the log from {@link #readTo} to its end. @returns the ids of entries that have run out, but the last */
  async #load(log: RedisLog, into: Entries): Promise<string[]> {
    const runOut: string[] = [];
    let lastRunOut: string | null = null;
    for (;;) {
      const page = await log.readAfter(this.#readTo);
      if (page.length === 0) return runOut;
      for (const { id, entry } of page) {
        // An instance that comes back asks for the last one that it has read.
        if (lastRunOut !== null) runOut.push(lastRunOut);
        this.#readTo = id;
        lastRunOut = hasRunOut(entry, this.#now()) ? id : null;
        if (lastRunOut === null) into.add(entry);
      }
    }
  }

  #now(): number {
    return this.#deps.now?.() ?? Date.now();
  }
}

function endSession(session: Session | null): void {
  session?.connection.destroy();
  session?.reader.destroy();
}
