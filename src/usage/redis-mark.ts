import { randomUUID } from 'node:crypto';
import type { RedisConnection } from '../redis/connection.js';

/**
 * Reads the mark and writes it anew, at each look. It says which Redis wrote last and when, and since when something may be lost:
 * what this process saw a moment ago must still be there.
 *
 * KEYS: the mark. ARGV: its name as this process knows it (empty: not yet), when it saw it last by the clock of Redis, since when
 * counters are lost as far as it was told; its own clock, the run id of the Redis, and a new name. Times in Unix seconds.
 */
const LOOK = `
local pattern = '^(%S+) (%d+) (%S+) (%d+) (%d+)$'
local name, time, run, lostAt, emptiedAt = string.match(redis.call('GET', KEYS[1]) or '', pattern)
if not name then name, time, run, lostAt, emptiedAt = ARGV[6], '0', ARGV[5], '0', '0' end
local isOld = tonumber(time) + 10 < tonumber(ARGV[2])
if ARGV[1] ~= '' and (isOld or (name ~= ARGV[1] and emptiedAt == ARGV[3])) then
  lostAt, emptiedAt = ARGV[4], ARGV[4]
elseif run ~= ARGV[5] then
  lostAt = ARGV[4]
end
local now = redis.call('TIME')[1]
if tonumber(now) > tonumber(time) then time = now end
redis.call('SET', KEYS[1], table.concat({name, time, ARGV[5], lostAt, emptiedAt}, ' '))
return {name, time, lostAt, emptiedAt}
`;

/** What a Redis has lost, in Unix seconds by the clock of this process; 0 if nothing is known to be. */
export interface Lost {
  /** Invocations that were used before may not be on record: the last ones, or all. */
  readonly lostAt: number;
  /** Before that, counters may say less than was used: the mark was gone, or an old copy of the data was loaded. */
  readonly emptiedAt: number;
}

/**
 * A mark in a Redis by which its users see that it has lost data. A Redis that was restarted, or replaced by a replica, has lost
 * what it recorded last, and nothing in it says so. One that was emptied looks like a new one.
 */
export class RedisMark implements Lost {
  // Only this class changes these.
  lostAt = 0;
  emptiedAt = 0;
  readonly #key: string;
  readonly #onLost: (lost: Lost) => void;
  /** The name that it got when it was made; empty before the first look. */
  #name = '';
  /** When it was written last by the clock of Redis. */
  #seenAt = 0;
  /** What it says, by the clocks of those who found a loss, which may be wrong. */
  readonly #told: { lostAt: number; emptiedAt: number } = { lostAt: 0, emptiedAt: 0 };

  /** @param onLost called once for each loss that this process finds, or that another finds while it runs */
  constructor(key: string, onLost: (lost: Lost) => void) {
    this.#key = key;
    this.#onLost = onLost;
  }

  /** Looks at it. @param runId of the Redis, as INFO tells it */
  async look(connection: RedisConnection, runId: string): Promise<void> {
    const now = Math.floor(Date.now() / 1000);
    const known = [this.#name, this.#seenAt, this.#told.emptiedAt, now, runId, randomUUID()];
    const command = ['EVAL', LOOK, '1', this.#key, ...known.map(String)];
    const [name = '', ...times] = (await connection.send(this.#key, command)) as readonly string[];
    const [seenAt = 0, lostAt = 0, emptiedAt = 0] = times.map(Number);
    const isFirst = this.#name === '';
    // What others have found before this process began is old news.
    const isNews = isFirst
      ? lostAt === now
      : lostAt !== this.#told.lostAt || emptiedAt !== this.#told.emptiedAt;
    const atOf = (told: number) => (isFirst ? Math.min(told, now) : now);
    if (lostAt !== this.#told.lostAt) this.lostAt = atOf(lostAt);
    if (emptiedAt !== this.#told.emptiedAt) this.emptiedAt = atOf(emptiedAt);
    Object.assign(this.#told, { lostAt, emptiedAt });
    [this.#name, this.#seenAt] = [name, seenAt];
    if (isNews) this.#onLost(this);
  }
}
