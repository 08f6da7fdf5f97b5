import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { NATIVE_DIGESTS } from './native-digests.js';

/** The packages whose binaries this process runs, and the names of their files. */
const FILE_NAMES: Readonly<Record<string, RegExp>> = {
  'sodium-native': /(^|[\\/])sodium-native[^\\/]*\.(node|bare)$/,
  'uWebSockets.js': /(^|[\\/])uws_[^\\/]+\.node$/,
};

/** The result of {@link checkNative}. */
export interface NativeCheck {
  /** The paths of all Node addons in this process. */
  readonly loaded: readonly string[];
  /** Each says what was found, what was expected and what to do. Empty if there are none. */
  readonly problems: readonly string[];
}

/**
 * Compares the binaries that this process has loaded with those that were recorded when drs-verify was packed. It asks
 * the system which files are loaded: the places where a package looks for its files can change, and do not prove what
 * runs. The check finds files that were replaced or damaged on the disk. It does not find a malicious binary that hides
 * itself, since that one has run before the check.
 *
 * @param loaded tests pass other files
 * @example checkNative().problems; // []
 */
export function checkNative(loaded: readonly string[] = loadedAddons()): NativeCheck {
  const problems: string[] = [];
  for (const [name, pattern] of Object.entries(FILE_NAMES)) {
    const digests = new Set(Object.values(NATIVE_DIGESTS[name] ?? {}));
    for (const file of loaded.filter((candidate) => pattern.test(candidate))) {
      const digest = digestOf(file);
      if (digest !== null && digests.has(digest)) continue;
      problems.push(
        `${file} ${digest === null ? 'cannot be read' : `has the SHA-256 ${digest}`}; expected one of the ${digests.size} ` +
          `binaries of ${name} that were recorded when drs-verify was packed. Install the packages again (npm ci); ` +
          `if you have built it yourself, set VERIFY_NATIVE=off`,
      );
    }
  }
  if (!loaded.some((file) => FILE_NAMES['sodium-native']?.test(file)))
    problems.push(
      'sodium-native is not among the loaded files, so it cannot be checked; expected a file sodium-native.node. ' +
        'If it is linked into Node, or this system does not list loaded files, set VERIFY_NATIVE=off',
    );
  return { loaded, problems };
}

function digestOf(file: string): string | null {
  try {
    return createHash('sha256').update(readFileSync(file)).digest('hex');
  } catch {
    return null;
  }
}

function loadedAddons(): string[] {
  // Without this, Node asks DNS for the names of peers, which takes seconds if DNS does not answer. Older versions of
  // Node ignore the option.
  Object.assign(process.report, { excludeNetwork: true });
  const { sharedObjects } = process.report.getReport() as { sharedObjects?: unknown };
  return Array.isArray(sharedObjects)
    ? sharedObjects.filter((file): file is string => typeof file === 'string' && /\.(node|bare)$/.test(file))
    : [];
}
