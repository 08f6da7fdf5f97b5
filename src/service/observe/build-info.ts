import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

// By name, not by relative path: the benchmarks compile the sources into other folders.
const { resolve } = createRequire(import.meta.url);
const read = (name: string): unknown => JSON.parse(readFileSync(resolve(name), 'utf8'));

/** The version of the package, and the commit that it was built from, as the build has noted it. */
export const BUILD = {
  version: (read('drs-verify/package.json') as { version: string }).version,
  commit: (read('#build') as { commit: string | null }).commit ?? 'unknown',
} as const;
