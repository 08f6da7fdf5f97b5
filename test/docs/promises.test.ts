import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

/** Tests of a promise of docs/threat-model.md: how its text begins, and by file below test/ a part of each test's name. */
interface Promised {
  readonly promise: string;
  readonly tests: Readonly<Record<string, readonly string[]>>;
}
const promises = read('test/docs/promises.jsonl')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Promised);

/** A list item with its files, such as `verify/mutations` for `verify/mutations.test.ts`, and how many tests, if not one. */
function withTests(item: string): string {
  const text = item.replace(/ \(`[\w./-]+`[^()]*\)$/, '');
  const found = promises.filter(({ promise }) => text.startsWith(`- ${promise}`));
  expect([text, found.length]).toEqual([text, 1]);
  const files = Object.entries(found[0]?.tests ?? {}).map(
    ([file, { length }]) => `\`${file.replace(/\.test\.ts$/, '')}\`${length > 1 ? ` ${length}` : ''}`,
  );
  return `${text} (${files.join(', ')})`;
}

it('every promise of docs/threat-model.md has tests that exist, and names their files', async () => {
  const missing = promises.flatMap(({ promise, tests }) =>
    Object.entries(tests).flatMap(([file, names]) =>
      names.filter((name) => !read(`test/${file}`).includes(name)).map((name) => [promise, file, name]),
    ),
  );
  expect(missing).toEqual([]);
  const parts = read('docs/threat-model.md').split(/(?<=\n## Promises\n)|(?=\n## Configuration\n)/);
  expect(parts).toHaveLength(3);
  const items = parts[1]?.match(/^- .*$/gm) ?? [];
  expect(items).toHaveLength(promises.length);
  const page = parts.with(1, (parts[1] ?? '').replace(/^- .*$/gm, withTests)).join('');
  // Out of date? `npm test -- test/docs/promises.test.ts -u` writes it.
  await expect(page).toMatchFileSnapshot('../../docs/threat-model.md');
});
