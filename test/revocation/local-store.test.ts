import { readlinkSync } from 'node:fs';
import {
  copyFile,
  mkdir,
  mkdtemp,
  open,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { lockFile, type FileLock } from '../../src/revocation/store/file-lock.js';
import { lineOf } from '../../src/revocation/store/entry-file.js';
import { LocalStore } from '../../src/revocation/store/local-store.js';
import { openFilesIn } from '../support/open-files.js';
import { entryOf } from './entries.js';
import { Recorder } from './recorder.js';

const MAX_ENTRIES = 2_000_000;

let folder: string;
let path: string;
let recorder: Recorder;
const opened: LocalStore[] = [];

async function openStore(at = path): Promise<LocalStore> {
  const store = await LocalStore.open(at, {
    log: recorder.log,
    observer: recorder,
    maxEntries: MAX_ENTRIES,
    lockWaitMs: 0,
  });
  opened.push(store);
  return store;
}

beforeEach(async () => {
  // As the kernel names it.
  folder = await realpath(await mkdtemp(join(tmpdir(), 'drs-store-')));
  path = join(folder, 'revoked.txt');
  recorder = new Recorder();
});

afterEach(async () => {
  vi.restoreAllMocks();
  for (const store of opened.splice(0)) await store.close();
  await rm(folder, { recursive: true });
});

/** What the store writes of these indices. */
const lines = (...indices: readonly number[]) => indices.map((index) => lineOf(entryOf(index))).join('');

/** The prototype of Node's file handles, which Node does not export. */
async function fileHandles(): Promise<Awaited<ReturnType<typeof open>>> {
  const handle = await open(folder, 'r');
  await handle.close();
  return Object.getPrototypeOf(handle) as typeof handle;
}

const io = () => Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });

const kernel = createRequire(import.meta.url)('fs-native-extensions') as { tryLock(fd: number): boolean };

const isLinux = process.platform === 'linux';

