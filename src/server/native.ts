import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { NATIVE_DIGESTS } from './native-digests.js';

/** The packages whose binaries this process runs, by what their files are called. */
const FILE_NAMES: Readonly<Record<string, RegExp>> = {
  'sodium-native': /(^|[\\/])sodium-native[^\\/]*\.(node|bare)$/,
  'uWebSockets.js': /(^|[\\/])uws_[^\\/]+\.node$/,
};

/** What is loaded, and what is wrong with it. */
export interface NativeCheck {
  /** The addons of Node in this process, ours and others', by path. */
  readonly loaded: readonly string[];
  /** Each says what was found, what was expected and what to do. Empty where all is well. */
  readonly problems: readonly string[];
}

/**
 * Compares the binaries that this process has loaded with those that were recorded when drs-verify was packed. It asks
 * the system which files these are: where a package would look for them can change, and says nothing about what runs.
 * It finds what was exchanged or damaged on the disk after the packing; a binary that hides itself on purpose has run
 * by then.
 *
 * @param loaded in tests, other files
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
          `binaries of ${name} that were recorded when drs-verify was packed. Install the packages anew (npm ci); ` +
          `if you have built it yourself, set VERIFY_NATIVE=off`,
      );
    }
  }
  if (!loaded.some((file) => FILE_NAMES['sodium-native']?.test(file)))
    problems.push(
      'no library of sodium-native is found among those loaded, so it cannot be checked; expected a file ' +
        'sodium-native.node. If it is linked in, or this system does not tell, set VERIFY_NATIVE=off',
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
  // Else Node asks DNS for the names of peers, which takes seconds where there is none. Older ones do not know the option.
  Object.assign(process.report, { excludeNetwork: true });
  const { sharedObjects } = process.report.getReport() as { sharedObjects?: unknown };
  return Array.isArray(sharedObjects)
    ? sharedObjects.filter((file): file is string => typeof file === 'string' && /\.(node|bare)$/.test(file))
    : [];
}
