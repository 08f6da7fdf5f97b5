import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KNOWN_POLICY_MEMBERS } from '../../src/protocol/policy.js';
import { CATALOGUE } from '../../src/verify/codes.js';
import { anchorsOf } from './markdown.js';

const read = (page: string) => readFileSync(new URL(`../../docs/spec/${page}.md`, import.meta.url), 'utf8');

/** The text of a page between a heading and the next one of the same depth. */
function sectionOf(page: string, heading: string): string {
  const text = read(page);
  const start = text.indexOf(`\n## ${heading}`);
  if (start < 0) throw new Error(`docs/spec/${page}.md has no section "${heading}"`);
  const end = text.indexOf('\n## ', start + 1);
  return text.slice(start, end < 0 ? undefined : end);
}

/** The codes that the first column of a section's tables names, each once, in their order. */
function codesIn(section: string): string[] {
  const cells = [...section.matchAll(/^\| ((?:`[A-Z_]+`(?:, )?)+) \|/gm)].map(([, cell = '']) => cell);
  return [
    ...new Set(cells.flatMap((cell) => [...cell.matchAll(/`([A-Z_]+)`/g)].map(([, code = '']) => code))),
  ];
}

describe('docs/spec', () => {
  it.each(['A', 'B', 'C', 'D', 'E', 'F'])('has the codes of block %s, in their order', (letter) => {
    const specified = codesIn(sectionOf('verdict', `Block ${letter}:`));
    expect(specified).toEqual(CATALOGUE.filter(({ block }) => block === letter).map(({ code }) => code));
  });

  it('has the codes of replay protection', () => {
    const specified = codesIn(sectionOf('verdict', 'After block F'));
    const codes = CATALOGUE.filter(({ block }) => block === 'replay').map(({ code }) => code);
    expect(specified.filter((code) => codes.some((other) => other === code))).toEqual(codes);
  });

  it('has a row and a section for each policy member', () => {
    const rows = [...sectionOf('policy', 'Members').matchAll(/^\| \[`(\w+)`\]\(#([\w-]+)\)/gm)];
    expect(rows.map(([, name]) => name)).toEqual([...KNOWN_POLICY_MEMBERS]);
    const anchors = anchorsOf(read('policy'));
    for (const [, , anchor = ''] of rows) expect(anchors).toContain(anchor);
  });
});
