// Builds the pages. The inspector is one file, which needs no network. The page of approvals has its script and its style
// beside it, since a gate serves it.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';
import { webAliases } from './platform.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = path.join(root, 'dist');
/** @param {...string} file */
const read = (...file) => readFileSync(path.join(root, 'web', ...file), 'utf8');

/** @param {string} page its script with all that it imports, and the packages that are in it */
async function bundle(page) {
  const build = await rolldown({
    input: path.join(root, 'web', page, 'main.tsx'),
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

/** @param {string} page its style, after what all pages have */
const styleOf = (page) =>
  (read('shared', 'base.css') + read(page, 'style.css'))
    .replaceAll(/\/\*.*?\*\//gs, '')
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim();

/** @param {string} folder of a package: its licence asks that its text goes with the code */
function licenceOf(folder) {
  const file = readdirSync(folder).find((name) => /^licen[cs]e(\.(md|txt))?$/i.test(name));
  if (file === undefined) throw new Error(`${folder} has no licence`);
  const text = readFileSync(path.join(folder, file), 'utf8').trim();
  // That of this program, which is in the same package, need not be there again.
  const isOurs = /Apache License\s+Version 2\.0/.test(text);
  return `${folder.slice(folder.lastIndexOf('node_modules/') + 13)}: ${isOurs ? 'Apache License 2.0' : text}`;
}

/** @param {string} text @param {'sha256' | 'sha384'} algorithm */
const hash = (text, algorithm) => `${algorithm}-${createHash(algorithm).update(text).digest('base64')}`;

/**
 * Fills in a page.
 *
 * @param {string} page
 * @param {string[]} packages
 * @param {Record<string, string>} parts
 */
function fill(page, packages, parts) {
  /** @type {Record<string, string>} */
  const all = {
    ...parts,
    // Two hyphens would end the comment.
    LICENCES: `\n${packages.map(licenceOf).join('\n\n').replaceAll('--', '- -')}\n`,
  };
  return read(page, 'index.html').replaceAll(
    /\s*%([A-Z]+)%\s*/g,
    (_, /** @type {string} */ name) => all[name] ?? '',
  );
}

/** Builds `dist/inspect.html`. @returns the characters of the page */
async function buildInspector() {
  // Nothing in it may end the element that it is in.
  const { code, packages } = await bundle('inspect');
  const script = code.trim().replaceAll(/<(\/script|!--)/gi, '\\x3C$1');
  const style = styleOf('inspect');
  const policy = [
    "default-src 'none'",
    // libsodium is WebAssembly.
    `script-src '${hash(script, 'sha256')}' 'wasm-unsafe-eval'`,
    `style-src '${hash(style, 'sha256')}'`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const page = fill('inspect', packages, { POLICY: policy, STYLE: style, SCRIPT: script });
  writeFileSync(path.join(dist, 'inspect.html'), page);
  return page.length;
}

/** Builds `dist/approve/`: a page, and in `assets/` what it loads, named by its content. @returns the characters of all */
async function buildApprove() {
  const { code, packages } = await bundle('approve');
  const folder = path.join(dist, 'approve');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.join(folder, 'assets'), { recursive: true });
  /** @param {string} extension @param {string} text */
  const put = (extension, text) => {
    const integrity = hash(text, 'sha384');
    const name = `approve-${createHash('sha256').update(text).digest('hex').slice(0, 12)}.${extension}`;
    writeFileSync(path.join(folder, 'assets', name), text);
    return { name, integrity };
  };
  const [icon, style, script] = [
    put('svg', read('approve', 'icon.svg')),
    put('css', styleOf('approve')),
    put('js', code),
  ];
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const page = fill('approve', packages, {
    ...{ POLICY: policy, ICON: icon.name, STYLE: style.name, STYLEHASH: style.integrity },
    ...{ SCRIPT: script.name, SCRIPTHASH: script.integrity },
  });
  writeFileSync(path.join(folder, 'index.html'), page);
  return page.length + code.length;
}

/** Builds all pages. */
export async function buildWeb() {
  mkdirSync(dist, { recursive: true });
  return { inspector: await buildInspector(), approve: await buildApprove() };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { inspector, approve } = await buildWeb();
  console.log(
    `dist/inspect.html: ${Math.ceil(inspector / 1000)} kB; dist/approve/: ${Math.ceil(approve / 1000)} kB`,
  );
}
