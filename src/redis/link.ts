import { setTimeout as pause } from 'node:timers/promises';
import { connectRedis, CONNECT_TIMEOUT_MS, placeOf, reasonOf, rejectAfter } from './connection.js';
import type { RedisConnection } from './connection.js';

/** Why a Redis must not be used. `away`: no answer, no primary, or no writes. `forgets`: by its settings. `full`: by its maxmemory. */
export type RedisFault = 'away' | 'forgets' | 'full';

/** How often in a row a Redis that was away must answer within the time of a call. */
const PROBES = 5;

/** What Redis answers to a client that it does not let in: reported also where the connection was reported as lost. */
const DENIED = /\b(?:WRONGPASS|NOAUTH|NOPERM)\b/;

class ForgetfulError extends Error {}

/** What an error of Redis, or of the way to it, says about the Redis. */
export function faultOf(error: unknown): RedisFault {
  if (error instanceof ForgetfulError) return 'forgets';
  return reasonOf(error).startsWith('OOM') ? 'full' : 'away';
}

/** What a Redis says of itself, as far as it tells what it may have lost; `-` and 0 where it does not. */
export interface RedisFacts {
  readonly runId: string;
  readonly replId: string;
  /** Of the primary that it was a replica of; zeros for none. */
  readonly replId2: string;
  /** How many keys it has evicted. */
  readonly evicted: number;
  /** Whether it had settings with which it evicts, since this was last asked. */
  readonly hasForgotten: boolean;
}

/** What a store needs of its Redis. */
export interface RedisLinkOptions {
  /** In the form of `REDIS_URL`. */
  readonly url: string;
  /** What the store keeps there, for messages. */
  readonly keeps: string;
  /** Whether what it has must survive a restart of Redis by itself: then what else to set than `appendonly yes`. */
  readonly needsFile: false | string;
  /** Writes something at each look: a Redis that has become a replica, or cannot write its disk, still answers. */
  readonly write: (connection: RedisConnection, facts: RedisFacts) => Promise<unknown>;
  /** How long a command of a call may take, in milliseconds; left out, as long as a look. */
  readonly callMs?: number | undefined;
  /** Milliseconds between two looks, ± a quarter; default 4,000. A look takes 5 s at most. */
  readonly lookMs?: number | undefined;
  /** Receives a warning if Redis does not tell its settings. */
  readonly log?: { warn(facts: object, message: string): void } | undefined;
  /** Called with a connection that may be used from now on. If it rejects, the Redis counts as away. */
  readonly onUp?: (connection: RedisConnection) => Promise<void>;
  /** Called when the Redis may not be used any more; then again only for another reason, or after {@link onBack}. */
  readonly onDown?: (error: Error, fault: RedisFault) => void;
  /** Called after {@link onUp} where the Redis could not be used before. */
  readonly onBack?: () => void;
}

/**
 * The way to one Redis that must not forget. It connects, looks every few seconds whether the settings are still as they
 * must be, and where the Redis cannot be used, connects anew every quarter of a second until it can.
 */
