import { readFileSync, readdirSync } from 'node:fs';
import type { Logger } from 'pino';

// Beside connections a service opens files, sockets to Redis and to the status list, and pipes of its threads.
const SPARE_DESCRIPTORS = 32;
const LOG_PAUSE_MS = 10_000;

/**
 * Counts connections and turns away what is more than the limit. A process that has no descriptor left cannot even
 * refuse a connection: its loop then turns without a pause, taking a core, until one is closed.
 */
export class Connections {
  readonly limit: number;
  readonly #log: Logger;
  #open = 0;
  #refused = 0;
  #loggedAt = -Infinity;

  constructor(limit: number, log: Logger) {
    this.limit = limit;
    this.#log = log;
  }

  /** Connections that are open. */
  get open(): number {
    return this.#open;
  }

  /** Connections that were closed at once because there were too many. */
  get refused(): number {
    return this.#refused;
  }

  /** Counts a connection that has come. @returns false where it has to be closed */
  opened(): boolean {
    this.#open++;
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

  /** Counts a connection that has gone. */
  closed(): void {
    this.#open--;
  }
}

/**
 * How many connections this process can hold open, from its limit of open files and what it has open already; Infinity
 * where the system does not tell.
 */
export function maxConnectionsHere(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'latin1');
    const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? [];
    if (soft === undefined) return Infinity;
    return Math.max(1, Number(soft) - readdirSync('/proc/self/fd').length - SPARE_DESCRIPTORS);
  } catch {
    return Infinity;
  }
}