describe('the store in a file', () => {
  test('keeps what it has acknowledged over a restart', async () => {
    const first = await openStore();
    await Promise.all([7, 9007199254740991, 7, 0].map((index) => first.record(entryOf(index))));
    expect([first.entries.size, first.entries.has(7), first.entries.has(8)]).toEqual([3, true, false]);
    await first.close();
    expect(await readFile(path, 'utf8')).toBe(lines(7, 9007199254740991, 0));

    const second = await openStore();
    expect([0, 7, 8, 9007199254740991].map((index) => second.entries.has(index))).toEqual([
      true,
      true,
      false,
      true,
    ]);
  });

  test('writes nothing for an index that it has, and says nothing while all is well', async () => {
    const store = await openStore();
    const begin = performance.now();
    await store.record(entryOf(5));
    await store.record(entryOf(5));
    expect([recorder.syncs, recorder.messages]).toEqual([1, []]);
    expect(recorder.durations[0]).toBeLessThanOrEqual(performance.now() - begin);
  });

  test('needs no observer', async () => {
    const store = await LocalStore.open(path, { log: recorder.log, observer: {}, maxEntries: 1 });
    opened.push(store);
    await store.record(entryOf(5));
    expect([store.entries.has(5), store.entries.size]).toEqual([true, 1]);
  });

  test('flushes the file and its folder when it opens, so that a new file is found after a crash', async () => {
    const synced: string[] = [];
    vi.spyOn(await fileHandles(), 'sync').mockImplementation(function (this: { fd: number }) {
      synced.push(isLinux ? readlinkSync(`/proc/self/fd/${this.fd}`) : '');
      return Promise.resolve();
    });
    await openStore();
    expect(synced).toEqual(isLinux ? [path, folder] : ['', '']);
  });

  test.runIf(isLinux)('keeps the file and its lock open and nothing else', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    expect(openFilesIn(folder).toSorted()).toEqual([path, `${path}.lock`]);
    await store.close();
    expect(openFilesIn(folder)).toEqual([]);
  });

  test('an index is not in force before it is on the disk', async () => {
    const store = await openStore();
    const sync = vi.spyOn(await fileHandles(), 'datasync').mockImplementation(() => {
      expect(store.entries.has(5)).toBe(false);
      return Promise.resolve();
    });
    await store.record(entryOf(5));
    expect(sync).toHaveBeenCalledOnce();
    expect(store.entries.has(5)).toBe(true);
  });

  test('requests that come during a flush share the next one', async () => {
    const store = await openStore();
    const first = store.record(entryOf(1000));
    await nextTurn();
    await Promise.all(Array.from({ length: 1000 }, (_, index) => store.record(entryOf(index))));
    await first;
    expect(store.entries.size).toBe(1001);
    expect(recorder.syncs).toBe(2);
  });

  test('a request made in answer to another is not forgotten', async () => {
    const store = await openStore();
    for (let index = 0; index < 20; index++) await store.record(entryOf(index));
    expect(store.entries.size).toBe(20);
  });

  test('every torn tail is cut off and logged, and one that lacks only its line feed is kept', async () => {
    const writer = await openStore();
    await writer.record(entryOf(9007199254740991));
    await writer.record(entryOf(12));
    await writer.close();
    const whole = await readFile(path, 'utf8');
    for (let length = 0; length <= whole.length; length++) {
      const [kept = '', tail = ''] = [/^.*\n/s, /[^\n]*$/].map(
        (part) => part.exec(whole.slice(0, length))?.[0] ?? '',
      );
      recorder = new Recorder();
      await writeFile(path, lines(5) + whole.slice(0, length));
      const store = await openStore();
      const isWhole = tail.endsWith('}');
      const found = [5, 9007199254740991, 12].slice(0, kept.split('\n').length + (isWhole ? 1 : 0));
      expect(Array.from(store.entries.values(), ({ target }) => target)).toEqual(found);
      const outcome = isWhole ? 'an entry' : 'no entry, and is cut off: nobody was told that it is recorded';
      const message = `warn the last line of ${path} has no line feed; it is ${outcome}`;
      expect(recorder.messages).toEqual(tail === '' ? [] : [message]);
      expect(recorder.details).toEqual(tail === '' ? [] : [{ file: path, bytes: tail.length, text: tail }]);
      await store.record(entryOf(6));
      await store.close();
      expect(await readFile(path, 'utf8')).toBe(lines(...found, 6));
    }
  });

  test.each([
    ['12a', 1],
    ['{"status_list_index":5}\nnonsense\n{"status_list_index":6}\n', 2],
    ['{"status_list_index":9007199254740992}\n', 1],
    ['{"did":"did:key:z1","until":7}\n', 1],
    ['{"status_list_index":7}7\n', 1],
    ['{"status_list_index":5}\n\0\0\n{"status_list_index":6}\n', 2],
    [`{"status_list_index":5}\n{"status_list_index":6}${' '.repeat(65_536)}\n`, 2],
    // Longer than what is read at a time.
    [`{"status_list_index":5}\n${'x'.repeat(3_000_000)}`, 2],
  ])('a file with a line that is no entry is not used, and left as it is', async (text, line) => {
    const given = text === '12a' ? '12a\n' : text;
    await writeFile(path, given);
    await expect(openStore()).rejects.toMatchObject({
      fault: 'unreadable',
      message: expect.stringMatching(
        new RegExp(
          `^${path}:${line} is no entry: .*Nothing may be skipped: correct the line, or delete it\\.$`,
          's',
        ),
      ) as string,
    });
    expect((await readFile(path, 'utf8')) === given).toBe(true);
    if (isLinux) expect(openFilesIn(folder)).toEqual([]);
  });

  test('a line has up to 65,536 characters, also in two parts of what is read at a time', async () => {
    const longest = (index: number) => lines(index).trimEnd().padEnd(65_536) + '\n';
    const text = Array.from({ length: 17 }, (_, index) => longest(index)).join('');
    expect(text.length).toBeGreaterThan(1024 * 1024);
    await writeFile(path, text);
    expect((await openStore()).entries.size).toBe(17);
  });

  test('what has no line feed for long is refused before the rest of it is read', async () => {
    await writeFile(path, `${lines(5)}${'x'.repeat(3_000_000)}`);
    const read = vi.spyOn(await fileHandles(), 'read');
    await expect(openStore()).rejects.toThrow(`${path}:2 is no entry`);
    expect(read).toHaveBeenCalledOnce();
  });

  test.each(['appendFile', 'sync'] as const)(
    'a line feed that cannot be added (%s) refuses the start, and loses nothing',
    async (call) => {
      await writeFile(path, lines(5, 42).trimEnd());
      vi.spyOn(await fileHandles(), call).mockRejectedValueOnce(io());
      await expect(openStore()).rejects.toMatchObject({
        fault: 'unreadable',
        message: expect.stringContaining('EIO') as string,
      });
      expect(await readFile(path, 'utf8')).toBe(
        call === 'appendFile' ? lines(5, 42).trimEnd() : lines(5, 42),
      );
      const store = await openStore();
      expect([store.entries.size, store.entries.has(42)]).toEqual([2, true]);
      await store.record(entryOf(6));
      expect(await readFile(path, 'utf8')).toBe(lines(5, 42, 6));
    },
  );

  test('zeros after the last line feed are what a power failure leaves', async () => {
    await writeFile(path, `${lines(5)}\0\0`);
    const store = await openStore();
    await store.record(entryOf(6));
    expect(recorder.messages).toEqual([expect.stringContaining('is cut off')]);
    expect(await readFile(path, 'utf8')).toBe(lines(5, 6));
  });

  test('a failed flush is no success: all that shared it are refused, and what was written is cut back', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    vi.spyOn(await fileHandles(), 'datasync').mockRejectedValueOnce(io());
    const outcomes = await Promise.allSettled([store.record(entryOf(22)), store.record(entryOf(333))]);
    const message = `the revocation store ${path} could not record: EIO: i/o error`;
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: {
          name: 'RevocationStoreError',
          fault: 'not_recorded',
          message,
          cause: expect.objectContaining({ code: 'EIO' }) as Error,
        },
      });
    expect([store.entries.has(22), store.entries.has(333)]).toEqual([false, false]);
    expect(await readFile(path, 'utf8')).toBe(lines(1));
    expect(recorder.messages).toEqual([`error ${message}`]);
    expect(recorder.details).toEqual([
      { err: expect.objectContaining({ code: 'EIO' }) as Error, file: path, count: 2 },
    ]);
    await store.record(entryOf(22));
    expect(store.entries.has(22)).toBe(true);
    expect(await readFile(path, 'utf8')).toBe(lines(1, 22));
  });

  test('part of a line that could not even be cut back is gone before the next line is written', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    const handles = await fileHandles();
    const truncate = vi.spyOn(handles, 'truncate');
    for (let times = 0; times < 3; times++) truncate.mockRejectedValueOnce(io());
    vi.spyOn(handles, 'appendFile').mockImplementationOnce(async () => {
      const other = await open(path, 'r+');
      await other.writev([Buffer.from('{"st')], lines(1).length);
      await other.close();
      throw io();
    });
    await expect(store.record(entryOf(987))).rejects.toThrow('EIO');
    expect(await readFile(path, 'utf8')).toBe(`${lines(1)}{"st`);
    await expect(store.record(entryOf(4))).rejects.toThrow('EIO');
    expect(await readFile(path, 'utf8')).toBe(`${lines(1)}{"st`);
    await store.record(entryOf(55));
    expect(truncate).toHaveBeenCalledTimes(4);
    expect(await readFile(path, 'utf8')).toBe(lines(1, 55));
    await store.close();
    const again = await openStore();
    expect([again.entries.size, again.entries.has(1), again.entries.has(55)]).toEqual([2, true, true]);
  });

  test('a file that was edited or replaced meanwhile is not written over', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    await writeFile(path, lines(2), { flag: 'a' });
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
    await rename(path, `${path}.old`);
    await expect(store.record(entryOf(3))).rejects.toThrow('ENOENT');
    await writeFile(path, lines(1));
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
    expect(store.entries.has(3)).toBe(false);
    expect(await readFile(`${path}.old`, 'utf8')).toBe(lines(1, 2));
  });

  test('lines of other programs are not cut off, before the first write or after one that failed', async () => {
    const store = await openStore();
    await writeFile(path, lines(2), { flag: 'a' });
    await expect(store.record(entryOf(3))).rejects.toThrow(
      'the file was changed while this process had it open; restart the process to read it again, ' +
        'and stop it before editing the file next time',
    );
    expect(await readFile(path, 'utf8')).toBe(lines(2));
    await store.close();

    const again = await openStore();
    vi.spyOn(await fileHandles(), 'datasync').mockRejectedValueOnce(io());
    await expect(again.record(entryOf(3))).rejects.toThrow('EIO');
    await writeFile(path, lines(4), { flag: 'a' });
    await expect(again.record(entryOf(3))).rejects.toThrow('was changed');
    expect(await readFile(path, 'utf8')).toBe(lines(2, 4));
  });

  test('a file in the place of the one that is open is not taken for it, however alike they are', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    await copyFile(path, `${path}.new`);
    await rename(`${path}.new`, path);
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
  });

  test('nor is one of another file system, mounted over it', async () => {
    const store = await openStore();
    const handles = await fileHandles();
    vi.spyOn(handles, 'stat').mockImplementationOnce(async function (this: typeof handles) {
      const facts = await this.stat();
      return Object.assign(facts, { dev: facts.dev + 1 });
    });
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
  });

  test('a link that leads in a circle is no file', async () => {
    await symlink('other.txt', path);
    await symlink('revoked.txt', join(folder, 'other.txt'));
    await expect(openStore()).rejects.toThrow(`the revocation store ${path} cannot be opened: ELOOP: `);
  });

  test('what could not be recorded takes no room', async () => {
    const store = await LocalStore.open(path, { log: recorder.log, observer: {}, maxEntries: 1 });
    opened.push(store);
    vi.spyOn(await fileHandles(), 'datasync').mockRejectedValueOnce(io());
    await expect(store.record(entryOf(1))).rejects.toThrow('EIO');
    await store.record(entryOf(2));
    await expect(store.record(entryOf(3))).rejects.toMatchObject({ fault: 'full' });
  });

  test('a store that cannot be opened says which and why', async () => {
    const missing = join(folder, 'no', 'such', 'folder.txt');
    await expect(openStore(missing)).rejects.toMatchObject({
      fault: 'unreadable',
      message: expect.stringMatching(
        /folder\.txt cannot be opened: ENOENT.*Its folder must exist/s,
      ) as string,
      cause: expect.objectContaining({ code: 'ENOENT' }) as Error,
    });
    await expect(openStore(folder)).rejects.toMatchObject({ fault: 'unreadable' });
  });

  test('a closed store refuses', async () => {
    const store = await openStore();
    await store.close();
    await expect(store.record(entryOf(1))).rejects.toMatchObject({
      fault: 'closed',
      message: 'the revocation store is closed',
    });
  });

  test('closing it twice leaves the lock of the next one alone', async () => {
    const first = await openStore();
    await first.close();
    await openStore();
    await first.close();
    await expect(openStore()).rejects.toMatchObject({ fault: 'locked' });
  });

  test('closing waits for what is being recorded', async () => {
    const store = await openStore();
    const recorded = store.record(entryOf(77));
    await store.close();
    await recorded;
    expect(await readFile(path, 'utf8')).toBe(lines(77));
  });
});

