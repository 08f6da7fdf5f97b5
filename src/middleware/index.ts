/**
 * Verification in front of the routes of a tool server.
 *
 * @example
 * import { drsContext, drsMiddleware } from 'drs-verify/middleware';
 *
 * @packageDocumentation
 */
export { drsContext, findDrsContext, type DrsContext } from './context.js';
export { TOOL_CALL, type EventOptions, type ToolCallEvent } from './events.js';
export { drsFetch, type FetchHandler } from './fetch.js';
export { BUNDLE_HEADER_ROOM, explainHeaderLimit } from './header-limit.js';
export { drsMiddleware, type NodeMiddleware } from './node.js';
export type {
  BindingMode,
  CallVerifier,
  MiddlewareOptions,
  ProtectionOptions,
  VerdictSource,
} from './options.js';
export { BUNDLE_HEADER, type Refusal, type RefusalBody, type RefusalCode } from './refusal.js';
export {
  createMemoryReplayStore,
  openRedisReplayStore,
  ReplayStoreError,
  type RedisReplayStoreOptions,
  type ReplayStore,
} from '../replay/index.js';
