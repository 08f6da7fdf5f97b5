// Where `package.json` leads with Node for what another platform replaces (`imports` with conditions).
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = new URL('../', import.meta.url);
/** @type {{ imports: Record<string, string | { node: string, default: string }> }} */
const { imports } = /** @type {never} */ (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')));

/**
 * The sources of these modules, instead of their build.
 *
 * @param {string} target
 */
const sourceOf = (target) =>
  fileURLToPath(new URL(target.replace('./dist/', 'src/').replace(/\.js$/, '.ts'), root));

/** @param {'node' | 'default'} condition */
const aliasesFor = (condition) =>
  Object.entries(imports).flatMap(([find, target]) =>
    typeof target === 'string' ? [] : [{ find, replacement: sourceOf(target[condition]) }],
  );

/** For Vitest: coverage and planted faults would miss a build. */
export const platformAliases = aliasesFor('node');

/** For pages, which are built from the sources. */
export const webAliases = Object.fromEntries(
  aliasesFor('default').map(({ find, replacement }) => [find, replacement]),
);
