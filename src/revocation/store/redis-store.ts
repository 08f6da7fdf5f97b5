import { randomUUID } from 'node:crypto';
import { reasonOf, rejectAfter, type RedisConnection } from '../../redis/connection.js';
import { RedisLink } from '../../redis/link.js';
import { Entries } from '../entries.js';
import { hasRunOut, type LocalRevocation } from '../entry.js';
import { BEGINNING, partsOf, PROBE_KEY, RedisLog, type LogEntry } from './redis-log.js';
import { RevocationStoreError, storeIsFull } from './revocation-store.js';
import type { RevocationStore, StoreDeps } from './revocation-store.js';

/** Where the store is, and what an acknowledgement requires. */
export interface RedisStoreOptions {
  /** As for `connectRedis`. */
  readonly url: string;
  /** Replicas that must have a revocation before it is acknowledged. */
  readonly minReplicas: number;
  /** Milliseconds between two looks at the settings of Redis, ± a quarter; default 4,000. Only tests change it. */
  readonly lookMs?: number;
}

/** What this process has read of the log. */
interface Copy {
  readonly entries: Entries;
  /** The id of the last entry. */
  readTo: string;
  /** When it was last known to be complete, by `performance.now()`; `-Infinity` before it was read. */
  completeAt: number;
  /** The clock of Redis minus the clock of this process, in milliseconds. */
  clockOffset: number;
}

/** The log over the link's connection, and over a second one for blocking reads, under a lease. */
interface Session {
  readonly log: RedisLog;
  readonly readerLog: RedisLog;
  /** `since`: when Redis was asked for it, by `performance.now()`. */
  lease: { readonly reader: string; readonly since: number };
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

/**
 * Revocations that all instances share over Redis, with a copy of all of them in this process.
 *
 * Redis sends each new revocation to every instance at once (a blocked `XREAD`). Without Redis, or while its settings let it lose
 * revocations, the copy is still used, but the instance is not ready. When Redis is back, or another server in its place, the copy is
 * completed first. Then revocations that were not replicated before a fail-over are recorded again from the copy.
 */
export class RedisStore implements RevocationStore {
  readonly #options: RedisStoreOptions;
  readonly #deps: StoreDeps;
  readonly #link: RedisLink;
  #hasEnded = false;
  // Only this class changes these.
  #copy: Copy = { entries: new Entries(), readTo: BEGINNING, completeAt: -Infinity, clockOffset: 0 };
  #session: Session | null = null;

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

  get entries(): Entries {
    return this.#copy.entries;
  }

  get isCurrent(): boolean {
    const since = this.#session?.lease.since ?? -Infinity;
    return performance.now() < since + LEASE_MS - LEASE_MARGIN_MS;
  }

