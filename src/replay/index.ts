export { DEFAULT_REPLAY_WINDOW_SECS, judgeReplay, type ReplayRules } from './judge-replay.js';
export { createMemoryReplayStore, type MemoryReplayStore } from './memory-store.js';
export { openRedisReplayStore, type RedisReplayStoreOptions } from './redis-store.js';
export { replayKey } from './replay-key.js';
export { ReplayStoreError, type ReplayStore } from './replay-store.js';
