/** A link of a Markdown document. */
export interface Link {
  readonly label: string;
  readonly target: string;
}

/** The links of a document, outside of code. Images and reference definitions count, too. */
export function linksOf(markdown: string): Link[] {
  const text = withoutCode(markdown);
  const inline = [...text.matchAll(/\[((?:[^[\]]|\[[^\]]*\])*)\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/g)];
  const definitions = [...text.matchAll(/^\[([^\]]+)\]:\s+(\S+)/gm)];
  return [...inline, ...definitions].map(([, label = '', target = '']) => ({ label, target }));
}

/** The anchors of a document, as GitHub makes them: from headings, and explicit ones. */
export function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of withoutFences(markdown).matchAll(/^#{1,6} +(.+?)(?: +#+)?$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '');
    const slug = plain
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let at = 1; anchors.has(anchor); at++) anchor = `${slug}-${at}`;
    anchors.add(anchor);
  }
  for (const [, id = ''] of markdown.matchAll(/<a (?:id|name)="([^"]+)">/g)) anchors.add(id);
  return anchors;
}

function withoutFences(markdown: string): string {
  return markdown.replace(/^(`{3,}|~{3,}).*\n[\s\S]*?^\1`*\s*$/gm, '');
}

/** Removes brackets from code, so that nothing in it looks like a link. */
function withoutCode(markdown: string): string {
  return withoutFences(markdown).replace(/`[^`\n]+`/g, (span) => span.replace(/[`[\]()]/g, ''));
}
