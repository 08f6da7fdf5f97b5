// Builds the inspector: one file with its script and its style, which needs no network.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';
import { webAliases } from './platform.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = path.join(root, 'web', 'inspect');
/** @param {string} file */
const read = (file) => readFileSync(path.join(source, file), 'utf8');

/** The script with all that it imports, and the packages that are in it. */
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
  const [{ code, modules }] = output;
  const packages = Object.keys(modules)
    .filter((file) => path.isAbsolute(file))
    .map((file) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[0]);
  return { code, packages: [...new Set(packages)].filter((folder) => folder !== undefined).sort() };
}

/** @param {string} folder of a package: its licence asks that its text goes with the code */
function licenceOf(folder) {
  const file = readdirSync(folder).find((name) => /^licen[cs]e(\.(md|txt))?$/i.test(name));
  if (file === undefined) throw new Error(`${folder} has no licence`);
  const text = readFileSync(path.join(folder, file), 'utf8').trim();
  // That of this program, which is in the same package, need not be there again.
  const isOurs = /Apache License\s+Version 2\.0/.test(text);
  return `${folder.slice(folder.lastIndexOf('node_modules/') + 13)}: ${isOurs ? 'Apache License 2.0' : text}`;
}

/** @param {string} text */
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Builds `dist/inspect.html`. */
export async function buildWeb() {
  // Nothing in it may end the element that it is in.
  const { code, packages } = await bundle();
  const script = code.trim().replaceAll(/<(\/script|!--)/gi, '\\x3C$1');
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
    // Two hyphens would end the comment.
    ['%LICENCES%', `\n${packages.map(licenceOf).join('\n\n').replaceAll('--', '- -')}\n`],
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
