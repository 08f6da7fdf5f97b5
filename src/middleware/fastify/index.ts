/// <reference types="node" preserve="true" />
/**
 * Verification in front of the routes of a Fastify server.
 *
 * @example
 * import { drsFastify } from 'drs-verify/fastify';
 *
 * @packageDocumentation
 */
export { drsFastify, type FastifyMiddlewareOptions } from './plugin.js';
export type { BodyOptions, MiddlewareOptions, RouteOptions } from '../options.js';
export * from '../common.js';
