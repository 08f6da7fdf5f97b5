import {
  copyFile,
  mkdtemp,
  open,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { lockFile } from '../../src/revocation/file-lock.js';
import { LocalStore } from '../../src/revocation/local-store.js';
import { Recorder } from './recorder.js';

let folder: string;
let path: string;
let recorder: Recorder;
const opened: LocalStore[] = [];

async function openStore(at = path): Promise<LocalStore> {
  const store = await LocalStore.open(at, { log: recorder.log, observer: recorder });
  opened.push(store);
  return store;
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drs-store-'));
  path = join(folder, 'revoked.txt');
  recorder = new Recorder();
});

afterEach(async () => {
  vi.restoreAllMocks();
  for (const store of opened.splice(0)) await store.close();
  await rm(folder, { recursive: true });
});

/** The prototype of Node's file handles, which Node does not export. */
async function fileHandles(): Promise<Awaited<ReturnType<typeof open>>> {
  const handle = await open(folder, 'r');
  await handle.close();
  return Object.getPrototypeOf(handle) as typeof handle;
}

const io = () => Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });

describe('the store in a file', () => {
  test('keeps what it has acknowledged over a restart', async () => {
    const first = await openStore();
    await Promise.all([7, 9007199254740991, 7, 0].map((index) => first.record(index)));
    expect([first.size, first.has(7), first.has(8)]).toEqual([3, true, false]);
    await first.close();
    expect(await readFile(path, 'utf8')).toBe('7\n9007199254740991\n0\n');

    const second = await openStore();
    expect([0, 7, 8, 9007199254740991].map((index) => second.has(index))).toEqual([true, true, false, true]);
  });

  test('an index is not in force before it is on the disk', async () => {
    const store = await openStore();
    const sync = vi.spyOn(await fileHandles(), 'sync').mockImplementation(() => {
      expect(store.has(5)).toBe(false);
      return Promise.resolve();
    });
    await store.record(5);
    expect(sync).toHaveBeenCalledOnce();
    expect(store.has(5)).toBe(true);
  });

  test('requests that come during a flush share the next one', async () => {
    const store = await openStore();
    await Promise.all(Array.from({ length: 1000 }, (_, index) => store.record(index)));
    expect(store.size).toBe(1000);
    expect(recorder.syncs).toBe(2);
  });

  test('a request made in answer to another is not forgotten', async () => {
    const store = await openStore();
    for (let index = 0; index < 20; index++) await store.record(index);
    expect(store.size).toBe(20);
  });

  test('every torn tail is cut off, logged, and never read as another index', async () => {
    const whole = '9007199254740991';
    for (let length = 1; length <= whole.length; length++) {
      await writeFile(path, `5\n${whole.slice(0, length)}`);
      const store = await openStore();
      expect(store.size).toBe(1);
      expect(recorder.messages.at(-1)).toContain('cut off');
      await store.record(6);
      await store.close();
      expect(await readFile(path, 'utf8')).toBe('5\n6\n');
    }
  });

  test('damaged lines are skipped, logged with their number, counted, and left in place', async () => {
    const text = '# kept by hand\r\n1\r\n\r\nnonsense\n2 # second\n\0\0\n3\n';
    await writeFile(path, text);
    const store = await openStore();
    expect([1, 2, 3].map((index) => store.has(index))).toEqual([true, true, true]);
    expect([store.size, store.damagedLines, recorder.damagedLines]).toEqual([3, 2, 2]);
    expect(recorder.messages.map((message) => /revoked\.txt:\d+/.exec(message)?.[0])).toEqual([
      'revoked.txt:4',
      'revoked.txt:6',
    ]);
    await store.record(4);
    expect(await readFile(path, 'utf8')).toBe(`${text}4\n`);
  });

  test('a log is not flooded by a file that is no store', async () => {
    await writeFile(path, 'junk\n'.repeat(5000));
    await openStore();
    expect(recorder.damagedLines).toBe(5000);
    expect(recorder.messages).toHaveLength(21);
    expect(recorder.messages.at(-1)).toContain('5000 damaged lines');
  });

  test('a failed flush is no success: all that shared it are refused, and what was written is cut back', async () => {
    const store = await openStore();
    await store.record(1);
    vi.spyOn(await fileHandles(), 'sync').mockRejectedValueOnce(io());
    const outcomes = await Promise.allSettled([store.record(22), store.record(333)]);
    // The first makes a group of its own, the second is in the next group, which succeeds.
    expect(outcomes[0]).toMatchObject({ status: 'rejected', reason: { fault: 'not_recorded' } });
    expect(outcomes[1]).toMatchObject({ status: 'fulfilled' });
    expect([store.has(22), store.has(333)]).toEqual([false, true]);
    expect(await readFile(path, 'utf8')).toBe('1\n333\n');
    expect(recorder.messages.at(-1)).toContain('records again');
    await store.record(22);
    expect(store.has(22)).toBe(true);
  });

  test('part of a line that could not even be cut back is gone before the next line is written', async () => {
    const store = await openStore();
    await store.record(1);
    const handles = await fileHandles();
    const truncate = vi.spyOn(handles, 'truncate').mockRejectedValueOnce(io()).mockRejectedValueOnce(io());
    vi.spyOn(handles, 'write').mockImplementationOnce(async () => {
      const other = await open(path, 'r+');
      await other.writev([Buffer.from('98')], 2);
      await other.close();
      throw io();
    });
    await expect(store.record(987)).rejects.toThrow('EIO');
    expect(await readFile(path, 'utf8')).toBe('1\n98');
    await expect(store.record(4)).rejects.toThrow('EIO');
    expect(await readFile(path, 'utf8')).toBe('1\n98');
    await store.record(55);
    expect(truncate).toHaveBeenCalledTimes(3);
    expect(await readFile(path, 'utf8')).toBe('1\n55\n');
    await store.close();
    const again = await openStore();
    expect([again.size, again.has(1), again.has(55)]).toEqual([2, true, true]);
  });

  test('a write that takes only a part of the bytes is carried on', async () => {
    const store = await openStore();
    const write = vi.spyOn(await fileHandles(), 'write').mockImplementationOnce(async (buffer) => {
      await writeFile(path, '1');
      return { bytesWritten: 1, buffer };
    });
    await store.record(123);
    expect(write).toHaveBeenCalledTimes(2);
    expect(await readFile(path, 'utf8')).toBe('123\n');
  });

  test('a file that was edited or replaced meanwhile is not written over', async () => {
    const store = await openStore();
    await store.record(1);
    await writeFile(path, '2\n', { flag: 'a' });
    await expect(store.record(3)).rejects.toThrow('was changed');
    await rename(path, `${path}.old`);
    await expect(store.record(3)).rejects.toThrow('ENOENT');
    await writeFile(path, '1\n');
    await expect(store.record(3)).rejects.toThrow('was changed');
    expect(store.has(3)).toBe(false);
    expect(await readFile(`${path}.old`, 'utf8')).toBe('1\n2\n');
  });

  test('a file in the place of the one that is open is not taken for it, however alike they are', async () => {
    const store = await openStore();
    await store.record(1);
    await copyFile(path, `${path}.new`);
    await rename(`${path}.new`, path);
    await expect(store.record(3)).rejects.toThrow('was changed');
  });

  test('a store that cannot be opened says which and why', async () => {
    const missing = join(folder, 'no', 'such', 'folder.txt');
    await expect(openStore(missing)).rejects.toMatchObject({
      fault: 'unreadable',
      message: expect.stringMatching(
        /folder\.txt cannot be opened: ENOENT.*Its folder must exist/s,
      ) as string,
    });
    await expect(openStore(folder)).rejects.toMatchObject({ fault: 'unreadable' });
  });

  test('a closed store refuses', async () => {
    const store = await openStore();
    await store.close();
    await expect(store.record(1)).rejects.toMatchObject({ fault: 'closed' });
  });

  test('closing waits for what is being recorded', async () => {
    const store = await openStore();
    const recorded = store.record(77);
    await store.close();
    await recorded;
    expect(await readFile(path, 'utf8')).toBe('77\n');
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

  test('a failed opening leaves no lock behind', async () => {
    await expect(openStore(folder)).rejects.toThrow('EISDIR');
    await expect(stat(`${folder}.lock`)).rejects.toThrow('ENOENT');
  });

  const lockOf = async (changes: object) => {
    const lock = await lockFile(path);
    const owner = JSON.parse(await readFile(`${path}.lock`, 'utf8')) as object;
    await lock.release();
    await writeFile(`${path}.lock`, JSON.stringify({ ...owner, ...changes }));
  };
  const silence = async (secs: number) => {
    const then = new Date(Date.now() - secs * 1000);
    await utimes(`${path}.lock`, then, then);
  };

  test('of a process that has gone is taken over', async () => {
    await lockOf({ pid: 2 ** 22 + 1 });
    await openStore();
  });

  test('of a process whose PID another one has now is taken over', async () => {
    await lockOf({ startTime: '1' });
    await openStore();
  });

  test('of a process on another host counts for as long as it is touched', async () => {
    await lockOf({ realm: 'elsewhere', host: 'pod-7', pid: 12 });
    await expect(openStore()).rejects.toThrow(/process 12 on pod-7.*lapses 30 s later/);
    await silence(60);
    await openStore();
  });

  test('is touched for as long as it is held', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    await openStore();
    await silence(60);
    vi.advanceTimersByTime(5000);
    vi.useRealTimers();
    const isSilent = async () => Date.now() - (await stat(`${path}.lock`)).mtimeMs > 30_000;
    while (await isSilent());
  });

  test('that names nobody counts for a moment only', async () => {
    await writeFile(`${path}.lock`, '');
    await expect(openStore()).rejects.toThrow('just starting');
    await silence(60);
    await openStore();
  });

  test('when many take over a stale one, one gets it', async () => {
    for (let round = 0; round < 20; round++) {
      await lockOf({ startTime: '1' });
      const tries = await Promise.allSettled(Array.from({ length: 8 }, () => lockFile(path)));
      const won = tries.filter((one) => one.status === 'fulfilled');
      expect(won).toHaveLength(1);
      await won[0]?.value.release();
    }
  });
});
