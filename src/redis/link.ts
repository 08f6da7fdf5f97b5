import { setTimeout as pause } from 'node:timers/promises';
import { connectRedis, CONNECT_TIMEOUT_MS, placeOf, reasonOf, type RedisConnection } from './connection.js';
import { rejectAfter } from './reject-after.js';

/** Why a Redis must not be used. */
export type RedisFaultKind =
  /** It does not answer, is not the primary, or refuses writes. */
  | 'away'
  /** Its settings let it forget what it was told. */
  | 'forgets'
  /** It has reached its maxmemory. */
  | 'full';

/** A Redis must not be used. */
export class RedisFault extends Error {
  readonly kind: RedisFaultKind;

  constructor(kind: RedisFaultKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** What an error of Redis, or of the way to it, says about the Redis. */
export function faultOf(error: unknown): RedisFault {
  if (error instanceof RedisFault) return error;
  const reason = reasonOf(error);
  return new RedisFault(reason.startsWith('OOM') ? 'full' : 'away', reason, { cause: error });
}

/** What a store needs of its Redis. */
export interface RedisNeeds {
  /** In the form of `REDIS_URL`. */
  readonly url: string;
  /** What the store keeps there, for messages. */
  readonly keeps: string;
  /** Whether what it has must survive a restart of Redis by itself. */
  readonly needsFile: boolean;
}

/**
 * Looks at what Redis says of its settings and its memory. It asks INFO, since many providers refuse CONFIG.
 *
 * @param isEachNeeded whether each primary of a cluster must answer. Otherwise one is enough.
 * @returns whether Redis tells its settings
 * @throws RedisFault if it may forget something, or is full; Error if it does not answer
 */
export async function lookAt(
  connection: RedisConnection,
  { url, keeps, needsFile }: RedisNeeds,
  isEachNeeded: boolean,
): Promise<boolean> {
  const memory = await connection.info('memory', isEachNeeded);
  const policies = memory.map((info) => /^maxmemory_policy:(\S+)/m.exec(info ?? '')?.[1]);
  const evicting = policies.find((policy) => policy !== undefined && policy !== 'noeviction');
  if (evicting !== undefined)
    throw new RedisFault(
      'forgets',
      `${placeOf(url)} has the maxmemory-policy ${evicting}, expected noeviction: it may forget ${keeps}; ` +
        'set `maxmemory-policy noeviction` in its configuration, or use a separate Redis for this',
    );
  const persistence = needsFile ? await connection.info('persistence', isEachNeeded) : [];
  const appending = persistence.map((info) => /^aof_enabled:(\d)/m.exec(info ?? '')?.[1]);
  if (appending.includes('0'))
    throw new RedisFault(
      'forgets',
      `${placeOf(url)} keeps ${keeps} in memory only and would forget them when it restarts; ` +
        'set `appendonly yes` in its configuration, or REVOCATION_MIN_REPLICAS to 1 or more if it has replicas',
    );
  if (memory.length > 0 && memory.every((info) => info !== null && isFull(info)))
    throw new RedisFault('full', `${placeOf(url)} has reached its maxmemory`);
  return policies.length > 0 && ![...policies, ...appending].includes(undefined);
}

/** The rule by which Redis refuses a write: buffers for replicas do not count. */
function isFull(info: string): boolean {
  const read = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const limit = read('maxmemory');
  return limit > 0 && read('used_memory') - read('mem_not_counted_for_evict') > limit;
}

/** Options of a {@link RedisLink}. */
export interface RedisLinkOptions extends RedisNeeds {
  /** A name that each look writes: a Redis that has become a replica, or cannot write its disk, still answers. */
  readonly probe: string;
  /** Milliseconds between two looks, ± a quarter; default 4,000. A look takes 5 s at most. */
  readonly lookMs?: number | undefined;
  /** Receives a warning if Redis does not tell its settings. */
  readonly log: { warn(facts: object, message: string): void } | undefined;
  /** Called with a connection that may be used from now on. If it rejects, the Redis counts as away. */
  readonly onUp?: (connection: RedisConnection) => Promise<void>;
  /** Called when the Redis may not be used any more. `isNews`: the reason was not reported since it last could be. */
  readonly onDown: (fault: RedisFault, isNews: boolean) => void;
  /** Called after {@link onUp} where the Redis could not be used for these milliseconds. */
  readonly onBack: (awayMs: number) => void;
  /** Called when the connection to a node of a cluster is lost: the others stay in use. */
  readonly onNodeLost?: (error: Error) => void;
}

const LOOK_MS = 4_000;
const RETRY_MS = 250;
const PROBE_TTL_MS = 1_000;
const LOADING_PAUSE_MS = 100;

/**
 * The way to one Redis that must not forget. It connects, looks every few seconds whether the settings are still as they
 * must be, and where the Redis cannot be used, tries every quarter of a second until it can.
 */
export class RedisLink {
  /** The address for messages, without credentials. */
  readonly place: string;
  readonly #options: RedisLinkOptions;
  // Only this class changes these. A lost connection to a single server is never ready again, so it is replaced.
  #connection: RedisConnection | null = null;
  #fault: RedisFault | null = null;
  #awaySince: number | null = null;
  #reported: RedisFaultKind | null = null;
  #tellsSettings = true;
  #hasEnded = false;
  #pausing = new AbortController();

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    this.place = placeOf(options.url);
  }

  /** Why nothing may be sent: the first fault, or that of the last try; `null` if something may. */
  get fault(): RedisFault | null {
    return this.#fault;
  }

  get connection(): RedisConnection | null {
    return this.#connection;
  }

  /** @throws Error if the Redis cannot be reached within 5 s, or may not be used */
  async open(): Promise<void> {
    await this.#use(await this.#connect(), true);
    void this.#watch();
  }

  /** Says that the Redis cannot be used, after a failure that is certain to last. */
  fail(error: unknown): void {
    if (this.#hasEnded) return;
    this.#fault = faultOf(error);
    this.#awaySince ??= performance.now();
    const isNews = this.#reported !== this.#fault.kind;
    this.#reported = this.#fault.kind;
    this.#options.onDown(this.#fault, isNews);
    this.#pausing.abort();
  }

  /** @param waitMs how long to wait for replies that are due */
  async close(waitMs: number): Promise<void> {
    this.#hasEnded = true;
    this.#pausing.abort();
    const connection = this.#connection;
    this.#connection = null;
    if (connection?.isReady === true) await rejectAfter(waitMs, connection.close()).catch(() => undefined);
    connection?.destroy();
  }

  async #watch(): Promise<void> {
    for (;;) {
      const pauseMs = this.#fault === null ? (this.#options.lookMs ?? LOOK_MS) : RETRY_MS;
      this.#pausing = new AbortController();
      // Jitter: instances that lost the same server must not all return to it at the same moment.
      const jitter = 0.75 + Math.random() / 2;
      const { signal } = this.#pausing;
      await pause(pauseMs * jitter, undefined, { signal, ref: false }).catch(() => undefined);
      if (this.#hasEnded) return;
      // A fault that ended the pause has one of its own before the first try.
      if (signal.aborted) continue;
      try {
        if (this.#fault !== null) await this.#repair();
        else if (this.#connection !== null) await this.#look(this.#connection, false);
      } catch (error) {
        this.fail(error);
      }
    }
  }

  async #repair(): Promise<void> {
    const kept = this.#connection;
    if (kept?.isReady === false) kept.destroy();
    await this.#use(kept?.isReady === true ? kept : await this.#connect(), false);
    if (this.#fault !== null) return;
    this.#options.onBack(performance.now() - (this.#awaySince ?? 0));
    this.#reported = this.#awaySince = null;
  }

  async #connect(): Promise<RedisConnection> {
    const connection: RedisConnection = await connectRedis(this.#options.url, (error) => {
      if (connection !== this.#connection) return;
      if (connection.isCluster) this.#options.onNodeLost?.(error);
      else this.fail(error);
    });
    return connection;
  }

  async #use(connection: RedisConnection, isFirst: boolean): Promise<void> {
    try {
      await (isFirst ? this.#lookOnceLoaded(connection) : this.#look(connection, false));
      if (this.#hasEnded) throw new Error('the store is closed');
      this.#connection = connection;
      this.#fault = null;
      await this.#options.onUp?.(connection);
    } catch (error) {
      // It may be dead without an error, or lead to a server that is no longer the primary.
      connection.destroy();
      this.#connection = null;
      throw error;
    }
  }

  /** Until Redis has read its data from the disk, it answers INFO and refuses writes. */
  async #lookOnceLoaded(connection: RedisConnection): Promise<void> {
    const deadline = performance.now() + CONNECT_TIMEOUT_MS;
    for (;;) {
      try {
        await this.#look(connection, true);
        return;
      } catch (error) {
        if (!reasonOf(error).startsWith('LOADING') || performance.now() > deadline) throw error;
        await pause(LOADING_PAUSE_MS);
      }
    }
  }

  /** Rejects if Redis may forget something, or takes nothing. */
  async #look(connection: RedisConnection, isEachNeeded: boolean): Promise<void> {
    const { log, probe, keeps, needsFile } = this.#options;
    const tells = await lookAt(connection, this.#options, isEachNeeded);
    if (!tells && this.#tellsSettings)
      log?.warn(
        {},
        `${this.place} does not tell its maxmemory-policy${needsFile ? ' and whether it keeps an append-only file' : ''}, which could not be ` +
          `checked: make sure that it is noeviction${needsFile ? ' and `appendonly yes`' : ''}, or it may forget ${keeps}`,
      );
    this.#tellsSettings = tells;
    // Of a cluster, this would ask one node.
    if (connection.isCluster) return;
    await rejectAfter(
      CONNECT_TIMEOUT_MS,
      connection.send(probe, ['SET', probe, '1', 'PX', `${PROBE_TTL_MS}`]),
    );
  }
}