  get missingReplicas(): number {
    return Math.max(0, this.#options.minReplicas - this.#link.replicas) || 0;
  }

  get copyAgeSecs(): number {
    return (performance.now() - this.#copy.completeAt) / 1000;
  }

  async record(entry: LocalRevocation): Promise<void> {
    const { maxEntries, now, log } = this.#deps;
    const sweeping = this.entries.sweep(now() + Math.min(0, this.#copy.clockOffset));
    if (sweeping !== null) await sweeping;
    if (this.#hasEnded) throw new RevocationStoreError('closed', 'the revocation store is closed');
    const session = this.#session;
    const { place } = this.#link;
    if (session === null || !this.isCurrent)
      throw new RevocationStoreError('not_recorded', `${place} does not answer; nothing was recorded`);
    if (this.entries.size >= maxEntries && !this.entries.has(entry.target)) throw storeIsFull(maxEntries);
    try {
      // Known entries are appended too: the server that had one may have failed before its replica had it.
      const id = await session.log.append([entry]);
      this.entries.add(entry);
      await session.log.replicate(this.#options.minReplicas, REPLICATE_MS);
      await session.log.waitForReaders(id, MAX_CONFIRM_MS);
    } catch (error) {
      const message = `${place} did not confirm a revocation: ${reasonOf(error)}`;
      log.error({ err: error }, message);
      throw new RevocationStoreError('unconfirmed', message, { cause: error });
    }
  }

  async close(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#session !== null) {
      const { log, lease } = this.#session;
      await rejectAfter(CLOSE_MS, log.leave(lease.reader)).catch(() => undefined);
    }
    this.#endSession();
    this.#link.close();
  }

  /** Makes the copy complete over a new connection, and follows the log from then on. */
  async #begin(connection: RedisConnection): Promise<void> {
    const log = new RedisLog(connection);
    const readerLog = new RedisLog(await connection.duplicate());
    try {
      if (this.#copy.completeAt > -Infinity) await this.#catchUp(log);
      else for (const ids of partsOf(await this.#load(log, this.#copy))) await log.remove(ids);
      const session = { log, readerLog, lease: await this.#join(readerLog) };
      if (this.#link.connection !== connection) throw new Error('the connection was lost');
      this.#session = session;
      void this.#follow(session);
    } catch (error) {
      readerLog.connection.destroy();
      throw error;
    }
  }

  /** Reads new entries for as long as the session lasts. Never rejects. */
  async #follow(session: Session): Promise<void> {
    const { readerLog } = session;
    try {
      while (session === this.#session) {
        const copy = this.#copy;
        const entries = await readerLog.waitAfter(copy.readTo, BEAT_MS);
        const readAt = performance.now();
        for (const entry of entries) {
          this.#take(entry);
          const madeAt = Number.parseInt(entry.id, 10) - copy.clockOffset;
          this.#deps.observer.revocationPropagated?.(Math.max(0, this.#deps.now() - madeAt));
        }
        copy.completeAt = readAt;
        const { reader } = session.lease;
        const isRenewed = await readerLog.renew(reader, copy.readTo, LEASE_MS);
        session.lease = { reader, since: isRenewed ? readAt : -Infinity };
        // This process was suspended for so long that revocations may have been acknowledged without it.
        if (!isRenewed) session.lease = await this.#join(readerLog);
      }
    } catch (error) {
      // Also the error of a session that has just been ended.
      if (session === this.#session) this.#link.fail(error as Error);
    }
  }

  #endSession(): void {
    this.#session?.readerLog.connection.destroy();
    this.#session = null;
  }

  /** Takes a lease, then reads the revocations that were acknowledged while there was none. */
  async #join(log: RedisLog): Promise<Session['lease']> {
    const copy = this.#copy;
    const askedAt = this.#deps.now();
    copy.clockOffset = (await log.time()) - (askedAt + this.#deps.now()) / 2;
    const reader = randomUUID();
    const joinedAt = performance.now();
    await log.join(reader, copy.readTo, LEASE_MS);
    for await (const page of log.pagesAfter(copy.readTo)) for (const entry of page) this.#take(entry);
    copy.completeAt = joinedAt;
    return { reader, since: joinedAt };
  }

  #take({ id, entry }: LogEntry): void {
    this.#copy.readTo = id;
    this.#copy.entries.add(entry);
  }

  /** Completes the copy after an interruption. */
  async #catchUp(log: RedisLog): Promise<void> {
    const known = this.#copy;
    if (await log.has(known.readTo)) return;
    // Another server, or one that lost its data. Read everything, and record again what it does not have.
    const now = await this.#nowBy(log);
    const found: Copy = { ...known, entries: new Entries(), readTo: BEGINNING };
    const isMissing = (entry: LocalRevocation) => !found.entries.covers(entry);
    await this.#load(log, found);
    const missing = [...known.entries.values()].filter((entry) => isMissing(entry) && !hasRunOut(entry, now));
    let recorded = 0;
    for (const part of partsOf(missing)) {
      // Other instances do the same at this moment. What they have recorded need not be recorded again.
      await this.#load(log, found);
      const left = part.filter(isMissing);
      recorded += left.length;
      if (left.length > 0) await log.append(left);
    }
    for (const entry of known.entries.values()) found.entries.add(entry);
    // Not before: if this fails, the next connection has to read everything again.
    this.#copy = found;
    this.#deps.log.warn(
      { recorded, revocations: this.entries.size },
      `${this.#link.place} lacked revocations that were read before: they were recorded again from the copy`,
    );
  }

  /** The earlier of two clocks, in Unix milliseconds: one that is ahead must not end what others have revoked. */
  async #nowBy(log: RedisLog): Promise<number> {
    return Math.min(this.#deps.now(), await log.time());
  }

  /** Reads the log to its end into a copy. @returns the ids of entries that have run out, but the last */
  async #load(log: RedisLog, copy: Copy): Promise<string[]> {
    const runOut: string[] = [];
    let lastRunOut: string | null = null;
    const now = await this.#nowBy(log);
    for await (const page of log.pagesAfter(copy.readTo)) {
      for (const { id, entry } of page) {
        // An instance that comes back asks for the last one that it has read.
        if (lastRunOut !== null) runOut.push(lastRunOut);
        copy.readTo = id;
        lastRunOut = hasRunOut(entry, now) ? id : null;
        if (lastRunOut === null) copy.entries.add(entry);
      }
    }
    return runOut;
  }
}