describe('the lock', () => {
  test('a second opening is refused, by another name too, until the first is closed', async () => {
    const first = await openStore();
    const alias = join(folder, 'alias.txt');
    await symlink(path, alias);
    for (const name of [path, alias]) {
      await expect(openStore(name)).rejects.toMatchObject({
        fault: 'locked',
        message: expect.stringContaining(`${path} is in use by process ${process.pid}`) as string,
      });
    }
    await first.close();
    await openStore(alias);
  });

  test('says what to do', async () => {
    await openStore();
    await expect(openStore()).rejects.toThrow(
      `${path} is in use by process ${process.pid} on ${hostname()} (lock file ${path}.lock). ` +
        'Stop that process first, or set REVOCATION_STORE_PATH to a file of its own for each process.',
    );
  });

  test('names its owner, is for people only, and stays', async () => {
    await writeFile(`${path}.lock`, 'of another version\nprocess 12 on pod-7');
    const lock = await lockFile(path);
    await lock.release();
    expect(await readFile(`${path}.lock`, 'utf8')).toBe(
      "The owner, or the last one. The kernel's lock ends with the process; this file stays.\n" +
        `process ${process.pid} on ${hostname()}`,
    );
    if (isLinux) expect(openFilesIn(folder)).toEqual([]);
    await openStore();
    await writeFile(`${path}.lock`, 'of another\nversion\nprocess 12 on pod-7');
    await expect(openStore()).rejects.toThrow('in use by process 12 on pod-7 (');
    // Its owner is about to write its name.
    await writeFile(`${path}.lock`, '');
    await expect(openStore()).rejects.toThrow('in use by a process that is just starting (');
  });

  test('that cannot be made, taken or written says why, and is free then', async () => {
    await expect(lockFile(join(folder, 'no', 'such.txt'))).rejects.toMatchObject({ code: 'ENOENT' });
    vi.spyOn(await fileHandles(), 'writeFile').mockRejectedValueOnce(io());
    await expect(lockFile(path)).rejects.toThrow('EIO');
    vi.spyOn(kernel, 'tryLock').mockImplementationOnce(() => {
      throw new Error('ENOLCK');
    });
    await expect(openStore()).rejects.toThrow(/ENOLCK.*on a file system with locks/);
    if (isLinux) expect(openFilesIn(folder)).toEqual([]);
    await openStore();
    await mkdir(`${path}.2.lock`);
    await expect(lockFile(`${path}.2`)).rejects.toMatchObject({ code: 'EISDIR' });
  });

  test('is free after an opening that failed', async () => {
    await mkdir(path);
    await expect(openStore()).rejects.toThrow('EISDIR');
    if (isLinux) expect(openFilesIn(folder)).toEqual([]);
    await rm(path, { recursive: true });
    await openStore();
  });

  test('when many try to take it, one gets it', async () => {
    for (let round = 0; round < 12; round++) {
      const tries: Promise<PromiseSettledResult<FileLock>>[] = [];
      for (let one = 0; one < 8; one++) {
        // Each is waited for at once: the first may be refused before the last one is made.
        tries.push(Promise.allSettled([lockFile(path)]).then(([settled]) => settled));
        // Some come while others are in the middle of it.
        for (let turn = 0; turn < round % 6; turn++) await nextTurn();
      }
      const settled = await Promise.all(tries);
      const won = settled.filter((one) => one.status === 'fulfilled');
      expect(won).toHaveLength(1);
      for (const one of settled) {
        if (one.status === 'rejected') expect(one.reason).toMatchObject({ fault: 'locked' });
      }
      await won[0]?.value.release();
    }
  });
});
