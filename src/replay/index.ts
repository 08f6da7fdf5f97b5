export {
  DEFAULT_REPLAY_WINDOW_SECS,
  checkReplay,
  type ReplayObserver,
  type ReplayResult,
  type ReplayRules,
} from './check-replay.js';
export {
  createMemoryReplayStore,
  type MemoryReplayStore,
  type MemoryReplayStoreOptions,
} from './memory-store.js';
export {
  DEFAULT_REDIS_TIMEOUT_MS,
  openRedisReplayStore,
  type RedisReplayPeriods,
  type RedisReplayStoreOptions,
} from '#redis-replay-store';
export { replayKey } from './check-replay.js';
export {
  ReplayStoreError,
  type ReplayLog,
  type ReplayStore,
  type ReplayUnreadyReason,
} from './replay-store.js';
