// What users of the middleware need of usage.
export { createMemoryReplayStore, type MemoryReplayStoreOptions } from './memory-store.js';
export { openRedisReplayStore, type RedisReplayStoreOptions } from '#redis-replay-store';
export { RefundError, type RefundCode, type Refunded } from './refund.js';
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