export class RedisLink {
  /** The address for messages, without credentials. */
  readonly place: string;
  // Only this class changes these.
  /** Why nothing may be sent: the first error, or that of the last try; `null` if something may. */
  error: Error | null = null;
  connection: RedisConnection | null = null;
  /** Replicas of the primary at the last look; `NaN` where it does not tell. */
  replicas = Number.NaN;
  readonly #options: RedisLinkOptions;
  #reported: string | null = null;
  #tellsSettings = true;
  #hasForgotten = false;
  #hasEnded = false;
  #pausing = new AbortController();

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    this.place = placeOf(options.url);
  }

  /** @throws Error if the Redis cannot be reached within 5 s, or may not be used; close the link then, too */
  async open(): Promise<RedisConnection> {
    const connection = await this.#connect();
    void this.#watch();
    return connection;
  }

  /** Sends a command of a call. @throws Error if there is no connection, or no answer in time */
  async send(key: string, command: readonly string[]): Promise<unknown> {
    if (this.connection === null) throw new Error('there is no connection');
    return rejectAfter(this.#options.callMs ?? CONNECT_TIMEOUT_MS, this.connection.send(key, command));
  }

  /** Says that the Redis cannot be used, after a failure that is certain to last. */
  fail(error: Error): void {
    if (this.#hasEnded) return;
    // It may be dead without an error, or lead to a server that is no longer the primary.
    this.connection?.destroy();
    this.connection = null;
    this.error = error;
    const fault = faultOf(error);
    const kind = DENIED.exec(reasonOf(error))?.[0] ?? fault;
    if (kind !== this.#reported) this.#options.onDown?.(error, fault);
    this.#reported = kind;
    this.#pausing.abort();
  }

  /** Does not wait for replies that are due. */
  close(): void {
    this.#hasEnded = true;
    this.#pausing.abort();
    this.connection?.destroy();
    this.connection = null;
  }

  async #watch(): Promise<void> {
    while (!this.#hasEnded) {
      const pauseMs = this.error === null ? (this.#options.lookMs ?? 4_000) : 250;
      const { signal } = (this.#pausing = new AbortController());
      // Jitter: instances that lost the same server must not all return to it at the same moment.
      const jitter = 0.75 + Math.random() / 2;
      await pause(pauseMs * jitter, undefined, { signal, ref: false }).catch(() => undefined);
      // A failure ended the pause: the first try comes after a pause, too.
      if (signal.aborted) continue;
      try {
        if (this.connection !== null) await this.#look(this.connection);
        else {
          await this.#connect();
          this.#reported = null;
          this.#options.onBack?.();
        }
      } catch (error) {
        this.fail(error as Error);
      }
    }
  }

  async #connect(): Promise<RedisConnection> {
    const connection = await connectRedis(this.#options.url);
    this.connection = connection;
    if (this.#hasEnded) {
      this.close();
      throw new Error('the store is closed');
    }
    await this.#look(connection);
    connection.onLost = (error) => {
      if (connection === this.connection && !connection.isCluster) this.fail(error);
    };
    this.error = null;
    await this.#options.onUp?.(connection);
    if (this.connection !== connection) throw new Error('the connection was lost');
    return connection;
  }

  /**
   * Looks at what Redis says of its settings and memory (INFO, since many providers refuse CONFIG). Then it writes.
   *
   * @throws Error if it may forget something, is full, does not answer, or takes nothing
   */
  async #look(connection: RedisConnection): Promise<void> {
    const { log, write, callMs = CONNECT_TIMEOUT_MS, keeps, needsFile } = this.#options;
    const infos = await connection.info();
    const valuesOf = (name: string) =>
      infos.map((info) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info ?? '')?.[1]);
    const policies = valuesOf('maxmemory_policy');
    const evicting = policies.find((policy) => policy !== undefined && policy !== 'noeviction');
    this.#hasForgotten ||= evicting !== undefined;
    if (evicting !== undefined)
      throw new ForgetfulError(
        `${this.place} has the maxmemory-policy ${evicting}, expected noeviction: it may forget ${keeps}; ` +
          'set `maxmemory-policy noeviction` in its configuration, or use a separate Redis for this',
      );
    const appending = needsFile === false ? [] : valuesOf('aof_enabled');
    if (appending.includes('0'))
      throw new ForgetfulError(
        `${this.place} keeps ${keeps} in memory only and would forget them when it restarts; ` +
          `set \`appendonly yes\` in its configuration, or ${needsFile}`,
      );
    // The rule by which Redis refuses a write (OOM): buffers for replicas do not count.
    const names = ['maxmemory', 'used_memory', 'mem_not_counted_for_evict'];
    const [limits = [], used = [], others = []] = names.map((name) => valuesOf(name).map(Number));
    const isFull = (limit: number, at: number) => limit > 0 && Number(used[at]) - Number(others[at]) > limit;
    if (limits.length > 0 && limits.every(isFull)) throw new Error('OOM it has reached its maxmemory');
    const tells = ![...policies, ...appending].includes(undefined);
    if (!tells && this.#tellsSettings)
      log?.warn(
        {},
        `${this.place} does not tell its settings: without noeviction and appendonly it may forget ${keeps}`,
      );
    this.#tellsSettings = tells;
    // Of a cluster, this would ask one node.
    if (connection.isCluster) return;
    this.replicas = Number(valuesOf('connected_slaves')[0]);
    const said = (name: string) => valuesOf(name)[0] ?? '-';
    const facts: RedisFacts = {
      runId: said('run_id'),
      replId: said('master_replid'),
      replId2: said('master_replid2'),
      evicted: Number(valuesOf('evicted_keys')[0] ?? 0),
      hasForgotten: this.#hasForgotten,
    };
    await rejectAfter(CONNECT_TIMEOUT_MS, write(connection, facts));
    this.#hasForgotten = false;
    // Otherwise a Redis that is back, but too slow for calls, would be given up and taken again and again.
    for (let probe = 0; this.error !== null && probe < PROBES; probe++)
      await rejectAfter(callMs, write(connection, { ...facts, hasForgotten: false }));
  }
}
