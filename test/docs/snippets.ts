import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A block of code in a document. */
export interface Snippet {
  readonly document: string;
  readonly line: number;
  /** The second-level heading above it. */
  readonly section: string;
  readonly language: string;
  readonly code: string;
  /** The name of the file, from its first line. */
  readonly file: string | null;
  /**
   * The comment directly above it: `<!-- not run: why -->`, `<!-- excerpt: the file that holds it -->` or
   * `<!-- schema: the schema of docs/openapi.yaml that it has -->`.
   */
  readonly mark: { readonly kind: string; readonly says: string } | null;
}

/** The blocks of code of a document, in their order. */
export function snippetsOf(document: string, text: string): Snippet[] {
  const snippets: Snippet[] = [];
  let section = '';
  const parts = text.matchAll(
    /^## ([^\n]+)$|^(?:<!-- (not run|excerpt|schema): ([^\n]+) -->\n)?```(\w*)\n(.*?)^```$/gms,
  );
  for (const {
    0: whole,
    1: heading,
    2: kind,
    3: says = '',
    4: language = '',
    5: code = '',
    index,
  } of parts) {
    if (heading !== undefined) {
      section = heading;
      continue;
    }
    const fence = index + whole.indexOf('```');
    snippets.push({
      document,
      line: text.slice(0, fence).split('\n').length,
      section,
      language,
      code,
      file: /^\/\/ ([\w-]+\.[jt]s)\n/.exec(code)?.[1] ?? null,
      mark: kind === undefined ? null : { kind, says },
    });
  }
  return snippets;
}

/** README.md and the documents in docs/. */
const documents: readonly string[] = [
  'README.md',
  ...readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => path.join('docs', file))
    .sort(),
];

/** The blocks of code of all documents. */
export const snippets: readonly Snippet[] = documents.flatMap((document) =>
  snippetsOf(document, readFileSync(path.join(root, document), 'utf8')),
);
