export {
  DEFAULT_REPLAY_WINDOW_SECS,
  useInvocation,
  type ReplayObserver,
  type ReplayResult,
  type ReplayRules,
} from './use-invocation.js';
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
export { refundCall, RefundError, type Refunded, type RefundFault } from './refund.js';
export { replayKey } from './use-invocation.js';
export {
  NEW,
  ReplayStoreError,
  type Charge,
  type ReplayLog,
  type ReplayStore,
  type Refund,
  type ReplayUnreadyReason,
  type Usage,
  type Use,
} from './usage-store.js';
