// What users of the middleware need of usage.
export { createMemoryReplayStore, type MemoryReplayStoreOptions } from './memory-store.js';
export { openRedisReplayStore, type RedisReplayStoreOptions } from '#redis-replay-store';
export { RefundError, type RefundCode, type Refunded } from './refund.js';
export {
  ReplayStoreError,
  type ReplayLog,
  type ReplayStore,
  type ReplayUnreadyReason,
} from './usage-store.js';
export type { Charge, Refund, RefundPart, Usage, Use } from './usage-store.js';
