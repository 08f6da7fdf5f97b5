import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { VARIABLES } from '../../src/service/configuration/configuration.js';
import { anchorsOf, linksOf } from './markdown.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

const MADE = new Set(['.git', 'node_modules', 'dist', 'coverage', 'results', '.build', '.stryker-tmp']);

/** Every Markdown file of the repository. */
function documentsIn(folder: string): string[] {
  return readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) return MADE.has(entry.name) ? [] : documentsIn(file);
    return entry.name.endsWith('.md') ? [file] : [];
  });
}

const documents = documentsIn('');

/** The problem with a link; `null` if there is none. */
function findLinkDefect(document: string, target: string): string | null {
  if (/^(?:https?|mailto):/.test(target)) return null;
  const [relative = '', anchor] = target.split('#');
  const file = relative === '' ? document : path.join(path.dirname(document), decodeURIComponent(relative));
  if (file.startsWith('..')) return 'leads out of the repository';
  if (!existsSync(path.join(root, file))) return 'the file does not exist';
  if (anchor === undefined || anchor === '') return null;
  if (statSync(path.join(root, file)).isDirectory() || !file.endsWith('.md'))
    return 'has an anchor, and is no document';
  return anchorsOf(read(file)).has(anchor) ? null : 'the document has no such heading or anchor';
}

it('finds the documents of the repository', () => {
  expect(documents).toEqual(expect.arrayContaining(['README.md', 'SECURITY.md', 'docs/threat-model.md']));
});

describe.each(documents)('%s', (document) => {
  const text = read(document);

  it('has no dead link', () => {
    const defects = linksOf(text)
      .map(({ target }) => ({ target, defect: findLinkDefect(document, target) }))
      .filter(({ defect }) => defect !== null);
    expect(defects).toEqual([]);
  });

  it('names files that exist', () => {
    // A placeholder such as `<name>`, `*` or `…` names none.
    const named = [
      ...text.matchAll(/(?<=`)(?:src|test|scripts|bench|deploy|docs|examples|web|\.ci)\/[\w./-]+(?=`)/g),
    ];
    expect(named.map(([file]) => file).filter((file) => !existsSync(path.join(root, file)))).toEqual([]);
  });

  it('names nothing that lies outside the repository', () => {
    expect(text.match(/\.\.\/shared\b|(?<![\w.])\/(?:work|tmp|var\/tmp)\/\S*/g)).toBeNull();
  });
});

describe('docs/threat-model.md', () => {
  const text = read('docs/threat-model.md');

  /** The list items from one heading to another. */
  const rowsBetween = (start: string, end: string) => {
    const [from, to] = [text.indexOf(`\n${start}\n`), text.indexOf(`\n${end}\n`)];
    expect([from > 0, to > from]).toEqual([true, true]);
    return text
      .slice(from, to)
      .split('\n')
      .filter((line) => line.startsWith('- '));
  };

  it('links a specification beside each fail-closed rule, and each case that is none', () => {
    const rows = rowsBetween('## Fail-closed rules', '## Configuration');
    expect(rows.length).toBeGreaterThan(40);
    const isSpecified = (row: string) => /\]\([a-z/-]+\.md/.test(row);
    expect(rows.filter((row) => !isSpecified(row))).toEqual([]);
  });

  it('says of each configuration variable what an attacker gains, and of no other', () => {
    const section = text.slice(text.indexOf('## Configuration'));
    const items = [...section.matchAll(/^- ((?:`[A-Z][A-Z_]+`(?:, )?)+): \S/gm)];
    const names = items.flatMap(([, cell = '']) => cell.match(/[A-Z_]+/g) ?? []);
    expect(names.sort()).toEqual([...VARIABLES].sort());
  });

  it('names every environment variable that the code reads', () => {
    const sources = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' });
    const names = sources
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => [...read(path.join('src', file)).matchAll(/process\.env(?:\['|\.)([A-Z_]+)/g)])
      .map(([, name]) => name);
    expect(new Set(names).size).toBeGreaterThan(3);
    expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  });
});
