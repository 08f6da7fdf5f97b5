import importX from 'eslint-plugin-import-x';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

// Imports point one way: protocol ← verify ← (signatures, revocation, replay) ← verifier ← (server, middleware, cli).
// For each room: the rooms it may import from, besides itself.
const mayImport = {
  protocol: [],
  verify: ['protocol'],
  signatures: ['protocol', 'verify'],
  revocation: ['protocol', 'verify', 'signatures'],
  replay: ['protocol', 'verify'],
  issue: ['protocol', 'verify'],
  client: ['protocol', 'verify'],
  verifier: ['protocol', 'verify', 'signatures', 'revocation', 'replay'],
  server: ['protocol', 'verify', 'signatures', 'revocation', 'replay', 'verifier'],
  middleware: ['protocol', 'verify', 'signatures', 'revocation', 'replay', 'verifier', 'client', 'issue'],
};
const zones = Object.entries(mayImport).map(([room, others]) => ({
  target: `./src/${room}`,
  from: './src',
  except: [room, ...others].map((name) => `./${name}`),
  message: `src/${room} may import only from: ${[room, ...others].join(', ')} (CONTRIBUTING.md, "Where things live")`,
}));

export default defineConfig(
  { ignores: ['dist', 'coverage', 'node_modules', 'bench/results'] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    plugins: { 'import-x': importX },
    rules: {
      'import-x/no-restricted-paths': ['error', { zones }],
      'no-restricted-imports': [
        'error',
        { paths: [{ name: 'uWebSockets.js', message: 'only src/server talks to uWebSockets.js' }] },
      ],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      eqeqeq: 'error',
    },
  },
  { files: ['src/server/**', 'bench/**'], rules: { 'no-restricted-imports': 'off' } },
  {
    // Pure rooms: no I/O, no clock, no thread. Time, revocation and signature results are handed in.
    files: ['src/protocol/**', 'src/verify/**'],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: [{ regex: '^node:(?!buffer$|crypto$)', message: 'protocol and verify do no I/O' }] },
      ],
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
