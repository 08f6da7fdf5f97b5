/**
 * Verification of tool calls over the Model Context Protocol, for servers and for the agents that call them.
 *
 * @example
 * import { drsContext, drsMcp, signToolCalls } from 'drs-verify/mcp';
 *
 * @packageDocumentation
 */
export { drsMcp, type McpOptions, type McpProtection } from './protect-server.js';
export { signToolCall, signToolCalls } from './sign-calls.js';
export type { Connectable } from './transport.js';
export { drsContext, findDrsContext, type DrsContext } from '../context.js';
export type { Delegation } from '../delegation.js';
export { TOOL_CALL, type EventOptions, type ToolCallEvent } from '../events.js';
export { DrsRefusalError } from '../json-rpc.js';
export type { CallVerifier, ProtectionOptions } from '../options.js';
export type { RefusalBody, RefusalCode } from '../refusal.js';
export {
  createMemoryReplayStore,
  openRedisReplayStore,
  ReplayStoreError,
  type RedisReplayStoreOptions,
  type ReplayStore,
} from '../../replay/index.js';
