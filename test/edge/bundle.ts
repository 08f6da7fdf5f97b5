import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('../..', import.meta.url));
const ENTRY = `${root}bundle-entry.js`;

/**
 * Bundles code that imports this package for a runtime without Node, into one minified module.
 *
 * @param isSource whether it imports sources, as the inspector does
 */
export async function bundle(code: string, isSource = false): Promise<string> {
  const build = await rolldown({
    input: ENTRY,
    cwd: root,
    platform: 'browser',
    // Else rolldown takes what is nearest to a source, which is for Node.
    ...(isSource ? { tsconfig: `${root}web/tsconfig.json` } : {}),
    resolve: {
      conditionNames: ['workerd', 'browser', 'import'],
      ...(isSource ? { extensionAlias: { '.js': ['.ts', '.js'] } } : {}),
    },
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === ENTRY ? id : null),
        load: (id) => (id === ENTRY ? code : null),
      },
    ],
    // A built-in of Node would only be a warning.
    onLog: (_, { code: kind = '', message }) => {
      throw new Error(`${kind}: ${message}`);
    },
  });
  const { output } = await build.generate({ format: 'esm', minify: true, codeSplitting: false });
  await build.close();
  const [chunk, ...more] = output;
  if (
    more.length > 0 ||
    chunk.imports.length > 0 ||
    chunk.dynamicImports.some((name) => name !== chunk.fileName)
  )
    throw new Error(
      `the bundle imports ${[...chunk.imports, ...chunk.dynamicImports, more.length].join(', ')}`,
    );
  return chunk.code;
}

/** The size of code as it travels, in kilobytes (1,000 bytes). */
export function gzippedKb(code: string): number {
  return gzipSync(code).length / 1000;
}
