import type { RedisConnection } from '../redis/connection.js';
import type { RevocationLog } from './observer.js';

/**
 * Refuses a Redis whose settings would let it lose revocations or leases.
 *
 * @throws Error saying what to set
 */
export async function checkRedis(
  connection: RedisConnection,
  minReplicas: number,
  log: RevocationLog,
): Promise<void> {
  const policies = await read(connection, 'memory', /^maxmemory_policy:(\S+)/m);
  const evicting = policies.find((policy) => policy !== 'noeviction');
  if (evicting !== undefined) {
    throw new Error(
      `its maxmemory-policy is ${evicting}, expected noeviction: it may forget revocations; ` +
        'set `maxmemory-policy noeviction` in its configuration, or use a separate Redis for revocations',
    );
  }
  const appending = await read(connection, 'persistence', /^aof_enabled:(\d)/m);
  if (minReplicas === 0 && appending.includes('0')) {
    throw new Error(
      'it keeps revocations in memory only and would forget them when it restarts; ' +
        'set `appendonly yes` in its configuration, or REVOCATION_MIN_REPLICAS to 1 or more if it has replicas',
    );
  }
  if (policies.length === 0 || appending.length === 0) {
    log.warn(
      {},
      'Redis does not tell its maxmemory-policy or whether it keeps an append-only file: make sure that they are noeviction ' +
        'and `appendonly yes`, or revocations may be forgotten',
    );
  }
}

async function read(connection: RedisConnection, section: string, line: RegExp): Promise<string[]> {
  return (await connection.info(section)).flatMap((text) => line.exec(text)?.[1] ?? []);
}
