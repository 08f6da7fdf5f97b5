import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type * as library from '../../src/index.js';
import { invoke, makeChain, NOW } from '../support/chain.js';

/** Does what docs/extending.md says of a new policy member, in a copy of the repository. */

const KIND = '{ values: LISTS, arg: ';
/** By file: what is found there once, and what comes after it. */
const STEPS: readonly (readonly [file: string, after: string, added: string])[] = [
  [
    'docs/spec/policy.md',
    '| [`allowed_data_classes`](#allowed_data_classes) | array of strings | `data_class` |\n',
    '| [`allowed_regions`](#allowed_regions) | array of strings | `region` |\n',
  ],
  [
    'docs/spec/policy.md',
    '*Child.* The same rule as for [`allowed_tools`](#allowed_tools).\n',
    '\n## allowed_regions\n\n*Call.* As for `allowed_data_classes`, of `args.region`.\n\n*Child.* The same rule.\n',
  ],
  [
    'src/protocol/policy.ts',
    '  readonly allowed_data_classes?: readonly string[] | null;\n',
    '  readonly allowed_regions?: readonly string[] | null;\n',
  ],
  [
    'src/protocol/policy.ts',
    "  row('allowed_data_classes', NAMES, 'data_class'),\n",
    "  row('allowed_regions', NAMES, 'region'),\n",
  ],
  [
    'src/issue/plain-words.ts',
    "describeList(list, 'name', 'class of data', 'classes of data'),\n",
    "  allowed_regions: ({ allowed_regions: list }) => describeList(list, 'name', 'region', 'regions'),\n",
  ],
  [
    'docs/policy.md',
    '| `allowed_data_classes`: names, `*` for any | `data_class` |\n',
    '| `allowed_regions`: names, `*` for any | `region` |\n',
  ],
  [
    'docs/spec/roots.schema.json',
    '"allowed_data_classes": { "$ref": "#/$defs/list" }',
    ', "allowed_regions": { "$ref": "#/$defs/list" }',
  ],
  [
    'test/support/cases.ts',
    'const violations: readonly (readonly [string, Overrides, Overrides, RegExp])[] = [\n',
    "  ['a region', { allowed_regions: ['eu'] }, { region: 'us' }, /args\\.region/],\n",
  ],
  [
    'test/issue/random-chain.ts',
    "    allowed_data_classes: fc.constant(['public', 'internal']),\n",
    "    allowed_regions: fc.constant(['eu', 'us']),\n",
  ],
  [
    'test/oracle/generator/values.ts',
    '    argValue: (random) => JSON.stringify(random.pick(CLASSES)),\n  },\n',
    "  allowed_regions: { value: (random) => list(random, CLASSES, 0.3), arg: 'region', argValue: (random) => JSON.stringify(random.pick(CLASSES)) },\n",
  ],
  ['test/oracle/policy.ts', "'allowed_resources', 'allowed_data_classes'", ", 'allowed_regions'"],
  ['test/oracle/policy.ts', "of ['allowed_tools', 'allowed_data_classes'", ", 'allowed_regions'"],
  [
    'test/oracle/policy.ts',
    "    ['allowed_data_classes', 'data_class'],\n",
    "    ['allowed_regions', 'region'],\n",
  ],
  [
    'test/oracle/exhaustive.test.ts',
    `  allowed_data_classes: ${KIND}'data_class', args: ARGUMENTS },\n`,
    `  allowed_regions: ${KIND}'region', args: ARGUMENTS },\n`,
  ],
  [
    'test/proof/models.ts',
    '  allowed_data_classes: nameList as unknown as Kind<never>,\n',
    '  allowed_regions: nameList as unknown as Kind<never>,\n',
  ],
  [
    'src/cli/options.ts',
    "    limit('--data-class <name>', 'allow this class of data; repeat for more', collect),\n  ],\n",
    "  ['allowed_regions', limit('--region <name>', 'allow this region; repeat for more', collect)],\n",
  ],
];

const folder = mkdtempSync(path.join(tmpdir(), 'drs-extending-'));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (file: string) => path.join(folder, file);
let made: typeof library;

beforeAll(async () => {
  for (const what of ['src', 'test', 'docs', 'package.json', 'tsconfig.json', 'tsconfig.build.json'])
    cpSync(what, at(what), { recursive: true });
  symlinkSync(path.resolve('node_modules'), at('node_modules'));
  for (const [file, after, added] of STEPS) {
    const parts = readFileSync(at(file), 'utf8').split(after);
    if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times, expected once: ${after}`);
    writeFileSync(at(file), parts.join(after + added));
  }
  const tsc = path.resolve('node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: folder });
  made = (await import(/* @vite-ignore */ pathToFileURL(at('dist/index.js')).href)) as typeof library;
});

it('the page names each file that was changed', () => {
  const [, steps = ''] =
    /## A new policy member\n([^]*?)\n## /.exec(readFileSync('docs/extending.md', 'utf8')) ?? [];
  // Whole names: `policy.md` is also the end of `spec/policy.md`.
  const named = [...steps.matchAll(/`([^`]+)`|\[([^\]]+)\]/g)].map(([, code, link]) => code ?? link);
  for (const [file] of STEPS) expect(named).toContain(file.replace(/^docs\//, ''));
});

const EU = { policy: { allowed_regions: ['eu'] } };
it.each([
  ['a call in the region', invoke(makeChain(1, { 0: EU }), { args: { region: 'eu' } }), undefined],
  ['a call elsewhere', invoke(makeChain(1, { 0: EU }), { args: { region: 'us' } }), 'POLICY_VIOLATION'],
  ['a call that does not say where', invoke(makeChain(1, { 0: EU }), { args: {} }), 'POLICY_VIOLATION'],
  [
    'a child that widens it',
    invoke(makeChain(2, { 0: EU, 1: { policy: { allowed_regions: ['eu', 'us'] } } }), {
      args: { region: 'eu' },
    }),
    'POLICY_ESCALATION',
  ],
  [
    'a child that drops it',
    invoke(makeChain(2, { 0: EU, 1: { policy: {} } }), { args: { region: 'eu' } }),
    'POLICY_ESCALATION',
  ],
])('the copy judges %s', async (_, bundle, code) => {
  const verifier = made.createVerifier({ workerThreads: 0 });
  expect((await verifier.verify(bundle, { now: NOW })).error?.code).toBe(code);
  await verifier.close();
});

it('the schema of the copy takes the member, as that of this repository does not', () => {
  const check = (root: string) => {
    const schema = JSON.parse(readFileSync(path.join(root, 'docs/spec/roots.schema.json'), 'utf8')) as object;
    const did = makeChain(1).parties[0]?.did;
    return new Ajv2020({ strict: false }).compile(schema)({ did, ...EU });
  };
  expect([check(folder), check('.')]).toEqual([true, false]);
});
