import { readdirSync } from 'node:fs';
import { defineConfig } from 'oxlint';

// Imports point one way: protocol ← verify ← gate ← (signatures, files, redis, trust, revocation, usage) ← verifier ← (service,
// middleware) ← relay ← cli. A relay is a door of the gate: its decision, listener and limits are the service's, and what
// it signs is the middleware's. For each folder of src/: the folders it may import from, besides itself.
/** @type {Record<string, string[]>} */
const mayImport = {
  protocol: [],
  verify: ['protocol'],
  gate: ['protocol', 'verify'],
  signatures: ['protocol', 'verify'],
  redis: [],
  files: ['protocol', 'verify'],
  revocation: ['protocol', 'verify', 'signatures', 'redis', 'files', 'trust'],
  usage: ['protocol', 'verify', 'redis', 'files'],
  // Of approval, only the part without cryptography: a page reads roots, too.
  trust: ['protocol', 'verify', 'approval'],
  log: ['protocol', 'signatures', 'files'],
  approval: ['protocol', 'verify', 'gate', 'signatures', 'redis', 'usage'],
  issue: ['protocol', 'verify', 'signatures', 'trust'],
  client: ['protocol', 'verify', 'verifier'],
  pure: ['protocol', 'verify', 'trust', 'verifier'],
  verifier: ['protocol', 'verify', 'gate', 'signatures', 'revocation', 'usage', 'trust'],
  service: [
    'protocol',
    'verify',
    'gate',
    'signatures',
    'revocation',
    'usage',
    'verifier',
    'redis',
    'trust',
    'approval',
    'log',
  ],
  middleware: [
    'protocol',
    'verify',
    'gate',
    'signatures',
    'revocation',
    'usage',
    'verifier',
    'client',
    'issue',
    'approval',
  ],
  relay: ['protocol', 'verify', 'gate', 'revocation', 'verifier', 'issue', 'middleware', 'service'],
  cli: [
    'protocol',
    'verify',
    'gate',
    'signatures',
    'revocation',
    'usage',
    'verifier',
    'service',
    'middleware',
    'issue',
    'client',
    'relay',
    'redis',
    'trust',
    'approval',
    'log',
  ],
};
const folders = readdirSync(new URL('src', import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const unknown = folders.filter((folder) => !(folder in mayImport));
if (unknown.length > 0)
  throw new Error(`oxlint.config.js: say what src/${unknown.join(', src/')} may import`);

// Pure folders: no I/O, no clock, no thread. Time, revocation and signature results are handed in.
const pure = ['protocol', 'verify', 'gate'];

/** @type {NonNullable<import('oxlint').OxlintConfig['overrides']>} */
const folderRules = Object.entries(mayImport).map(([folder, others]) => {
  const foreign = folders.filter((name) => name !== folder && !others.includes(name));
  const patterns = [
    {
      regex: `^(\\.\\./)+(${foreign.join('|')})/`,
      message: `src/${folder} may import only from ${[folder, ...others].join(', ')} (CONTRIBUTING.md, "Where things live")`,
    },
    { regex: '/verify/blocks/', message: 'src/verify/judge.ts is the way in' },
    { regex: '^uWebSockets\\.js$', message: 'only src/service talks to uWebSockets.js' },
    { group: ['node:*', '!node:buffer', '!node:crypto'], message: 'protocol, verify and gate do no I/O' },
    {
      regex: '/did-key\\.js$',
      importNames: ['publicKeyOf'],
      message: 'ask a KeyResolver for keys: another resolver may find them elsewhere than in the DID',
    },
  ].filter(
    (_, rule) =>
      [true, folder !== 'verify', folder !== 'service', pure.includes(folder), folder !== 'protocol'][rule],
  );
  return {
    files: [`src/${folder}/**`],
    rules: { 'no-restricted-imports': ['error', { patterns }], 'unicorn/no-useless-spread': 'error' },
  };
});

// The rules of typescript-eslint's `strictTypeChecked` that oxlint has: all but two, about class instances and enums.
const strict = `
  await-thenable no-array-constructor no-array-delete no-base-to-string no-deprecated no-duplicate-enum-values
  no-duplicate-type-constituents no-dynamic-delete no-explicit-any
  no-extra-non-null-assertion no-extraneous-class no-floating-promises no-for-in-array
  no-generated-empty-object-type no-implied-eval no-invalid-void-type no-meaningless-void-operator no-misused-new
  no-misused-promises no-misused-spread no-mixed-enums no-namespace no-non-null-asserted-nullish-coalescing
  no-non-null-asserted-optional-chain no-non-null-assertion no-redundant-type-constituents no-require-imports
  no-this-alias no-unnecessary-boolean-literal-compare no-unnecessary-condition no-unnecessary-template-expression
  no-unnecessary-type-arguments no-unnecessary-type-assertion no-unnecessary-type-constraint
  no-unnecessary-type-conversion no-unnecessary-type-parameters no-unsafe-argument no-unsafe-assignment
  no-unsafe-call no-unsafe-declaration-merging no-unsafe-enum-comparison
  no-unsafe-function-type no-unsafe-member-access no-unsafe-return no-unsafe-unary-minus no-unused-vars
  no-useless-constructor no-useless-default-assignment no-wrapper-object-types only-throw-error prefer-as-const
  prefer-literal-enum-member prefer-namespace-keyword prefer-promise-reject-errors prefer-reduce-type-parameter
  prefer-return-this-type related-getter-setter-pairs require-await triple-slash-reference unbound-method
  unified-signatures use-unknown-in-catch-callback-variable
`
  .trim()
  .split(/\s+/);

export default defineConfig({
  plugins: ['typescript', 'import', 'unicorn'],
  categories: { correctness: 'off' },
  options: { typeAware: true },
  ignorePatterns: [
    'dist',
    'coverage',
    'node_modules',
    'bench/results',
    '**/.build',
    'bench/peers',
    // Plain JavaScript for anybody to copy, without types.
    'test/conformance/*.mjs',
    'deploy/gateways/**/*.js',
    '.stryker-tmp',
    'docs/api',
  ],
  rules: {
    'no-var': 'error',
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'prefer-rest-params': 'error',
    'prefer-spread': 'error',
    'prefer-const': 'error',
    eqeqeq: 'error',
    ...Object.fromEntries(strict.map((rule) => [`typescript/${rule}`, 'error'])),
    'typescript/ban-ts-comment': ['error', { minimumDescriptionLength: 10 }],
    // An interface that extends a type gives it a name, and lists its members in the reference of the API.
    'typescript/no-empty-object-type': ['error', { allowInterfaces: 'with-single-extends' }],
    'typescript/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
    'typescript/no-unused-expressions': 'error',
    'typescript/restrict-plus-operands': [
      'error',
      {
        allowAny: false,
        allowBoolean: false,
        allowNullish: false,
        allowNumberAndString: false,
        allowRegExp: false,
      },
    ],
    'typescript/restrict-template-expressions': ['error', { allowNumber: true }],
    'typescript/return-await': ['error', 'error-handling-correctness-only'],
  },
  overrides: [
    ...folderRules,
    { files: ['src/**'], rules: { complexity: ['error', { max: 20 }] } },
    {
      // Plain JavaScript, as its readers write it; `tsc -p examples` checks its types.
      files: ['examples/**'],
      rules: {
        'typescript/no-misused-promises': 'off',
        'typescript/no-unnecessary-type-assertion': 'off',
        'typescript/no-unsafe-member-access': 'off',
        'typescript/use-unknown-in-catch-callback-variable': 'off',
      },
    },
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
          { object: 'Date', property: 'now', message: 'the time is handed in' },
        ],
      },
    },
  ],
});
