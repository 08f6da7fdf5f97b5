import { createHash } from 'node:crypto';
import type { RedisLink } from '../redis/link.js';
import { runScript, scriptOf } from '../redis/script.js';
import type { ReachedLimit } from '../verify/limits.js';
import { KEPT_UNUSED_SECS, SPARE_SECS, findReached } from './counters.js';
import { NEW, REPLAYED, ReplayStoreError } from './usage-store.js';
import type { Charge, Refund, Usage, Use } from './usage-store.js';

/** Reads a counter. Nothing where it is none: only whole numbers can be changed, and Redis keeps what was written before. */
const READ = `
local function read(key)
  local found = redis.pcall('HMGET', key, 'calls', 'micro_usd')
  if found.err then return nil end
  local calls, used = found[1] or '0', found[2] or '0'
  if calls:find('%D') or used:find('%D') then return nil end
  return tonumber(calls), tonumber(used)
end
`;

/**
 * Uses an invocation and charges its call: all or nothing. It reads all before it writes, since Redis keeps what a failed script wrote.
 *
 * KEYS: the record to make of the invocation; a counter for each limit. ARGV: the life of the record in ms, the cost, the life
 * of an unused counter without an end in ms; and for each limit: calls, micro-dollars (-1: not limited), the end of the
 * counter in Unix ms (-1: none). With `new` and `reached` comes what each counter says, up to the limit that is reached.
 *
 * Integers up to 2^53 are exact in Lua. It gets the cost as a text for HINCRBY, since it writes large numbers with an `e`.
 */
const CHARGE = scriptOf(`${READ}
if redis.call('EXISTS', KEYS[1]) == 1 then return {'replayed'} end
local cost, time = tonumber(ARGV[2]), redis.call('TIME')[1] * 1000
local answer = {'reached'}
for i = 2, #KEYS do
  local ends = tonumber(ARGV[3 * i])
  if ends >= 0 and ends <= time then return {'ended'} end
  local calls, used = read(KEYS[i])
  if not calls or not used then return {'foreign'} end
  table.insert(answer, calls)
  table.insert(answer, used)
  local maxCalls, max = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1])
  if (maxCalls >= 0 and calls >= maxCalls) or (max >= 0 and cost > max - used) then return answer end
end
answer = {'new'}
for i = 2, #KEYS do
  local key, ends = KEYS[i], ARGV[3 * i]
  table.insert(answer, redis.call('HINCRBY', key, 'calls', 1))
  table.insert(answer, redis.call('HINCRBY', key, 'micro_usd', ARGV[3 * i - 1] == '-1' and 0 or ARGV[2]))
  if ends == '-1' then redis.call('PEXPIRE', key, ARGV[3]) else redis.call('PEXPIREAT', key, ends) end
end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return answer
`);

/**
 * Gives back what a call was charged: all or nothing. INCR keeps the life of the record. It writes first: a full Redis refuses it.
 *
 * KEYS: the record of the invocation, a counter for each limit. ARGV: the calls, and the micro-dollars for each limit.
 */
const REFUND = scriptOf(`${READ}
local record = redis.pcall('GET', KEYS[1])
if record == '2' then return 'repeated' end
if record ~= '1' then return 'unknown' end
for i = 2, #KEYS do
  local calls, used = read(KEYS[i])
  if not calls or not used then return 'unknown' end
  if calls < tonumber(ARGV[1]) or used < tonumber(ARGV[i]) then return 'unknown' end
end
redis.call('INCR', KEYS[1])
for i = 2, #KEYS do
  if ARGV[1] ~= '0' then redis.call('HINCRBY', KEYS[i], 'calls', '-' .. ARGV[1]) end
  if ARGV[i] ~= '0' then redis.call('HINCRBY', KEYS[i], 'micro_usd', '-' .. ARGV[i]) end
end
return 'refunded'
`);

/**
 * The version of the names of keys. Whoever changes what a name looks like, or what a key of `replayKey` stands for,
 * raises it, and lets both names count for a while: otherwise an upgrade accepts every replay.
 */
const VERSION = 1;

const DIGEST_BYTES = 16;

/** A later end counts as none: Redis refuses times that are too far away. The year 5138. */
const MAX_END_SECS = 1e11;

/** Used invocations and counters, as they are in Redis: which names are read and written, in one round trip. */
export class RedisRecords {
  readonly #link: RedisLink;
  readonly #prefix: string;

