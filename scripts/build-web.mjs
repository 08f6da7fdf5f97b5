// Builds the inspector: one file with its script and its style, which needs no network.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';
import { webAliases } from './platform.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = path.join(root, 'web', 'inspect');
/** @param {string} file */
const read = (file) => readFileSync(path.join(source, file), 'utf8');

/** The script with all that it imports. */
async function bundle() {
  const build = await rolldown({
    input: path.join(source, 'main.tsx'),
    cwd: root,
    platform: 'browser',
    tsconfig: path.join(root, 'web', 'tsconfig.json'),
    resolve: {
      conditionNames: ['browser', 'import'],
      extensionAlias: { '.js': ['.ts', '.tsx', '.js'] },
      alias: webAliases,
    },
    onLog: (_, { code = '', message }) => {
      throw new Error(`${code}: ${message}`);
    },
  });
  const { output } = await build.generate({ format: 'esm', minify: true, codeSplitting: false });
  await build.close();
  return output[0].code;
}

/** @param {string} text */
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Builds `dist/inspect.html`. */
export async function buildWeb() {
  // Nothing in it may end the element that it is in.
  const script = (await bundle()).trim().replaceAll(/<(\/script|!--)/gi, '\\x3C$1');
  const style = read('style.css')
    .replaceAll(/\/\*.*?\*\//gs, '')
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim();
  const policy = [
    "default-src 'none'",
    // libsodium is WebAssembly.
    `script-src ${hash(script)} 'wasm-unsafe-eval'`,
    `style-src ${hash(style)}`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const parts = new Map([
    ['%POLICY%', policy],
    ['%STYLE%', style],
    ['%SCRIPT%', script],
  ]);
  const page = read('index.html').replaceAll(
    /\s*(%[A-Z]+%)\s*/g,
    (_, /** @type {string} */ name) => parts.get(name) ?? '',
  );
  mkdirSync(path.join(root, 'dist'), { recursive: true });
  writeFileSync(path.join(root, 'dist', 'inspect.html'), page);
  return page.length;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  console.log(`dist/inspect.html: ${Math.ceil((await buildWeb()) / 1000)} kB`);
