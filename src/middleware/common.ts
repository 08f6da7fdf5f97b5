// What every entry of the middleware exports.
export { drsContext, findDrsContext, type DrsContext } from './context.js';
export type { Delegation } from './delegation.js';
export {
  REFUSAL,
  TOOL_CALL,
  type EventOptions,
  type Outcome,
  type Refusal,
  type RefusalEvent,
  type RefusedCall,
  type ToolCallEvent,
} from './events.js';
export type { CallVerifier, ProtectionOptions, VerdictSource } from './options.js';
export { DrsRefusalError } from './refusal-error.js';
export {
  BUNDLE_HEADER,
  RPC_ERROR_CODE,
  type ChainVerdict,
  type Denial,
  type GateContext,
  type GateFailure,
  type GateResponse,
  type HttpRefusal,
  type Protocol,
  type RpcError,
  type RpcErrorData,
  type RpcRefusal,
} from '../gate/index.js';
export {
  createMemoryReplayStore,
  openRedisReplayStore,
  ReplayStoreError,
  type MemoryReplayStore,
  type MemoryReplayStoreOptions,
  type RedisReplayStoreOptions,
  type ReplayLog,
  type ReplayStore,
  type ReplayUnreadyReason,
} from '../replay/index.js';
