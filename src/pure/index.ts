/**
 * The verifier for wherever JavaScript runs: pages, workers, Deno, Bun. It is the strict verifier of this package, with
 * signatures by libsodium as WebAssembly, and without native code, threads, files or a network.
 *
 * @packageDocumentation
 */
import { asksForDetails, toVerdict, type Verdict } from '../verifier/verdict.js';
import type { Body } from '../verify/binding.js';
import { judge } from '../verify/judge.js';
import type { PureOptions } from './options.js';
import { pureParts } from './parts.js';

export type { PureOptions, Sodium } from './options.js';
export type { RemoteStatus, RevocationView } from '../verify/parts.js';
export type { Verdict, VerdictDetails, VerdictError } from '../verifier/verdict.js';
export type { VerdictContext } from '../verify/receipt.js';
export type { Binding } from '../verify/binding.js';
export type { Block, Code } from '../verify/codes.js';
export { CATALOGUE } from '../verify/later-codes.js';

/** Options of a single call of {@link PureVerifier.verify}. */
export interface PureVerifyOptions {
  /** The body of the call, as a JSON value: triggers the binding check. Overrides a `body` member of the bundle. */
  readonly body?: unknown;
  /** The body of the call as JSON text, which also shows duplicate names and rounded numbers. Replaces `body`. */
  readonly bodyText?: string;
  /** Whether a valid verdict should have `details`. A member `details: true` of the bundle requests them too. */
  readonly details?: boolean;
  /** The verification time in Unix seconds; by default the current time. Anything but a finite number is a TypeError. */
  readonly now?: number;
}

/** Verifies bundles without native code. */
export interface PureVerifier {
  /**
   * Verifies a bundle in blocks A to F, like the verifier of `drs-verify`. Nothing is remembered from call to call.
   *
   * @param bundle a bundle as `JSON.parse` gives it; anything at all may be passed
   * @returns the verdict. Bad input never makes the promise reject
   */
  verify(bundle: unknown, options?: PureVerifyOptions): Promise<Verdict>;
}

/**
 * Creates a verifier. Its other options are those of `createVerifier` of `drs-verify` with the same names. It has no
 * record of used invocations: whoever admits calls must detect replays.
 *
 * @param options.sodium libsodium, such as the package `libsodium-wrappers` once it is ready
 * @throws TypeError naming every problem of the options
 * @example
 * import sodium from 'libsodium-wrappers';
 * await sodium.ready;
 * const verifier = createVerifier({ sodium, trustedRoots: [alice] });
 * const verdict = await verifier.verify(bundle, { body: { tool: 'search', query: 'tea' } });
 */
export function createVerifier(options: PureOptions): PureVerifier {
  const parts = pureParts(options);
  return {
    verify: async (bundle, { body, bodyText, details = asksForDetails(bundle), now } = {}) =>
      toVerdict(await judge({ bundle, body: bodyOf(bundle, body, bodyText), now }, parts), details),
  };
}

function bodyOf(bundle: unknown, body: unknown, bodyText: string | undefined): Body | null {
  if (bodyText !== undefined) return { kind: 'text', text: bodyText };
  if (body !== undefined) return { kind: 'value', value: body };
  if (typeof bundle !== 'object' || bundle === null || !Object.hasOwn(bundle, 'body')) return null;
  return { kind: 'value', value: (bundle as { body: unknown }).body };
}
