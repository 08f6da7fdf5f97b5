import { beforeAll, expect, it } from 'vitest';
import { createChain, type Workplace } from '../cli/drs.js';

let work: Workplace;
beforeAll(async () => {
  work = await createChain();
});

const TO = ['--to', 'http://127.0.0.1:1/mcp'];
const CHAIN = ['--chain', 'helper.jwt'];
const NO_CHAIN = 'there is no chain to sign under\n  hint: name the file of one with --chain\n';
const ROWS: readonly (readonly [name: string, args: readonly string[], stderr: string])[] = [
  ['without a chain', ['--key', 'helper.key', ...TO], NO_CHAIN],
  [
    'with a public key',
    ['--key', 'helper.pub', ...CHAIN, ...TO],
    'helper.pub: the JWK holds only a public key',
  ],
  [
    'with a header that names no variable',
    ['--key', 'helper.key', ...CHAIN, ...TO, '--header-env', 'Authorization'],
    `--header-env has no colon after a name\n  hint: write it in quotes: 'Name: VARIABLE'\n`,
  ],
  [
    'with a program that is not there',
    ['--key', 'helper.key', ...CHAIN, 'no-such-program'],
    'cannot start no-such-program: spawn no-such-program ENOENT\n',
  ],
];
it.each(ROWS)('does not start %s', async (_, args, expected) => {
  const { code, stderr } = await work.drs(['sign', ...args]);
  expect(stderr).toContain(`drs-verify: ${expected}`);
  expect(code).toBe(2);
});

it('does not show the value of a header that has no name', async () => {
  const args = ['sign', '--key', 'helper.key', ...CHAIN, ...TO, '--header', 'Bearer secret'];
  expect((await work.drs(args)).stderr).toBe(
    "drs-verify: --header has no colon after a name\n  hint: write it in quotes: 'Name: value'\n",
  );
});
