import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CATALOGUE, Failure } from '../../src/verify/codes.js';

describe('the catalogue', () => {
  it('and docs/codes.md list the same codes under the same blocks, in the same order', () => {
    const documented: [string, string][] = [];
    let block = '';
    for (const line of readFileSync(new URL('../../docs/codes.md', import.meta.url), 'utf8').split('\n')) {
      block =
        /^## (?:Block ([A-F])|Required (binding)|(Replay)|(Gate))/
          .exec(line)
          ?.slice(1)
          .find(Boolean)
          ?.toLowerCase() ?? block;
      const code = /^\| <a id="(\w+)"><\/a>`(\w+)`/.exec(line);
      if (code === null) continue;
      expect(code[1]).toBe(code[2]);
      documented.push([block, code[1] as string]);
    }
    expect(documented).toEqual(CATALOGUE.map(({ block: letter, code }) => [letter.toLowerCase(), code]));
  });

  it.each(CATALOGUE)('$code fills its message from any details', ({ code, block }) => {
    const failure = new Failure(code, {
      subject: 3,
      member: 'member',
      claimed: 'x'.repeat(1000),
      expected: 'something',
      reason: 'a reason',
    });
    expect(failure).toMatchObject({ code, block });
    expect(failure.message).not.toMatch(/[{}]/);
    expect(failure.message.length).toBeLessThan(400);
  });

  it('shows hostile values without failing', () => {
    const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) as unknown;
    expect(
      new Failure('MALFORMED_BUNDLE', { subject: 'bundle', member: 'receipts', claimed: deep, expected: 'x' })
        .message,
    ).toMatch(/receipts is (a deeply nested array|\[)/);
  });
});
