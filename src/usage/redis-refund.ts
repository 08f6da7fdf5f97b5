import { FOREIGN_COUNTER, runScript, scriptOf, type Send } from './redis-script.js';
import { REFUND_SECS, ReplayStoreError, type Refund } from './usage-store.js';

/**
 * Gives back what a call was charged: everything, or nothing. The record of the invocation says what that was, and keeps its
 * life. All is read before anything is written.
 *
 * KEYS: the record of the invocation; the counters that it was charged to. ARGV: the micro-dollars to give back (-1: all, and
 * the call), the seconds since the call within which it may be.
 *
 * A counter that has ended is not made anew. Amounts stay texts for HINCRBY, since Lua writes large numbers with an `e`.
 */
const REFUND = scriptOf(`
local found = redis.pcall('GET', KEYS[1])
if type(found) ~= 'string' then return {'unknown'} end
local state, at, charged = string.match(found, '^([cr])(%d+):(%d+)$')
if not state then return {'unknown'} end
if state == 'r' then return {'again'} end
if math.abs(redis.call('TIME')[1] - at) > tonumber(ARGV[2]) then return {'late'} end
local isWhole = ARGV[1] == '-1'
local amount = isWhole and charged or ARGV[1]
if tonumber(amount) > tonumber(charged) then return {'above', charged} end
local back = {}
for i = 2, #KEYS do
  local counter = redis.pcall('HMGET', KEYS[i], 'calls', 'micro_usd')
  if counter.err then return {'foreign'} end
  local calls, used = counter[1], counter[2]
  if calls or used then
    if not tonumber(calls or '') or not tonumber(used or '') then return {'foreign'} end
    if isWhole and tonumber(calls) > 0 then table.insert(back, {KEYS[i], 'calls', '-1'}) end
    local money = tonumber(amount) <= tonumber(used) and amount or used
    if tonumber(money) > 0 then table.insert(back, {KEYS[i], 'micro_usd', '-' .. money}) end
  end
end
redis.call('SETRANGE', KEYS[1], 0, 'r')
for _, step in ipairs(back) do redis.call('HINCRBY', step[1], step[2], step[3]) end
return {'refunded', amount}
`);

/**
 * Gives back what a call was charged, in one round trip.
 *
 * @param send sends a command to the server that has the keys
 * @param record the name of the invocation
 * @param counters the names of the counters that it was charged to
 * @param microUsd how much of the cost; `null`: all of it, and the call
 * @returns an error if Redis answers and cannot tell
 * @throws what `send` throws
 */
export async function refundInRedis(
  send: Send,
  record: string,
  counters: readonly string[],
  microUsd: number | null,
): Promise<Refund | ReplayStoreError> {
  const values = [String(microUsd ?? -1), String(REFUND_SECS)];
  const answer = await runScript(send, REFUND, [record, ...counters], values);
  const [kind, amount] = Array.isArray(answer) ? (answer as unknown[]) : [];
  if (kind === 'unknown' || kind === 'again' || kind === 'late') return { kind };
  if (kind === 'above') return { kind, chargedMicroUsd: Number(amount) };
  if (kind === 'refunded') return { kind, calls: microUsd === null ? 1 : 0, microUsd: Number(amount) };
  return new ReplayStoreError(FOREIGN_COUNTER);
}
