/**
 * The verifier for wherever JavaScript runs: pages, workers, Deno, Bun. It is the strict verifier of this package, with
 * signatures by libsodium as WebAssembly, and without native code, threads, files or a network.
 *
 * @packageDocumentation
 */
import { verifyWith, type VerifyOptions } from '../verifier/call-options.js';
import type { Verdict } from '../verifier/verdict.js';
import { pureParts, type PureOptions } from './parts.js';

export type { PureOptions, Sodium } from './parts.js';
export type { VerifyOptions as PureVerifyOptions } from '../verifier/call-options.js';
export type { RemoteStatus, RevocationView, RootList } from '../verify/parts.js';
export type { Verdict, VerdictDetails, VerdictError } from '../verifier/verdict.js';
export type { VerdictContext } from '../verify/receipt.js';
export type { Binding } from '../verify/binding.js';
export type { Block, Code } from '../verify/codes.js';
export { CATALOGUE } from '../verify/codes.js';

/** Verifies bundles without native code. */
export interface PureVerifier {
  /**
   * Verifies a bundle in blocks A to F, like the verifier of `drs-verify`. Nothing is remembered from call to call.
   *
   * @param bundle a bundle as `JSON.parse` gives it; anything at all may be passed
   * @returns the verdict. Bad input never makes the promise reject
   * @throws TypeError for an unknown option
   */
  verify(bundle: unknown, options?: VerifyOptions): Promise<Verdict>;
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
  return { verify: verifyWith(() => parts) };
}
