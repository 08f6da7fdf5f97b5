/// <reference types="node" preserve="true" />
/**
 * Verification in front of the routes of a tool server, and signing of the calls that go there.
 *
 * @example
 * import { drsContext, drsMiddleware } from 'drs-verify/middleware';
 *
 * @packageDocumentation
 */
export { drsFetch, type FetchHandler } from './fetch.js';
export { drsMiddleware, type NodeMiddleware, type NodeMiddlewareOptions } from './node.js';
export type { BindingMode, BodyOptions, MiddlewareOptions, RouteOptions, ServerOptions } from './options.js';
export { signFetch, type SignFetchOptions } from './sign-fetch.js';
export type { CallContext } from '../gate/context.js';
export type { Stated } from '../verify/tools.js';
export * from './common.js';
