import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { GATE_CATALOGUE } from '../../src/gate/codes.js';
import { CATALOGUE } from '../../src/verify/codes.js';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
const rows = [...read('docs/codes.md').matchAll(/^\| <a id="([\w-]+)"><\/a>`(\w+)` \|(.*)\|$/gm)].map(
  ([, anchor = '', code = '', cells = '']) => ({ anchor, code, cells: cells.split(' | ') }),
);
const ofBlocks = new Set<string>(
  CATALOGUE.filter(({ block }) => /^[A-F]$/.test(block)).map(({ code }) => code),
);

it('docs/codes.md has every code that an answer or an error can carry, under an anchor of its own', () => {
  const [, union = ''] = /type IssueErrorCode =([^;]+);/.exec(read('src/issue/issue-error.ts')) ?? [];
  const issuing = [...union.matchAll(/'(\w+)'/g)].map(([, code]) => `issue-${code}`);
  expect(issuing).not.toEqual([]);
  const expected = [
    ...CATALOGUE.map(({ code }) => code),
    ...GATE_CATALOGUE.map(({ code }) => `gate-${code}`),
    ...issuing,
  ];
  expect(rows.map(({ anchor }) => anchor)).toEqual(expected);
});

it('docs/codes.md names each code of the public implementation that has another name, and no other', () => {
  const [, section = ''] = read('docs/codes.md').split('## Codes of the public implementation');
  const names = [...section.matchAll(/^\| \[`(\w+)`\]\(#(\w+)\) \| `(\w+)` \|$/gm)];
  expect(names.map(([, here, anchor, there]) => [here, anchor, there])).toEqual([
    ['COMMAND_MISMATCH', 'COMMAND_MISMATCH', 'CMD_MISMATCH'],
    ['RECEIPT_REVOKED', 'RECEIPT_REVOKED', 'REVOKED'],
  ]);
  // What has the same name there needs no row, and none of theirs may mean something else here.
  const ours = new Set<string>([...CATALOGUE, ...GATE_CATALOGUE].map(({ code }) => code));
  for (const [, here = '', , there = ''] of names)
    expect([ours.has(here), ours.has(there)]).toEqual([true, false]);
});

it.each(rows)('$anchor says when it comes, what to do, or both', ({ anchor, code, cells }) => {
  expect(anchor.replace(/^(gate|issue)-/, '')).toBe(code);
  const when: unknown = expect.stringMatching(/^.{10,}\.$/);
  const what: unknown = expect.stringMatching(/^[A-Z].{5,}\.$/);
  // Of the blocks, spec/verdict.md says when; of the gate, the answer says what to do.
  const isOfGate = anchor.startsWith('gate-');
  const wanted = isOfGate
    ? [expect.stringMatching(/^[45]/), when]
    : ofBlocks.has(anchor)
      ? [what]
      : [when, what];
  expect(cells.map((cell) => cell.trim())).toEqual(wanted);
});
