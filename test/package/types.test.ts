import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { packedFiles } from '../../scripts/packed-files.mjs';
import { compile, linkTypesOfNode, Project } from '../support/project.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What the documents ask for beside the types of Node. */
const NEEDED: Readonly<Record<string, readonly (readonly string[])[]>> = {
  '.': [[]],
  './ssh-agent': [[]],
  './middleware': [[]],
  './fastify': [['fastify']],
  './hono': [['hono']],
  './mcp': [['@modelcontextprotocol/server'], ['@modelcontextprotocol/sdk']],
  './a2a': [['@a2a-js/sdk']],
  './replay-store-contract': [[]],
};

/** test/edge compiles these without the types of Node. */
const OF_PAGES = ['./issue', './client', './pure'];

it('packs neither sources nor maps', () => {
  const code = packedFiles(root).filter((file) => !/^(?:docs|examples|deploy)\//.test(file));
  expect(code.filter((file) => file.startsWith('src/') || /\.map$|(?<!\.d)\.c?ts$/.test(file))).toEqual([]);
  const { files } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { files: string[] };
  expect(files).toContain('dist');
});

it('the types of each entry point compile without skipLibCheck, with only the packages that it needs', async () => {
  const { exports: entries } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, string | object>;
  };
  const typed = Object.keys(entries).filter((entry) => typeof entries[entry] === 'object');
  expect(new Set([...Object.keys(NEEDED), ...OF_PAGES])).toEqual(new Set(typed));
  // Each has a project of its own, so that none finds the packages of another.
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-verify-types-'));
  linkTypesOfNode(folder);
  for (const [entry, choices] of Object.entries(NEEDED))
    for (const packages of choices) {
      const project = Project.create('module', folder);
      project.install('@types/node', ...packages);
      project.write('use.ts', `import * as all from 'drs-verify${entry.slice(1)}';\nconsole.log(all);\n`);
    }
  expect(await compile(folder)).toBe('');
  rmSync(folder, { recursive: true });
});
