/// <reference types="node" preserve="true" />
/**
 * Verification of requests between agents (A2A), for the agents that serve and for those that call.
 *
 * @example
 * import { drsA2a, drsContext, signA2aRequests } from 'drs-verify/a2a';
 *
 * @packageDocumentation
 */
export { drsA2a, drsUserBuilder, type A2aOptions, type DrsUser } from './protect-agent.js';
export { drsExtension, type DrsExtension, type DrsExtensionOptions } from './extension.js';
export { signA2aRequests } from './sign-requests.js';
export type { NodeMiddleware } from '../node.js';
export * from '../common.js';
