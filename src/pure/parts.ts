import type { SignatureCheck } from '../protocol/jwt.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { having, readOptions, type GivenOptions, type Table } from '../protocol/options.js';
import { givenRoots, givenTools, RULE_OPTIONS, rulesOf } from '../verifier/rules.js';
import { clock } from '../verifier/call-options.js';
import { NOTHING_REVOKED, type JudgeParts, type RevocationView } from '../verify/parts.js';

/** The part of libsodium that verifies: of `libsodium-wrappers` (WebAssembly) or `sodium-native`. */
export interface Sodium {
  crypto_sign_verify_detached(
    signature: Uint8Array,
    message: Uint8Array,
    publicKey: Uint8Array,
  ): boolean | undefined;
}

const LIBSODIUM = "libsodium: `import sodium from 'libsodium-wrappers'; await sodium.ready;`";
const PURE_OPTIONS = {
  ...RULE_OPTIONS,
  /** libsodium. Whoever controls it decides which signatures count. */
  sodium: { kind: having<Sodium>('crypto_sign_verify_detached', LIBSODIUM), required: true },
  /** What is revoked; default: nothing. It is asked in block F and must not throw. */
  revocation: { kind: having<RevocationView>('isNameRevoked', 'a RevocationView') },
} satisfies Table;

/** Options of the verifier without native code. All but `sodium` can be left out. */
export interface PureOptions extends GivenOptions<typeof PURE_OPTIONS> {}

/**
 * What a judge is handed where there is no native code. The inspector judges with it, too.
 *
 * @throws TypeError naming every problem of the options
 */
export function pureParts(given: PureOptions): JudgeParts {
  const { options, problems } = readOptions(given, PURE_OPTIONS, true);
  if (problems.length > 0) throw new TypeError(problems.join('\n'));
  const { sodium, revocation = NOTHING_REVOKED } = options;
  return {
    rules: rulesOf(options, givenRoots(options), givenTools(options)),
    cache: null,
    keys: DEFAULT_KEYS,
    signatures: { verify: (checks) => checks.map((check) => verifyCheck(sodium, check)) },
    revocation: { refreshIfStale: () => null, refreshLists: () => null, view: revocation },
    clock,
    requiresBinding: options.requireBinding,
    use: null,
  };
}

/** As in signatures/in-thread.ts: libsodium ignores bytes after a signature, and throws for other wrong lengths. */
function verifyCheck(
  sodium: Sodium,
  { jwt, signingInputLength, signature, publicKey }: SignatureCheck,
): boolean {
  if (signature.length !== 64 || publicKey.length !== 32) return false;
  // The signing input of a JWT is ASCII: block A has checked it.
  const message = new Uint8Array(signingInputLength);
  for (let at = 0; at < signingInputLength; at++) message[at] = jwt.charCodeAt(at);
  return sodium.crypto_sign_verify_detached(signature, message, publicKey) === true;
}
