import { expect, it } from 'vitest';
import { anchorsOf, linksOf } from './markdown.js';

it('finds links, and none in code', () => {
  const text = [
    'A [link](a.md), [`code`](b.md#x) and [two [brackets]](c.md "title"). `[not](d.md)`',
    '```',
    '[not](e.md)',
    '```',
    '![image](f.png)',
    '[definition]: g.md',
  ].join('\n');
  expect(linksOf(text).map(({ target }) => target)).toEqual(['a.md', 'b.md#x', 'c.md', 'f.png', 'g.md']);
});

it('makes anchors as GitHub does', () => {
  const text =
    '# POST /v1/gate\n## `pii_access`, write_access\n## Two words\n## Two words\n<a id="own"></a>\n```\n# no\n```';
  expect([...anchorsOf(text)]).toEqual([
    'post-v1gate',
    'pii_access-write_access',
    'two-words',
    'two-words-1',
    'own',
  ]);
});
