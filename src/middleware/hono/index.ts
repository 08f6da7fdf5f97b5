/// <reference types="node" preserve="true" />
/**
 * Verification in front of the routes of a Hono application.
 *
 * @example
 * import { drsHono } from 'drs-verify/hono';
 *
 * @packageDocumentation
 */
export { drsHono, type DrsEnv, type HonoMiddlewareOptions } from './middleware.js';
export type { BodyOptions, MiddlewareOptions, RouteOptions } from '../options.js';
export * from '../common.js';
