import type { SignatureCheck } from '../protocol/jwt.js';
import { DEFAULT_KEYS } from '../protocol/key-resolver.js';
import { NO_MEMORY, type JudgeParts, type RevocationView } from '../verify/parts.js';
import { readPureOptions, type PureOptions, type Sodium } from './options.js';

/**
 * What a judge is handed where there is no native code. The inspector judges with it, too.
 *
 * @throws TypeError naming every problem of the options
 */
export function pureParts(options: PureOptions): JudgeParts {
  const { sodium, revocation = NOTHING_REVOKED, requireBinding, ...rules } = readPureOptions(options);
  return {
    rules,
    cache: NO_MEMORY,
    keys: DEFAULT_KEYS,
    signatures: { verify: (checks) => checks.map((check) => verifyCheck(sodium, check)) },
    revocation: { freshen: () => null, view: revocation },
    clock: () => Math.floor(Date.now() / 1000),
    requiresBinding: requireBinding,
    use: null,
  };
}

const NOTHING_REVOKED: RevocationView = {
  remoteStatusOf: () => 'not_configured',
  isRevokedLocally: () => false,
  names: null,
  isNameRevoked: () => false,
};

/** As in signatures/in-thread.ts: libsodium checks neither length itself, or throws. */
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
