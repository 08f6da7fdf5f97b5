import type { RedisConnection } from '../../redis/connection.js';
import { readMemory } from '../../redis/memory.js';
import type { RevocationLog } from '../observer.js';

/**
 * Refuses a Redis whose settings would let it lose revocations or leases.
 *
 * @param isEachNeeded whether each primary of a cluster must answer. Otherwise one is enough.
 * @returns whether Redis tells these settings
 * @throws Error saying what to set
 */
export async function checkRedis(
  connection: RedisConnection,
  minReplicas: number,
  isEachNeeded: boolean,
): Promise<boolean> {
  const { evictingPolicy, isPolicyKnown } = await readMemory(connection, isEachNeeded);
  if (evictingPolicy !== null) {
    throw new Error(
      `its maxmemory-policy is ${evictingPolicy}, expected noeviction: it may forget revocations; ` +
        'set `maxmemory-policy noeviction` in its configuration, or use a separate Redis for revocations',
    );
  }
  const infos = await connection.info('persistence', isEachNeeded);
  const appending = infos.map((info) => /^aof_enabled:(\d)/m.exec(info ?? '')?.[1] ?? null);
  if (minReplicas === 0 && appending.includes('0')) {
    throw new Error(
      'it keeps revocations in memory only and would forget them when it restarts; ' +
        'set `appendonly yes` in its configuration, or REVOCATION_MIN_REPLICAS to 1 or more if it has replicas',
    );
  }
  return isPolicyKnown && !appending.includes(null);
}

/** Checks a Redis before it is used, and warns if it does not tell its settings. */
export async function checkRedisFirst(
  connection: RedisConnection,
  minReplicas: number,
  log: RevocationLog,
): Promise<void> {
  if (await checkRedis(connection, minReplicas, true)) return;
  log.warn(
    {},
    'Redis does not tell its maxmemory-policy or whether it keeps an append-only file: make sure that they are noeviction ' +
      'and `appendonly yes`, or revocations may be forgotten',
  );
}
