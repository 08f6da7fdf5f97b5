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
  type RedisReplayStoreOptions,
} from '#redis-replay-store';
export { replayKey } from './use-invocation.js';
export {
  chargedOf,
  REFUND_CODES,
  refundCall,
  RefundError,
  type ChargedCall,
  type RefundCode,
  type Refunded,
} from './refund.js';
export {
  ReplayStoreError,
  type Charge,
  type Refund,
  type RefundPart,
  type ReplayLog,
  type ReplayStore,
  type ReplayUnreadyReason,
  type Usage,
  type Use,
} from './usage-store.js';