  constructor(link: RedisLink, prefix: string) {
    this.#link = link;
    this.#prefix = prefix;
  }

  /** Records an invocation. Its name has a fixed length, and a caller cannot choose its node in a cluster. */
  async record(key: string, ttlMs: number): Promise<Use> {
    const name = `${this.#prefix}${VERSION}:${digestOf(key)}`;
    const answer = await this.#link.send(name, ['SET', name, '1', 'PX', String(ttlMs), 'NX']);
    return answer === 'OK' ? NEW : REPLAYED;
  }

  /**
   * Records an invocation under limited receipts and charges its call.
   *
   * @throws ReplayStoreError if Redis answers and cannot tell: this call is refused, and others are not concerned
   */
  async charge(key: string, ttlMs: number, charge: Charge): Promise<Use> {
    const { limits, costMicroUsd } = charge;
    const numbers = [ttlMs, costMicroUsd, KEPT_UNUSED_SECS * 1000];
    for (const { maxCalls, maxTotalMicroUsd, exp } of limits) {
      const endMs = exp === null || exp > MAX_END_SECS ? -1 : (exp + SPARE_SECS) * 1000;
      numbers.push(maxCalls ?? -1, maxTotalMicroUsd ?? -1, endMs);
    }
    const answer = await runScript(this.#link, CHARGE, this.#keysOf(key, limits), numbers);
    const [kind, ...values] = answer as [string, ...number[]];
    if (kind === 'replayed') return REPLAYED;
    if (kind === 'ended')
      throw new ReplayStoreError('a receipt that is valid here ended two hours ago by the clock of Redis');
    if (kind === 'foreign')
      throw new ReplayStoreError('Redis has something else under the name of a counter');
    const usage = limits.map((_, at): Usage => {
      return { calls: Number(values[2 * at]), microUsd: Number(values[2 * at + 1]) };
    });
    if (kind === 'new') return { kind, usage };
    return { kind: 'reached', limit: findReached(charge, usage) as ReachedLimit };
  }

  async refund(key: string, { calls, parts }: Refund): Promise<'refunded' | 'repeated' | 'unknown'> {
    const numbers = [calls, ...parts.map(({ microUsd }) => microUsd)];
    const answer = await runScript(this.#link, REFUND, this.#keysOf(key, parts), numbers);
    return answer === 'refunded' || answer === 'repeated' ? answer : 'unknown';
  }

  /** The name of a counter begins with its chain, which is not known here: only the first of a chain is found without a search. */
  async usageOf(receipt: string): Promise<Usage | null> {
    const end = counterEndOf(receipt);
    const first = await this.#read(this.#chainOf(receipt) + end);
    if (first !== null) return first;
    const prefix = this.#prefix.replaceAll(/[*?[\]\\^-]/g, '\\$&');
    const name = await this.#link.connection?.find(`${prefix}${VERSION}:{*}${end}`);
    return name === undefined ? null : this.#read(name);
  }

  /** The names of an invocation under limited receipts, and of their counters. */
  #keysOf(key: string, limited: readonly { readonly receipt: string }[]): string[] {
    const chain = this.#chainOf(limited[0]?.receipt ?? '');
    return [`${chain}:${digestOf(key)}`, ...limited.map(({ receipt }) => chain + counterEndOf(receipt))];
  }

  /**
   * How all names of a limited chain begin: on a cluster, a script reaches the keys of one slot only, and `{…}` says which.
   *
   * @param first the digest of the first limited receipt of the chain, so that the nodes of a cluster share the chains
   */
  #chainOf(first: string): string {
    return `${this.#prefix}${VERSION}:{${digestOf(first)}}`;
  }

  async #read(counter: string): Promise<Usage | null> {
    const found = await this.#link.send(counter, ['HMGET', counter, 'calls', 'micro_usd']);
    const [calls, microUsd] = found as [string | null, string | null];
    return calls === null ? null : { calls: Number(calls), microUsd: Number(microUsd) };
  }
}

/**
 * A digest takes less memory than the key, and keeps callers, who choose the `jti`, from choosing the node of a cluster with `{…}`.
 * With 128 bits, nobody can make an invocation that has the digest of another, which would be refused as a replay.
 */
function digestOf(key: string): string {
  return createHash('sha256').update(key).digest().toString('base64url', 0, DIGEST_BYTES);
}

/** The whole digest: somebody may look for a receipt by it. */
function counterEndOf(receipt: string): string {
  return `#${receipt.slice('sha256:'.length)}`;
}
