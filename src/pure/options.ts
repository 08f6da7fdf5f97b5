import { refuseUnknownOptions } from '../protocol/known-options.js';
import { readGivenRoots } from '../trust/given-roots.js';
import type { TrustedRoot } from '../trust/read-root.js';
import { count, flag, readOption, roots, text, type GivenOptions, type Option } from '../verifier/kinds.js';
import type { RevocationView, Rules } from '../verify/parts.js';

/** The part of libsodium that verifies: of `libsodium-wrappers` (WebAssembly) or `sodium-native`. */
export interface Sodium {
  crypto_sign_verify_detached(
    signature: Uint8Array,
    message: Uint8Array,
    publicKey: Uint8Array,
  ): boolean | undefined;
}

/** As in `VERIFIER_OPTIONS`, which a page cannot load. A test compares them. */
export const PURE_RULES = {
  maxChainDepth: { kind: count(1, 1024), default: 16 },
  clockSkewSecs: { kind: count(0, 86_400, 'seconds'), default: 0 },
  serverIdentity: { kind: text('a text, or `any`') },
  trustedRoots: { kind: roots },
  requireBinding: { kind: flag, default: false },
} satisfies Record<string, Option>;

/** Options of the verifier without native code. All but `sodium` can be left out. */
export interface PureOptions extends GivenOptions<typeof PURE_RULES> {
  /** libsodium. Whoever controls it decides which signatures count. */
  readonly sodium: Sodium;
  /** What is revoked; default: nothing. It is asked in block F and must not throw. */
  readonly revocation?: RevocationView;
}

/** Options with defaults filled in, in the form in which they are used. */
export interface PureSettings extends Rules, Pick<PureOptions, 'sodium' | 'revocation'> {
  readonly requireBinding: boolean;
}

/** @throws TypeError naming every problem */
export function readPureOptions(options: PureOptions): PureSettings {
  const { sodium, revocation } = options;
  refuseUnknownOptions(options, ['sodium', 'revocation', ...Object.keys(PURE_RULES)]);
  const problems: string[] = [];
  if (typeof (sodium as Partial<Sodium> | undefined)?.crypto_sign_verify_detached !== 'function')
    problems.push(
      'sodium: it has no crypto_sign_verify_detached, expected libsodium: ' +
        "`import sodium from 'libsodium-wrappers'; await sodium.ready;`",
    );
  const settings: Record<string, unknown> = {};
  for (const [name, option] of Object.entries<Option>(PURE_RULES)) {
    // Like createVerifier of the package: a variable that is not set must not open anything.
    if (Object.hasOwn(options, name) && options[name as keyof PureOptions] === undefined) {
      problems.push(`${name}: it is undefined, expected a value; for the default, leave it out`);
      continue;
    }
    const reading = readOption(option, options[name as keyof PureOptions], settings);
    if ('problem' in reading) problems.push(`${name}: ${reading.problem}`);
    else settings[name] = reading.value;
  }
  const read = readGivenRoots((settings['trustedRoots'] ?? []) as (string | TrustedRoot)[]);
  if ('problem' in read) problems.push(`trustedRoots: ${read.problem}`);
  if (problems.length > 0 || 'problem' in read) throw new TypeError(problems.join('\n'));
  const { maxChainDepth, clockSkewSecs, serverIdentity, trustedRoots, requireBinding } = settings as {
    maxChainDepth: number;
    clockSkewSecs: number;
    serverIdentity?: string;
    trustedRoots?: (string | TrustedRoot)[];
    requireBinding: boolean;
  };
  return {
    sodium,
    ...(revocation === undefined ? {} : { revocation }),
    maxChainDepth,
    clockSkewSecs,
    serverIdentity: serverIdentity === 'any' ? null : (serverIdentity ?? null),
    trustedRoots: trustedRoots === undefined ? null : read.roots,
    requireBinding,
  };
}
