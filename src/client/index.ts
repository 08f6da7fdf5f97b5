/**
 * A client of the verification service.
 *
 * @example
 * import { DrsClient } from 'drs-verify/client';
 *
 * @packageDocumentation
 */
export { DrsClient, DrsClientError, type DrsClientErrorCode, type DrsClientOptions } from './drs-client.js';
export type { Verdict, VerdictError } from '../verifier/verdict.js';
export type { VerdictContext } from '../verify/receipt.js';
export type { Binding } from '../verify/binding.js';
