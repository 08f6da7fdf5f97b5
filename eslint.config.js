import { readdirSync } from 'node:fs';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

// Imports point one way: protocol ← verify ← gate ← (signatures, revocation, replay) ← verifier ← (server, middleware, cli).
// For each room of src/: the rooms it may import from, besides itself.
/** @type {Record<string, string[]>} */
const mayImport = {
  protocol: [],
  verify: ['protocol'],
  gate: ['protocol', 'verify'],
  signatures: ['protocol', 'verify'],
  revocation: ['protocol', 'verify', 'signatures'],
  replay: ['protocol', 'verify'],
  issue: ['protocol', 'verify', 'signatures'],
  client: ['protocol', 'verify', 'verifier'],
  verifier: ['protocol', 'verify', 'gate', 'signatures', 'revocation', 'replay'],
  server: ['protocol', 'verify', 'gate', 'signatures', 'revocation', 'replay', 'verifier'],
  middleware: [
    'protocol',
    'verify',
    'gate',
    'signatures',
    'revocation',
    'replay',
    'verifier',
    'client',
    'issue',
  ],
  cli: ['protocol', 'verify', 'revocation', 'verifier', 'server', 'issue', 'client'],
};
const rooms = readdirSync(new URL('src', import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const unknown = rooms.filter((room) => !(room in mayImport));
if (unknown.length > 0)
  throw new Error(`eslint.config.js: say what src/${unknown.join(', src/')} may import`);

// Pure rooms: no I/O, no clock, no thread. Time, revocation and signature results are handed in.
const pure = ['protocol', 'verify', 'gate'];

/** @type {import('eslint').Linter.Config[]} */
const roomRules = Object.entries(mayImport).map(([room, others]) => {
  const foreign = rooms.filter((name) => name !== room && !others.includes(name));
  const patterns = [
    {
      regex: `^(\\.\\./)+(${foreign.join('|')})/`,
      message: `src/${room} may import only from ${[room, ...others].join(', ')} (CONTRIBUTING.md, "Where things live")`,
    },
    { regex: '^uWebSockets\\.js$', message: 'only src/server talks to uWebSockets.js' },
    { regex: '^node:(?!buffer$|crypto$)', message: 'protocol, verify and gate do no I/O' },
  ].filter((_, rule) => (rule === 1 ? room !== 'server' : rule === 0 || pure.includes(room)));
  return { files: [`src/${room}/**`], rules: { 'no-restricted-imports': ['error', { patterns }] } };
});

export default defineConfig(
  {
    ignores: [
      'dist',
      'coverage',
      'node_modules',
      'bench/results',
      'bench/.build',
      'scripts/worst-case/.build',
      'test/oracle/.build',
      'bench/report/browser',
    ],
  },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      eqeqeq: 'error',
    },
  },
  ...roomRules,
  // Plain JavaScript, as its readers write it; `tsc -p examples` checks its types.
  { files: ['examples/**'], ...tseslint.configs.disableTypeChecked },
  {
    files: pure.map((room) => `src/${room}/**`),
    rules: {
      'no-restricted-globals': [
        'error',
        'setTimeout',
        'setInterval',
        'setImmediate',
        'fetch',
        'process',
        'performance',
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'the time is handed in' },
      ],
    },
  },
);
