import { mkdir, mkdtemp, open, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { filesOf, lookAt, readBytes } from '../../src/trust/roots-files.js';
import { readTrustedRoots } from '../../src/trust/trusted-roots.js';
import { openFilesIn } from '../support/open-files.js';

const MAX_BYTES = 64 * 1024 * 1024;

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'drs-roots-'));
  file = path.join(folder, 'a.jsonl');
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(folder, { recursive: true });
});

/** Lets every reading of a file do something first. */
async function beforeReading(act: () => Promise<void>) {
  await writeFile(file, '\n\n\n\n');
  const handle = await open(file);
  await handle.close();
  const handles = Object.getPrototypeOf(handle) as typeof handle;
  const { read } = handles as { read: (...args: unknown[]) => Promise<{ bytesRead: number }> };
  return vi.spyOn(handles, 'read').mockImplementation(async function (this: unknown, ...args: unknown[]) {
    await act();
    return read.apply(this, args);
  } as unknown as typeof handle.read);
}

it('a directory has at most 1,000 files', async () => {
  await Promise.all(Array.from({ length: 1000 }, (_, at) => writeFile(path.join(folder, `${at}.jsonl`), '')));
  expect(await filesOf(folder)).toHaveLength(1000);
  await writeFile(file, '');
  await expect(filesOf(folder)).rejects.toThrow(`${folder}: there are 1001 files, expected at most 1000`);
});

it('a directory is its files *.jsonl that are not hidden, by name', async () => {
  await expect(filesOf(folder)).rejects.toThrow(`${folder}: there is no *.jsonl in this directory`);
  for (const name of ['c.jsonl', 'a.jsonl', '.b.jsonl', 'd.jsonl.bak', 'd.json', 'e'])
    await writeFile(path.join(folder, name), '');
  expect(await filesOf(folder)).toEqual([file, path.join(folder, 'c.jsonl')]);
  await mkdir(path.join(folder, 'f.jsonl'));
  await expect(lookAt(folder)).rejects.toThrow(`${path.join(folder, 'f.jsonl')}: it is not a file`);
});

it('a file of 64 MiB is read, and closed', async () => {
  await writeFile(file, '');
  await truncate(file, MAX_BYTES);
  expect((await readBytes(await lookAt(file)))[0]?.bytes.length).toBe(MAX_BYTES);
  if (process.platform === 'linux') expect(openFilesIn(folder)).toEqual([]);
});

it('all files together have at most 64 MiB, also where one has grown since it was looked at', async () => {
  const other = path.join(folder, 'b.jsonl');
  await writeFile(file, '12345');
  await writeFile(other, '');
  await truncate(other, MAX_BYTES - 5);
  const version = await lookAt(folder);
  await truncate(other, MAX_BYTES - 4);
  await expect(lookAt(folder)).rejects.toThrow(
    `${folder}: it has ${MAX_BYTES + 1} bytes, expected at most ${MAX_BYTES}`,
  );
  await expect(readBytes(version)).rejects.toThrow(`${other}: it is larger than ${MAX_BYTES} bytes`);
});

it('a file that becomes shorter while it is read is read as far as it goes', async () => {
  await beforeReading(() => truncate(file, 3));
  expect(String((await readBytes(await lookAt(file)))[0]?.bytes)).toBe('\n\n\n');
});

it('the state of files changes with them', async () => {
  await writeFile(file, '');
  const { files, mark } = await lookAt(folder);
  expect(files).toEqual([file]);
  await writeFile(path.join(folder, 'b.jsonl'), '');
  expect((await lookAt(folder)).mark).not.toBe(mark);
});

it('links in a circle are named as such', async () => {
  await symlink('a.jsonl', file);
  await expect(lookAt(file)).rejects.toMatchObject({
    name: 'TrustedRootsError',
    message: `${file}: its symbolic links lead in a circle`,
    cause: expect.objectContaining({ code: 'ELOOP' }) as Error,
  });
});

it('a file that changes whenever it is read is given up after five times', async () => {
  let written = 0;
  const read = await beforeReading(() => writeFile(file, `\n\n\n\n${' '.repeat(++written)}`));
  await expect(readTrustedRoots(file)).rejects.toMatchObject({
    name: 'TrustedRootsError',
    message: `${file}: the files change while they are read`,
  });
  expect(written).toBe(5);
  read.mockRestore();
  // If it changes once, it is read once more.
  let isWritten = false;
  await beforeReading(async () => {
    if (!isWritten) await writeFile(file, '\n\n\n\n\n');
    isWritten = true;
  });
  expect((await readTrustedRoots(file)).size).toBe(0);
});
