import { readFileSync } from 'node:fs';
import { endianness } from 'node:os';
import { performance } from 'node:perf_hooks';
import { clientOf } from './rate-limit.js';

const PATHS = ['/proc/self/net/tcp', '/proc/self/net/tcp6'] as const;
const MIN_PAUSE_MS = 1000;
/** Looking takes at most one part in so many of the time: the table of a busy machine has many thousand lines. */
const PAUSE_FACTOR = 20;

/** How many connections each client has. */
export interface Census {
  readonly total: number;
  /** By {@link clientOf}. */
  readonly byClient: Map<string, number>;
}

/**
 * Tells how many connections a client holds. Counting them here is not possible: when a connection ends,
 * uWebSockets.js does not say whose it was. So this looks into the kernel's table, at most once a second, and counts the
 * new connections in between.
 */
export class Holders {
  readonly #look: () => Census | null;
  readonly #now: () => number;
  #byClient = new Map<string, number>();
  #nextLookAt = -Infinity;

  /** @param now milliseconds of a monotonic clock */
  constructor(look: () => Census | null, now = () => performance.now()) {
    this.#look = look;
    this.#now = now;
  }

  /**
   * About how many connections this client holds; 0 if the system does not tell.
   *
   * @param open the number of all connections. The table also has those of other processes on the same port, and those
   *   that no process has accepted yet. So only the client's part of the table counts.
   */
  heldBy(client: string, open: number): number {
    const startedAt = this.#now();
    if (startedAt >= this.#nextLookAt) {
      const census = this.#look();
      this.#byClient = census?.byClient ?? new Map<string, number>();
      for (const [each, count] of this.#byClient)
        this.#byClient.set(each, (count * open) / (census?.total ?? 1));
      const now = this.#now();
      this.#nextLookAt = now + Math.max(MIN_PAUSE_MS, PAUSE_FACTOR * (now - startedAt));
    }
    return this.#byClient.get(client) ?? 0;
  }

  /** Counts a new connection. Call it only right after {@link heldBy}, so that what is counted stays bounded. */
  add(client: string): void {
    this.#byClient.set(client, (this.#byClient.get(client) ?? 0) + 1);
  }
}

/** Counts the connections to a port of this machine. `null` if the system does not tell (it is not Linux). */
export function censusOf(port: number): Census | null {
  const census: Census = { total: 0, byClient: new Map() };
  try {
    for (const path of PATHS) countIn(readFileSync(path, 'latin1'), port, census);
  } catch {
    return null;
  }
  return census;
}

/** Counts the established connections to a port in the text of `/proc/net/tcp` or `tcp6`. */
export function countIn(
  text: string,
  port: number,
  census: { total: number; byClient: Map<string, number> },
): void {
  const local = port.toString(16).toUpperCase().padStart(4, '0');
  // Local address, remote address, and state: established, or closed by the client alone.
  const lines = new RegExp(`: [0-9A-F]+:${local} ([0-9A-F]+):[0-9A-F]{4} (?:01|08) `, 'g');
  for (const [, address = ''] of text.matchAll(lines)) {
    const client = clientOf(readAddress(address));
    census.byClient.set(client, (census.byClient.get(client) ?? 0) + 1);
    census.total++;
  }
}

/** Reads an address of the table: words of 32 bits in the byte order of the machine. */
function readAddress(hex: string): string {
  const words = hex.match(/.{8}/g) ?? [];
  const bytes = words.flatMap((word) => {
    const ofWord = [...Buffer.from(word, 'hex')];
    return endianness() === 'LE' ? ofWord.reverse() : ofWord;
  });
  if (bytes.length === 4) return bytes.join('.');
  return Buffer.from(bytes).toString('hex').match(/.{4}/g)?.join(':') ?? '';
}
