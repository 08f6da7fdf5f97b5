import { readdirSync } from 'node:fs';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

// Imports point one way: protocol ← verify ← gate ← (signatures, redis, revocation, replay) ← engine ← (server,
// middleware, cli). For each folder of src/: the folders it may import from, besides itself.
/** @type {Record<string, string[]>} */
const mayImport = {
  protocol: [],
  verify: ['protocol'],
  gate: ['protocol', 'verify'],
  signatures: ['protocol', 'verify'],
  redis: [],
  revocation: ['protocol', 'verify', 'signatures', 'redis'],
  replay: ['protocol', 'verify', 'redis'],
  issue: ['protocol', 'verify', 'signatures'],
  client: ['protocol', 'verify', 'engine'],
  engine: ['protocol', 'verify', 'gate', 'signatures', 'revocation', 'replay'],
  server: ['protocol', 'verify', 'gate', 'signatures', 'revocation', 'replay', 'engine'],
  middleware: [
    'protocol',
    'verify',
    'gate',
    'signatures',
    'revocation',
    'replay',
    'engine',
    'client',
    'issue',
  ],
  cli: ['protocol', 'verify', 'revocation', 'engine', 'server', 'issue', 'client'],
};
const folders = readdirSync(new URL('src', import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const unknown = folders.filter((folder) => !(folder in mayImport));
if (unknown.length > 0)
  throw new Error(`eslint.config.js: say what src/${unknown.join(', src/')} may import`);

// Pure folders: no I/O, no clock, no thread. Time, revocation and signature results are handed in.
const pure = ['protocol', 'verify', 'gate'];

/** @type {import('eslint').Linter.Config[]} */
const folderRules = Object.entries(mayImport).map(([folder, others]) => {
  const foreign = folders.filter((name) => name !== folder && !others.includes(name));
  const patterns = [
    {
      regex: `^(\\.\\./)+(${foreign.join('|')})/`,
      message: `src/${folder} may import only from ${[folder, ...others].join(', ')} (CONTRIBUTING.md, "Where things live")`,
    },
    { regex: '^uWebSockets\\.js$', message: 'only src/server talks to uWebSockets.js' },
    { regex: '^node:(?!buffer$|crypto$)', message: 'protocol, verify and gate do no I/O' },
    {
      regex: '/did-key\\.js$',
      importNames: ['publicKeyOf'],
      message: 'ask a KeyResolver for keys: another resolver may find them elsewhere than in the DID',
    },
  ].filter((_, rule) => [true, folder !== 'server', pure.includes(folder), folder !== 'protocol'][rule]);
  return { files: [`src/${folder}/**`], rules: { 'no-restricted-imports': ['error', { patterns }] } };
});

export default defineConfig(
  {
    ignores: [
      'dist',
      'coverage',
      'node_modules',
      'bench/results',
      'bench/.build',
      // Plain JavaScript for anybody to copy, without types.
      'conformance/*.mjs',
      'deploy/gateways/**/*.js',
      'scripts/simulate-scaling.mjs',
      'scripts/measure-redis.mjs',
      'scripts/measure-roll.mjs',
      'scripts/measure-propagation.mjs',
      'scripts/measure-list-stall.mjs',
      'fuzz/.build',
      '.stryker-tmp',
      'conformance/.build',
      'scripts/*/.build',
      'test/oracle/.build',
      'bench/report/browser',
      'docs/api',
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
  ...folderRules,
  // Plain JavaScript, as its readers write it; `tsc -p examples` checks its types.
  { files: ['examples/**'], ...tseslint.configs.disableTypeChecked },
  {
    files: pure.map((folder) => `src/${folder}/**`),
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
        { object: 'Date', property: 'now', message: 'take the time as a parameter' },
      ],
    },
  },
);
