export * from './public.js';
export { DEFAULT_REPLAY_WINDOW_SECS, replayKey, useInvocation } from './use-invocation.js';
export type { ReplayObserver, ReplayResult, ReplayRules } from './use-invocation.js';
export { DEFAULT_REDIS_TIMEOUT_MS } from './usage-store.js';
export { chargedOf, REFUND_CODES, refundCall, type ChargedCall } from './refund.js';
