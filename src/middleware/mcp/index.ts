/// <reference types="node" preserve="true" />
/**
 * Verification of tool calls over the Model Context Protocol, for servers and for the agents that call them.
 *
 * @example
 * import { drsContext, drsMcp, signToolCalls } from 'drs-verify/mcp';
 *
 * @packageDocumentation
 */
export { drsMcp, type McpOptions, type McpProtection } from './protect-server.js';
export { signToolCall, signToolCalls, type SignToolCallsOptions } from './sign-calls.js';
export type { Connectable } from './transport.js';
export * from '../common.js';
