// Compares the tables of docs/configuration.md with the variables of the service (src/service/configuration/variables.ts).
// With --write, it writes them. The text between the tables is written by hand.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PAGE = fileURLToPath(new URL('../docs/configuration.md', import.meta.url));

/**
 * The page with its tables as the variables give them: one under each heading.
 * @param {string} page
 * @param {ReadonlyMap<string, readonly import('../src/cli/variables.js').Described[]>} sections
 */
export function withTables(page, sections) {
  const parts = page.split(/^(?=## )/m);
  const headings = parts.map((part) => /^## (.+)/.exec(part)?.[1] ?? '');
  for (const [heading, variables] of sections) {
    const at = headings.indexOf(heading);
    if (at === -1)
      throw new Error(`docs/configuration.md has no heading "## ${heading}": add it, and run again`);
    const rows = variables.map(
      (row) => `| \`${row.name}\` | ${row.default} | ${row.values} | ${row.says} |\n`,
    );
    const table = `| variable | default | values | what it means |\n|---|---|---|---|\n${rows.join('')}`;
    const prose = (parts[at] ?? '').replace(/^\|.*\n/gm, '').trimEnd();
    parts[at] = `${prose}\n\n${table}${at === parts.length - 1 ? '' : '\n'}`;
  }
  return parts.join('');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { describeVariables } = await import('../dist/cli/variables.js');
  const page = readFileSync(PAGE, 'utf8');
  const wanted = withTables(page, describeVariables());
  if (process.argv[2] === '--write') writeFileSync(PAGE, wanted);
  else if (wanted !== page) {
    console.error(
      'docs/configuration.md is not what src/service/configuration/variables.ts gives: ' +
        'run `node scripts/configuration-docs.mjs --write`',
    );
    process.exitCode = 1;
  }
}
