/**
 * A client of the verification service.
 *
 * @example
 * import { DrsClient } from 'drs-verify/client';
 *
 * @packageDocumentation
 */
export { DrsClient, type DrsClientOptions } from './drs-client.js';
export { DrsClientError, type DrsClientErrorCode } from './client-error.js';
export type { Verdict, VerdictError } from '../verifier/verdict.js';
export type { VerdictContext } from '../verify/receipt.js';
export type { Binding } from '../verify/binding.js';
