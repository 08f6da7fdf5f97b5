import type { RedisConnection } from '../redis/connection.js';

/**
 * Reads the mark and writes it anew, at each look. It says which Redis wrote last and when, and since when something may be lost:
 * what this process saw a moment ago must still be there.
 *
 * KEYS: the mark. ARGV: when this process saw it last by the clock of Redis (0: never), since when counters are lost as far as it
 * knows, its clock, and the run id of the Redis. Times in Unix seconds.
 */
const LOOK = `
local pattern = '^(%d+) (%S+) (%d+) (%d+)$'
local time, run, lostAt, emptiedAt = string.match(redis.call('GET', KEYS[1]) or '', pattern)
local now, seen = redis.call('TIME')[1], tonumber(ARGV[1])
if not time then
  time, lostAt, emptiedAt = '0', '0', '0'
  if seen > 0 then lostAt, emptiedAt = ARGV[3], ARGV[3] end
elseif tonumber(time) + 10 < seen and tonumber(emptiedAt) <= tonumber(ARGV[2]) then
  lostAt, emptiedAt = ARGV[3], ARGV[3]
elseif run ~= ARGV[4] then
  lostAt = ARGV[3]
end
if tonumber(now) > tonumber(time) then time = now end
redis.call('SET', KEYS[1], table.concat({time, ARGV[4], lostAt, emptiedAt}, ' '))
return {time, lostAt, emptiedAt}
`;

/** What a Redis has lost, in Unix seconds; 0 if nothing is known to be. */
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
  readonly #name: string;
  readonly #onLost: (lost: Lost) => void;
  /** When it was written last by the clock of Redis. */
  #seenAt = 0;

  /** @param onLost called once for each loss that this process finds, or that another finds while it runs */
  constructor(name: string, onLost: (lost: Lost) => void) {
    this.#name = name;
    this.#onLost = onLost;
  }

  /** Looks at it. @param runId of the Redis, as INFO tells it */
  async look(connection: RedisConnection, runId: string): Promise<void> {
    const now = Math.floor(Date.now() / 1000);
    const values = [this.#seenAt, this.emptiedAt, now, runId].map(String);
    const answer = await connection.send(this.#name, ['EVAL', LOOK, '1', this.#name, ...values]);
    const [seenAt = 0, lostAt = 0, emptiedAt = 0] = (answer as readonly string[]).map(Number);
    // What others have found before this process began is old news.
    const isNews = this.#seenAt === 0 ? lostAt === now : lostAt > this.lostAt || emptiedAt > this.emptiedAt;
    this.#seenAt = seenAt;
    this.lostAt = Math.max(lostAt, this.lostAt);
    this.emptiedAt = Math.max(emptiedAt, this.emptiedAt);
    if (isNews) this.#onLost(this);
  }
}
