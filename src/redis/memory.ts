import type { RedisConnection } from './connection.js';

/** What the primaries of a Redis say about their memory. */
export interface RedisMemory {
  /** A maxmemory-policy that lets a primary evict keys; `null` if none has one. */
  readonly evictingPolicy: string | null;
  /** Whether each primary names its policy. Some providers refuse INFO. */
  readonly isPolicyKnown: boolean;
  /** Whether all of them have reached their maxmemory. With `noeviction` they then refuse writes. */
  readonly isFull: boolean;
}

/**
 * Reads what Redis says about its memory. Asks INFO, since many providers refuse CONFIG.
 *
 * @param isEachNeeded as for `RedisConnection.info`
 * @throws Error if Redis does not answer
 */
export async function readMemory(connection: RedisConnection, isEachNeeded: boolean): Promise<RedisMemory> {
  const infos = await connection.info('memory', isEachNeeded);
  const policies = infos.map((info) => /^maxmemory_policy:(\S+)/m.exec(info ?? '')?.[1] ?? null);
  return {
    evictingPolicy: policies.find((policy) => policy !== null && policy !== 'noeviction') ?? null,
    isPolicyKnown: policies.length > 0 && !policies.includes(null),
    isFull: infos.length > 0 && infos.every((info) => info !== null && isFull(info)),
  };
}

/** The rule by which Redis refuses a write: buffers for replicas do not count. */
function isFull(info: string): boolean {
  const read = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const limit = read('maxmemory');
  return limit > 0 && read('used_memory') - read('mem_not_counted_for_evict') > limit;
}
