// Where `package.json` leads with Node for what another platform replaces (`imports` with conditions).
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = new URL('../', import.meta.url);
/** @type {{ imports: Record<string, string | { node: string }> }} */
const { imports } = /** @type {never} */ (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')));

/** For Vitest: the sources of these modules instead of their build, which coverage and planted faults would miss. */
export const platformAliases = Object.entries(imports).flatMap(([find, target]) =>
  typeof target === 'string'
    ? []
    : [
        {
          find,
          replacement: fileURLToPath(
            new URL(target.node.replace('./dist/', 'src/').replace(/\.js$/, '.ts'), root),
          ),
        },
      ],
);
