import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { createVerifier } from '../../src/index.js';
import { decodeBundle } from '../../src/issue/index.js';
import { linksOf } from './markdown.js';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

it('the first screen of the README says how to start and to test, and leads each kind of reader to their page', () => {
  const screen = read('README.md').split('<!-- measured: call -->')[0] ?? '';
  expect(screen.split('\n').length).toBeLessThan(40);
  expect(screen).toMatch(/^```sh\nnpm start .*\nnpm test .*: 3 to 8 minutes$/m);
  for (const need of ['Node 20', 'npm', 'git', 'python3', 'make', 'g++']) expect(screen).toContain(need);
  for (const reader of ['I run a gateway', 'I have an MCP server', 'I issue delegations', 'I measure']) {
    const row = screen.split('\n').find((line) => line.startsWith('| ') && line.includes(reader)) ?? '';
    expect(linksOf(row).length, reader).toBeGreaterThan(0);
  }
});

it('the library example of docs/issuing.md makes a bundle that verifies', async () => {
  const [, code = ''] = /```ts\n(.*?)```/s.exec(read('docs/issuing.md')) ?? [];
  const issue = new URL('../../dist/issue/index.js', import.meta.url).href;
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-docs-'));
  const file = path.join(folder, 'example.mjs');
  writeFileSync(file, `${code.replace('drs-verify/issue', issue)}\nexport { header, args };\n`);
  const verifier = createVerifier({ workerThreads: 0 });
  try {
    const { header, args } = (await import(pathToFileURL(file).href)) as { header: string; args: object };
    const verdict = await verifier.verify(decodeBundle(header), { body: args });
    expect(verdict).toMatchObject({ valid: true, binding: 'match' });
  } finally {
    await verifier.close();
    rmSync(folder, { recursive: true });
  }
});
