import { createHash } from 'node:crypto';
import type { CountedLimits, ReachedLimit } from '../verify/limits.js';
import { KEPT_UNUSED_SECS, SPARE_SECS } from './counters.js';
import { REPLAYED, ReplayStoreError, type Charge, type Refund, type Usage, type Use } from './usage-store.js';

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
 * Uses an invocation and charges its call: everything, or nothing. All is read before anything is written, since Redis
 * keeps what a script wrote before it failed.
 *
 * KEYS: the record to make of the invocation; a counter for each limit. ARGV: the life of the record in ms, the cost, the life
 * of an unused counter without an end in ms; and for each limit: calls, micro-dollars (-1: not limited), the end of the
 * counter in Unix ms (-1: none).
 *
 * Integers up to 2^53 are exact in Lua. It gets the cost as a text for HINCRBY, since it writes large numbers with an `e`.
 */
const SCRIPT = `${READ}
if redis.call('EXISTS', KEYS[1]) == 1 then return {'replayed'} end
local cost, time = tonumber(ARGV[2]), redis.call('TIME')[1] * 1000
for i = 2, #KEYS do
  local ends = tonumber(ARGV[3 * i])
  if ends >= 0 and ends <= time then return {'ended'} end
  local calls, used = read(KEYS[i])
  if not calls or not used then return {'foreign'} end
  local maxCalls, max = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1])
  if maxCalls >= 0 and calls >= maxCalls then return {'reached', i - 1, 'max_calls', calls} end
  if max >= 0 and cost > max - used then return {'reached', i - 1, 'max_total_cost_usd', used} end
end
local answer = {'new'}
for i = 2, #KEYS do
  local key, ends = KEYS[i], ARGV[3 * i]
  table.insert(answer, redis.call('HINCRBY', key, 'calls', 1))
  table.insert(answer, redis.call('HINCRBY', key, 'micro_usd', ARGV[3 * i - 1] == '-1' and 0 or ARGV[2]))
  if ends == '-1' then redis.call('PEXPIRE', key, ARGV[3]) else redis.call('PEXPIREAT', key, ends) end
end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return answer
`;

/**
 * Gives back what a call was charged: everything, or nothing. INCR keeps the life of the record, and is the first write, which
 * a full Redis refuses.
 *
 * KEYS: the record of the invocation, a counter for each limit. ARGV: the calls, and the micro-dollars for each limit.
 */
const REFUND = `${READ}
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
`;

/** Sends a command to the server that has the keys. */
type Send = (command: readonly string[]) => Promise<unknown>;

/** Later ends are none: Redis refuses times that are too far away. The year 5138. */
const MAX_END_SECS = 1e11;

/**
 * Uses an invocation and charges its call, in one round trip.
 *
 * @param record the name of the invocation
 * @param counters the name of the counter of each limit
 * @returns an error if Redis answers and cannot tell: this call is refused, and others are not concerned
 * @throws what `send` throws
 */
export async function chargeInRedis(
  send: Send,
  charge: Charge,
  record: string,
  counters: readonly string[],
  ttlMs: number,
): Promise<Use | ReplayStoreError> {
  const numbers = [ttlMs, charge.costMicroUsd, KEPT_UNUSED_SECS * 1000];
  for (const { maxCalls, maxTotalMicroUsd, exp } of charge.limits)
    numbers.push(maxCalls ?? -1, maxTotalMicroUsd ?? -1, endMsOf(exp));
  const answer = await run(send, CHARGE, [record, ...counters], numbers);
  const [kind, ...values] = Array.isArray(answer) ? (answer as readonly unknown[]) : [];
  const { limits } = charge;
  if (kind !== 'new' || values.length !== 2 * limits.length) return readRefusal(kind, values, charge);
  const usage = limits.map((_, at): Usage => {
    return { calls: Number(values[2 * at]), microUsd: Number(values[2 * at + 1]) };
  });
  return { kind, usage };
}

/**
 * Gives back what a call was charged, in one round trip.
 *
 * @param record of the invocation
 * @param counters for each part
 * @throws what `send` throws
 */
export async function refundInRedis(
  send: Send,
  { calls, parts }: Refund,
  record: string,
  counters: readonly string[],
): Promise<'refunded' | 'repeated' | 'unknown'> {
  const answer = await run(
    send,
    GIVE_BACK,
    [record, ...counters],
    [calls, ...parts.map((part) => part.microUsd)],
  );
  return answer === 'refunded' || answer === 'repeated' ? answer : 'unknown';
}

/** Runs a script, by its digest if Redis knows it. */
async function run(
  send: Send,
  { text, sha1 }: Script,
  keys: readonly string[],
  numbers: readonly number[],
): Promise<unknown> {
  const rest = [String(keys.length), ...keys, ...numbers.map(String)];
  try {
    return await send(['EVALSHA', sha1, ...rest]);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return send(['EVAL', text, ...rest]);
  }
}

interface Script {
  readonly text: string;
  readonly sha1: string;
}

function scriptOf(text: string): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}

const [CHARGE, GIVE_BACK] = [scriptOf(SCRIPT), scriptOf(REFUND)];

function endMsOf(exp: number | null): number {
  return exp === null || exp > MAX_END_SECS ? -1 : (exp + SPARE_SECS) * 1000;
}

function readRefusal(
  kind: unknown,
  values: readonly unknown[],
  { limits, costMicroUsd }: Charge,
): Use | ReplayStoreError {
  if (kind === 'replayed') return REPLAYED;
  const limit = limits[Number(values[0]) - 1];
  if (kind === 'reached' && limit !== undefined)
    return {
      kind,
      limit: reached(limit, values[1] === 'max_calls', Number(values[2]), costMicroUsd),
    };
  return new ReplayStoreError(
    kind === 'ended'
      ? 'a receipt that is valid here ended two hours ago by the clock of Redis'
      : 'Redis has something else under the name of a counter',
  );
}

function reached(
  { level, maxCalls, maxTotalMicroUsd, exp }: CountedLimits,
  isOfCalls: boolean,
  used: number,
  cost: number,
): ReachedLimit {
  return isOfCalls
    ? { level, member: 'max_calls', limit: maxCalls ?? 0, used, asked: 1, exp }
    : { level, member: 'max_total_cost_usd', limit: maxTotalMicroUsd ?? 0, used, asked: cost, exp };
}
