import { spawnSync } from 'node:child_process';
import { RedisServer } from '../usage/redis-server.js';
import type { Fault, Scene } from './fault.js';
import { sleep } from './traffic.js';
import { isInstalled } from '../support/needed-programs.mjs';

const missing = () => (isInstalled('redis-server') ? null : 'redis-server');

const STATED =
  'The service refuses every call. `/admin/revoke` acknowledges nothing, and `/readyz` is 503. Known revocations stay in force. All this ends without help when Redis answers again.';

const envOf = (...urls: string[]) => ({
  REDIS_URL: urls.join(','),
  REPLAY_PROTECTION: 'redis',
  REVOCATION_STORE: 'redis',
  REDIS_TIMEOUT_MS: '1000',
});

/** Checks that every call is refused while the replay store is unavailable. */
async function closed({ traffic, demand, revokeOne, lastMs, note }: Scene): Promise<void> {
  await sleep(1500);
  const valid = traffic.counts['valid'] ?? 0;
  const revoking = revokeOne();
  await sleep(lastMs);
  demand((traffic.counts['valid'] ?? 0) === valid, 'calls were valid without replay protection');
  note(`a revocation meanwhile was ${(await revoking) ? 'acknowledged' : 'not acknowledged'}`);
}

/** A fault of a Redis that the service uses again afterwards. */
const redisFault = (
  name: string,
  stated: string,
  hurt: (redis: RedisServer) => Promise<void> | void,
  heal: (redis: RedisServer) => Promise<void> | void,
): Fault => ({
  name,
  stated,
  missing,
  prepare: async () => {
    const redis = await RedisServer.start('--appendonly', 'yes');
    return {
      env: envOf(redis.url),
      isReplayRefused: true,
      run: async (scene) => {
        await hurt(redis);
        await closed(scene);
        await heal(redis);
      },
      close: async () => redis.stop(),
    };
  },
});

const failsOver: Fault = {
  name: 'Redis fails over to a replica',
  stated:
    'As above, until the replica is the primary. With `REVOCATION_MIN_REPLICAS=1`, no acknowledged revocation is lost. What was signed before that moment is refused, since Redis may have forgotten its use.',
  missing,
  prepare: async () => {
    const primary = await RedisServer.start('--appendonly', 'yes');
    const [, host, port] = /\/\/(.+):(\d+)$/.exec(primary.url) ?? [];
    const replica = await RedisServer.start('--appendonly', 'yes', '--replicaof', `${host} ${port}`);
    const ask = (...words: string[]) =>
      spawnSync('redis-cli', ['-u', replica.url, ...words], { encoding: 'utf8' }).stdout;
    const end = performance.now() + 30_000;
    while (!ask('info', 'replication').includes('master_link_status:up') && performance.now() < end)
      await sleep(50);
    return {
      env: { ...envOf(primary.url, replica.url), REVOCATION_MIN_REPLICAS: '1' },
      run: async (scene) => {
        await primary.kill();
        await closed(scene);
        ask('replicaof', 'no', 'one');
      },
      close: async () => {
        await primary.stop();
        await replica.stop();
      },
    };
  },
};

/** Faults of the shared store. */
export const redisFaults: readonly Fault[] = [
  redisFault(
    'Redis is frozen (SIGSTOP)',
    STATED,
    (redis) => redis.freeze(),
    (redis) => redis.thaw(),
  ),
  redisFault(
    'Redis is killed (kill -9), and started again',
    'As above. What was signed before is refused.',
    (redis) => redis.kill(),
    (redis) => redis.restart(),
  ),
  failsOver,
];
