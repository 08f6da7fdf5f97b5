/// <reference types="node" preserve="true" />
/**
 * Verification of requests over the Model Context Protocol, for servers and for the agents that call them.
 *
 * @example
 * import { drsContext, drsMcp, signCalls } from 'drs-verify/mcp';
 *
 * @packageDocumentation
 */
export { drsMcp, type McpMethodOptions, type McpOptions, type McpProtection } from './protect-server.js';
export { signCalls, signRequest, type SignCallsOptions } from './sign-calls.js';
export type { Connectable } from './transport.js';
export * from '../common.js';
