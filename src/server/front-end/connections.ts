import { readFileSync, readdirSync } from 'node:fs';
import type { Logger } from 'pino';

// Kept free for files, sockets to Redis and to the status list, and the pipes of threads.
const RESERVED_DESCRIPTORS = 32;
const LOG_PAUSE_MS = 10_000;

/**
 * Counts connections and refuses those above the limit. A process without a free file descriptor cannot even refuse a
 * connection: its event loop then spins and uses a whole core until a connection closes.
 */
export class Connections {
  readonly limit: number;
  readonly #log: Logger;
  #open = 0;
  #accepted = 0;
  #refused = 0;
  #loggedAt = -Infinity;

  constructor(limit: number, log: Logger) {
    this.limit = limit;
    this.#log = log;
  }

  /** Number of open connections. */
  get open(): number {
    return this.#open;
  }

  /** Number of connections so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Number of connections that were closed at once because there were too many. */
  get refused(): number {
    return this.#refused;
  }

  /** Counts a new connection. @returns false if it must be closed */
  opened(): boolean {
    this.#open++;
    this.#accepted++;
    if (this.#open <= this.limit) return true;
    this.#refused++;
    const now = performance.now();
    if (now - this.#loggedAt >= LOG_PAUSE_MS) {
      this.#loggedAt = now;
      this.#log.warn(
        { open: this.#open, limit: this.limit, refused: this.#refused },
        'too many connections: further ones are closed at once; raise MAX_CONNECTIONS, or the limit of open files',
      );
    }
    return false;
  }

  /** Counts the end of a connection. */
  closed(): void {
    this.#open--;
  }
}

/**
 * The number of connections that this process can hold open: its limit of open files, less those open already. Infinity
 * if the system does not tell the limit.
 */
export function maxConnectionsHere(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'latin1');
    const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? [];
    if (soft === undefined) return Infinity;
    return Math.max(1, Number(soft) - readdirSync('/proc/self/fd').length - RESERVED_DESCRIPTORS);
  } catch {
    return Infinity;
  }
}
