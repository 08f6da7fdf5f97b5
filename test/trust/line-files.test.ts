import { writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, open, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { readLinesAt } from '../../src/trust/followed-lines.js';
import { ROOTS } from '../../src/trust/line-files.js';
import { party } from '../support/chain.js';
import { openFilesIn } from '../support/open-files.js';

const MAX_BYTES = 64 * 1024 * 1024;

let folder: string;
let file: string;
const at = (name: string) => path.join(folder, name);
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'drs-roots-'));
  file = at('a.jsonl');
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(folder, { recursive: true });
});

/** Lets every reading of a file do something first. */
async function beforeReading(act: () => void) {
  await writeFile(file, '\n\n\n\n');
  const handle = await open(file);
  await handle.close();
  const handles = Object.getPrototypeOf(handle) as typeof handle;
  const { createReadStream } = handles as { createReadStream: (...args: unknown[]) => unknown };
  return vi.spyOn(handles, 'createReadStream').mockImplementation(function (
    this: unknown,
    ...args: unknown[]
  ) {
    act();
    return createReadStream.apply(this, args);
  } as unknown as typeof handle.createReadStream);
}

it('a directory has at most 1,000 files', async () => {
  await Promise.all(Array.from({ length: 1000 }, (_, name) => writeFile(at(`${name}.jsonl`), '')));
  expect((await readLinesAt(ROOTS, folder)).size).toBe(0);
  await writeFile(file, '');
  await expect(readLinesAt(ROOTS, folder)).rejects.toThrow(
    `${folder}: there are 1001 files, expected at most 1000`,
  );
});

it('a directory is its files *.jsonl that are not hidden', async () => {
  await expect(readLinesAt(ROOTS, folder)).rejects.toThrow(
    `${folder}: there is no *.jsonl in this directory`,
  );
  for (const name of ['c.jsonl', 'a.jsonl', '.b.jsonl', 'd.jsonl.bak', 'd.json', 'e'])
    await writeFile(at(name), JSON.stringify({ did: party().did, name }));
  const names = [...(await readLinesAt(ROOTS, folder)).values()].map(({ name }) => name);
  expect(names).toEqual(['a.jsonl', 'c.jsonl']);
  await mkdir(at('f.jsonl'));
  await expect(readLinesAt(ROOTS, folder)).rejects.toThrow(`${at('f.jsonl')}: it is not a file`);
});

it('all files together have at most 64 MiB, and are closed', async () => {
  await writeFile(file, '');
  await truncate(file, MAX_BYTES);
  await expect(readLinesAt(ROOTS, file)).rejects.toThrow(
    `${file}:1: it has ${MAX_BYTES} bytes, expected at most`,
  );
  if (process.platform === 'linux') expect(openFilesIn(folder)).toEqual([]);
  await writeFile(at('b.jsonl'), '1');
  await expect(readLinesAt(ROOTS, folder)).rejects.toThrow(
    `${folder}: it has ${MAX_BYTES + 1} bytes, expected at most ${MAX_BYTES}`,
  );
});

it('all files together have at most 10,000 documents', async () => {
  const lines = Array.from({ length: 10_000 }, (_, one) =>
    JSON.stringify({ did: `did:web:a.example:${one}` }),
  );
  await writeFile(file, lines.join('\n'));
  expect((await readLinesAt(ROOTS, file)).size).toBe(10_000);
  await writeFile(file, [...lines, '{"did":"did:web:a.example"}'].join('\n'));
  await expect(readLinesAt(ROOTS, file)).rejects.toThrow(
    `${file}: there are 10001 entries of a did:web, expected at most 10000`,
  );
});

it('links in a circle are named as such', async () => {
  await symlink('a.jsonl', file);
  await expect(readLinesAt(ROOTS, file)).rejects.toMatchObject({
    name: 'LinesError',
    message: `${file}: its symbolic links lead in a circle`,
    cause: expect.objectContaining({ code: 'ELOOP' }) as Error,
  });
});

it('a file that changes whenever it is read is given up after five times', async () => {
  let times = 0;
  const read = await beforeReading(() => writeFileSync(file, `\n\n\n\n${' '.repeat(++times)}`));
  await expect(readLinesAt(ROOTS, file)).rejects.toMatchObject({
    name: 'LinesError',
    message: `${file}: the files change while they are read`,
  });
  expect(times).toBe(5);
  read.mockRestore();
  // If it changes once, it is read once more.
  let isWritten = false;
  await beforeReading(() => {
    if (!isWritten) writeFileSync(file, '\n\n\n\n\n');
    isWritten = true;
  });
  expect((await readLinesAt(ROOTS, file)).size).toBe(0);
});
