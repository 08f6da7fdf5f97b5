import { ReplayStoreError, type ReplayUnreadyReason } from './usage-store.js';

/** What a refused call is told, and what the log says once, by reason. */
export const FAULTS: Record<ReplayUnreadyReason, { readonly call: string; readonly log: string }> = {
  replay_store_unreachable: {
    call: 'Redis did not record it',
    log: 'does not record: calls are refused until it does again',
  },
  replay_store_evicts: {
    call: 'Redis may evict what it records',
    log: 'may evict used invocations: calls are refused until its maxmemory-policy is noeviction',
  },
  replay_store_full: {
    call: 'Redis is full',
    log: 'is full: calls are refused until it has room again',
  },
};

/** Redis answers, but an invocation must not be recorded in it. */
export class RedisFault extends Error {
  readonly reason: ReplayUnreadyReason;

  constructor(reason: ReplayUnreadyReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Why calls are refused after an error of Redis. */
export function unreadyReasonOf(error: Error): ReplayUnreadyReason {
  if (error instanceof RedisFault) return error.reason;
  return error.message.startsWith('OOM') ? 'replay_store_full' : 'replay_store_unreachable';
}

/** What a call is told that is refused for an error of Redis. */
export function refusalOf(error: Error): ReplayStoreError {
  return new ReplayStoreError(FAULTS[unreadyReasonOf(error)].call, { cause: error });
}
