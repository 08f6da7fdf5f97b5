import { readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, open, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { readEntry, toJson, type LocalRevocation } from '../../src/revocation/entry.js';
import { lockFile as lockFileOf } from '../../src/files/file-lock.js';
import { ENTRY_FILE, lineOf } from '../../src/revocation/store/entry-file.js';
import { LocalStore } from '../../src/revocation/store/local-store.js';
import { openFilesIn } from '../support/open-files.js';
import { digest, entryOf } from './entries.js';
import { Recorder } from './recorder.js';

const NOW = Date.parse('2026-11-25T03:00:00Z');
const DAY = 86_400;
const [RECEIPT, KEY] = [digest('a'), 'did:key:z1'];

let folder: string;
let path: string;
let recorder: Recorder;
let now: number;
const opened: LocalStore[] = [];

async function openStore(at: string | undefined = path, maxEntries = 1e6, lockWaitMs = 0) {
  const deps = { log: recorder.log, observer: recorder, maxEntries, now: () => now };
  const store = await LocalStore.open(at, deps, lockWaitMs);
  opened.push(store);
  return store;
}

async function reopen(maxEntries?: number): Promise<LocalStore> {
  for (const store of opened.splice(0)) await store.close();
  return openStore(path, maxEntries);
}

const entriesOf = ({ entries }: LocalStore) => [...entries.values()];
const targetsOf = (store: LocalStore) => entriesOf(store).map(({ target }) => target);

beforeEach(async () => {
  // As the kernel names it.
  folder = await realpath(await mkdtemp(join(tmpdir(), 'drs-store-')));
  path = join(folder, 'revoked.txt');
  recorder = new Recorder();
  now = NOW;
});

afterEach(async () => {
  vi.restoreAllMocks();
  for (const store of opened.splice(0)) await store.close();
  await rm(folder, { recursive: true });
});

const lockFile = (at: string) => lockFileOf(at, ENTRY_FILE);

/** What the store writes of these indices. */
const lines = (...indices: readonly number[]) => indices.map((index) => lineOf(entryOf(index))).join('');

const expectFile = async (text: string) => expect(await readFile(path, 'utf8')).toBe(text);

/** The prototype of Node's file handles, which Node does not export. */
async function fileHandles(): Promise<Awaited<ReturnType<typeof open>>> {
  const handle = await open(folder, 'r');
  await handle.close();
  return Object.getPrototypeOf(handle) as typeof handle;
}

const io = () => Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
const containing = (text: string) => expect.stringContaining(text) as string;

const kernel = createRequire(import.meta.url)('fs-native-extensions') as { tryLock(fd: number): boolean };

const isLinux = process.platform === 'linux';
const expectOpenFiles = (...files: string[]) => {
  if (isLinux) expect(openFilesIn(folder).toSorted()).toEqual(files);
};

const ENTRIES: readonly LocalRevocation[] = [
  entryOf(7),
  entryOf(8, { at: NOW, reason: 'laptop "stolen"\n # twice 🔥' }),
  entryOf(RECEIPT, { at: NOW, exp: 1_800_000_000 }),
  entryOf(KEY, { at: NOW, reason: 'stolen\u009b2J\u202e' }),
];

describe('a line', () => {
  test.each(ENTRIES)('of $target says all', (entry) => {
    const line = lineOf(entry);
    expect(line.indexOf('\n')).toBe(line.length - 1);
    expect(toJson(entry)).not.toMatch(/[\0-\x1f\x7f-\x9f\u202e]/);
    expect(readEntry(line)).toEqual(entry);
  });

  test.each([
    ['{"status_list_index":42}', { target: 42 }],
    [' {"did":"did:key:z1","at":null,"reason":null,"exp":null}\r', { target: KEY }],
  ])('that somebody wrote, %s', (text, expected) => {
    expect(readEntry(text)).toMatchObject(expected);
  });

  test.each([
    ...['', ' ', '7', '7 # leaked', '# ours', '{}', '[]', '12a', '\0\0'],
    ...['{"status_list_index":9007199254740992}', '{"status_list_index":7}7'],
    ...['{"did":"did:key:z1","until":7}', '{"did":"did:key:z1","did":"did:key:z2"}'],
    ...['{"did":"did:key:z 1"}', '{"did":"key"}', '{"did":"did:key:z1","exp":7}'],
    ...['{"did":"did:key:z1","at":7}', '{"did":"did:key:z1","at":"2026-11-25"}'],
    '{"receipt":"sha256:A"}',
    `{"receipt":"sha256:${'A'.repeat(64)}"}`,
    `{"receipt":"${digest('a')}","exp":-1}`,
    `{"receipt":"${digest('a')}","did":"did:key:z1"}`,
    `{"did":"did:key:z1","reason":"${'x'.repeat(201)}"}`,
    `{"status_list_index":6}${' '.repeat(65_536)}`,
    // Longer than what is read at a time.
    'x'.repeat(3_000_000),
  ])('that is no entry keeps the store closed, and the file as it is: %.60s', async (text) => {
    const given = `${lines(1)}${text}\n${lines(6)}`;
    await writeFile(path, given);
    const says = new RegExp(
      `^${path}:2 is no entry: .*Nothing may be skipped: correct the line, or delete it\\.$`,
      's',
    );
    await expect(openStore()).rejects.toMatchObject({
      fault: 'unreadable',
      message: expect.stringMatching(says) as string,
    });
    expect((await readFile(path, 'utf8')) === given).toBe(true);
    expectOpenFiles();
  });
});

describe('the store in a file', () => {
  test('has entries of every kind after a restart, with when and why, and writes none twice', async () => {
    const store = await openStore();
    for (const entry of [...ENTRIES.slice(0, 2), entryOf(7)]) await store.record(entry);
    await expectFile(
      '{"status_list_index":7}\n{"status_list_index":8,"at":"2026-11-25T03:00:00.000Z","reason":"laptop \\"stolen\\"\\n # twice 🔥"}\n',
    );
    expect(store.entries.names).toBe(null);
    await Promise.all([...ENTRIES.slice(2), ...ENTRIES].map((entry) => store.record(entry)));
    expect(store.entries.names).not.toBe(null);
    expect([RECEIPT, KEY, 9].map((target) => store.entries.has(target))).toEqual([true, true, false]);
    expect(entriesOf(await reopen())).toEqual(ENTRIES);
    expect(recorder.messages).toEqual([]);
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

  test('keeps the file and its lock open and nothing else', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    expectOpenFiles(path, `${path}.lock`);
    await store.close();
    expectOpenFiles();
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
    const begin = performance.now();
    const first = store.record(entryOf(1000));
    await nextTurn();
    await Promise.all(Array.from({ length: 1000 }, (_, index) => store.record(entryOf(index))));
    await first;
    expect([store.entries.size, recorder.syncs]).toEqual([1001, 2]);
    expect(recorder.durations[0]).toBeLessThanOrEqual(performance.now() - begin);
  });

  test('every torn tail is cut off and logged, and one that lacks only its line feed is kept', async () => {
    const whole = lines(9007199254740991, 12);
    for (let length = 0; length <= whole.length; length++) {
      const text = whole.slice(0, length);
      const tail = text.slice(text.lastIndexOf('\n') + 1);
      recorder = new Recorder();
      await writeFile(path, lines(5) + text);
      const store = await openStore();
      const isWhole = tail.endsWith('}');
      const found = [5, 9007199254740991, 12].slice(0, text.split('\n').length + (isWhole ? 1 : 0));
      expect(targetsOf(store)).toEqual(found);
      const outcome = isWhole ? 'an entry' : 'no entry, and is cut off: nobody was told that it is recorded';
      const message = `warn the last line of ${path} has no line feed; it is ${outcome}`;
      expect(recorder.messages).toEqual(tail === '' ? [] : [message]);
      expect(recorder.details).toEqual(tail === '' ? [] : [{ file: path, bytes: tail.length, text: tail }]);
      await store.record(entryOf(6));
      await store.close();
      await expectFile(lines(...found, 6));
    }
  });

  test('zeros after the last line feed are what a power failure leaves', async () => {
    await writeFile(path, `${lines(5)}\0\0`);
    await (await openStore()).record(entryOf(6));
    expect(recorder.messages).toEqual([containing('is cut off')]);
    await expectFile(lines(5, 6));
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

  test.each([
    ['appendFile', lines(5, 42).trimEnd()],
    ['sync', lines(5, 42)],
  ] as const)(
    'a line feed that cannot be added (%s) refuses the start, and loses nothing',
    async (call, left) => {
      await writeFile(path, lines(5, 42).trimEnd());
      vi.spyOn(await fileHandles(), call).mockRejectedValueOnce(io());
      await expect(openStore()).rejects.toMatchObject({ fault: 'unreadable', message: containing('EIO') });
      await expectFile(left);
      const store = await openStore();
      expect(targetsOf(store)).toEqual([5, 42]);
      await store.record(entryOf(6));
      await expectFile(lines(5, 42, 6));
    },
  );

  test('a failed flush is no success: all that shared it are refused, and what was written is cut back', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    vi.spyOn(await fileHandles(), 'datasync').mockRejectedValueOnce(io());
    const outcomes = await Promise.allSettled([store.record(entryOf(22)), store.record(entryOf(333))]);
    const message = `the revocation store ${path} could not record: EIO: i/o error`;
    const cause = expect.objectContaining({ code: 'EIO' }) as Error;
    const reason = { name: 'RevocationStoreError', fault: 'not_recorded', message, cause };
    for (const outcome of outcomes) expect(outcome).toMatchObject({ status: 'rejected', reason });
    expect(targetsOf(store)).toEqual([1]);
    await expectFile(lines(1));
    expect(recorder.messages).toEqual([`error ${message}`]);
    expect(recorder.details).toEqual([{ err: cause, file: path, count: 2 }]);
    await store.record(entryOf(22));
    expect(targetsOf(store)).toEqual([1, 22]);
    await expectFile(lines(1, 22));
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
    for (const index of [987, 4]) {
      await expect(store.record(entryOf(index))).rejects.toThrow('EIO');
      await expectFile(`${lines(1)}{"st`);
    }
    await store.record(entryOf(55));
    expect(truncate).toHaveBeenCalledTimes(4);
    await expectFile(lines(1, 55));
    expect(targetsOf(await reopen())).toEqual([1, 55]);
  });

  test('a file that was edited or replaced meanwhile is not written over', async () => {
    const store = await openStore();
    await store.record(entryOf(1));
    await writeFile(path, lines(2), { flag: 'a' });
    await expect(store.record(entryOf(3))).rejects.toThrow(
      'the file was changed while this process had it open; restart the process to read it again, ' +
        'and stop it before editing the file next time',
    );
    await rename(path, `${path}.old`);
    await expect(store.record(entryOf(3))).rejects.toThrow('ENOENT');
    // However alike it is to the one that is open.
    await writeFile(path, lines(1));
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
    expect(store.entries.has(3)).toBe(false);
    expect(await readFile(`${path}.old`, 'utf8')).toBe(lines(1, 2));
  });

  test('lines of other programs are not cut off after a write that failed', async () => {
    const store = await openStore();
    vi.spyOn(await fileHandles(), 'datasync').mockRejectedValueOnce(io());
    await expect(store.record(entryOf(3))).rejects.toThrow('EIO');
    await writeFile(path, lines(4), { flag: 'a' });
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
    await expectFile(lines(4));
  });

  test('a file of another file system, mounted over it, is not taken for it', async () => {
    const store = await openStore();
    const handles = await fileHandles();
    vi.spyOn(handles, 'stat').mockImplementationOnce(async function (this: typeof handles) {
      const facts = await this.stat();
      return Object.assign(facts, { dev: facts.dev + 1 });
    });
    await expect(store.record(entryOf(3))).rejects.toThrow('was changed');
  });

  test('that cannot be opened says which and why, and leaves the lock free', async () => {
    const missing = join(folder, 'no', 'such', 'folder.txt');
    await expect(openStore(missing)).rejects.toMatchObject({
      fault: 'unreadable',
      message: expect.stringMatching(
        /folder\.txt cannot be opened: ENOENT.*Its folder must exist/s,
      ) as string,
      cause: expect.objectContaining({ code: 'ENOENT' }) as Error,
    });
    await symlink('other.txt', path);
    await symlink('revoked.txt', join(folder, 'other.txt'));
    await expect(openStore()).rejects.toThrow(`the revocation store ${path} cannot be opened: ELOOP: `);
    await rm(path);
    await mkdir(path);
    await expect(openStore()).rejects.toThrow('EISDIR');
    expectOpenFiles();
    await rm(path, { recursive: true });
    await openStore();
  });

  test('closing waits for what is being recorded, and leaves the lock of the next one alone', async () => {
    const first = await openStore();
    const recorded = first.record(entryOf(77));
    await first.close();
    await recorded;
    await expectFile(lines(77));
    await openStore();
    await first.close();
    await expect(openStore()).rejects.toMatchObject({ fault: 'locked' });
  });
});

describe('an entry that runs out', () => {
  const at = (days: number) => NOW / 1000 + days * DAY;

  test('goes two days after its exp, and does not come back with the file', async () => {
    const store = await openStore();
    await store.record(entryOf(RECEIPT, { exp: at(1) }));
    await store.record(entryOf(digest('b'), { exp: at(9) }));
    now += 2.9 * DAY * 1000;
    await store.record(entryOf(1));
    expect(targetsOf(store)).toEqual([RECEIPT, digest('b'), 1]);
    now += 0.2 * DAY * 1000;
    await store.record(entryOf(2));
    expect(targetsOf(store)).toEqual([digest('b'), 1, 2]);
    expect(targetsOf(await reopen())).toEqual([digest('b'), 1, 2]);
  });

  test('stays for longer if the next one says so, and no shorter', async () => {
    const store = await openStore();
    for (const exp of [at(5), at(9), at(9), at(3)]) await store.record(entryOf(RECEIPT, { exp }));
    expect(recorder.syncs).toBe(2);
    expect(entriesOf(store)).toEqual([entryOf(RECEIPT, { exp: at(9) })]);
    await store.record(entryOf(RECEIPT));
    await store.record(entryOf(RECEIPT, { exp: at(5) }));
    expect(entriesOf(await reopen())).toEqual([entryOf(RECEIPT)]);
  });

  test('fills the store once, however often it is said at a time', async () => {
    const store = await openStore(path, 2);
    const exps = [at(1), at(3), null, at(2)];
    await Promise.all(exps.map((exp) => store.record(entryOf(RECEIPT, { exp }))));
    expect(entriesOf(store)).toEqual([entryOf(RECEIPT)]);
    await store.record(entryOf(1));
    await expect(store.record(entryOf(2))).rejects.toMatchObject({ fault: 'full' });
    expect(targetsOf(await reopen())).toEqual([RECEIPT, 1]);
  });
});

describe('a full store', () => {
  test('refuses what is new, and takes what it has and what replaces a thing that has run out', async () => {
    const store = await openStore(path, 3);
    const outcomes = await Promise.allSettled([1, 2, 3, 4].map((target) => store.record(entryOf(target))));
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    await expect(store.record(entryOf(4))).rejects.toMatchObject({
      fault: 'full',
      message:
        'the revocation store has 3 entries, as many as REVOCATION_MAX_ENTRIES allows; raise it, or revoke in the status list',
    });
    await store.record(entryOf(3));
    // One that has more than are allowed is read whole.
    const small = await reopen(2);
    expect(targetsOf(small)).toEqual([1, 2, 3]);
    await expect(small.record(entryOf(4))).rejects.toMatchObject({ fault: 'full' });
    const other = await reopen(4);
    await other.record(entryOf(RECEIPT, { exp: NOW / 1000 }));
    now += 3 * DAY * 1000;
    await other.record(entryOf(4));
    expect(targetsOf(other)).toEqual([1, 2, 3, 4]);
  });

  test('has room for what could not be recorded', async () => {
    const store = await openStore(path, 1);
    vi.spyOn(await fileHandles(), 'datasync').mockRejectedValueOnce(io());
    await expect(store.record(entryOf(1))).rejects.toThrow('EIO');
    await store.record(entryOf(2));
    await expect(store.record(entryOf(3))).rejects.toMatchObject({ fault: 'full' });
  });

  test('without a file is always current, and forgets', async () => {
    const deps = { log: recorder.log, observer: {}, maxEntries: 1, now: Date.now };
    const store = await LocalStore.open(undefined, deps);
    await store.record(entryOf(KEY));
    expect([store.isCurrent, targetsOf(store)]).toEqual([true, [KEY]]);
    await expect(store.record(entryOf(1))).rejects.toMatchObject({ fault: 'full' });
    await store.close();
    const message = 'the revocation store is closed';
    await expect(store.record(entryOf(1))).rejects.toMatchObject({ fault: 'closed', message });
  });
});

describe('the lock', () => {
  test('a second opening is refused, by another name too, until the first is closed', async () => {
    const first = await openStore();
    const alias = join(folder, 'alias.txt');
    await symlink(path, alias);
    for (const name of [path, alias])
      await expect(openStore(name)).rejects.toMatchObject({
        fault: 'locked',
        message:
          `${path} is in use by process ${process.pid} on ${hostname()} (lock file ${path}.lock). ` +
          'Stop that process first, or set REVOCATION_STORE_PATH to a file of its own for each process.',
      });
    await first.close();
    await openStore(alias);
  });

  test('the next process waits for one that is just ending', async () => {
    const lock = await lockFile(path);
    const next = openStore(path, 1000, 5000);
    setTimeout(() => void lock.close(), 120);
    await next;
    await expect(openStore(path, 1000, 60)).rejects.toMatchObject({ fault: 'locked' });
  });

  test('names its owner, is for people only, and stays', async () => {
    await writeFile(`${path}.lock`, 'of another version\nprocess 12 on pod-7');
    await (await lockFile(path)).close();
    expect(await readFile(`${path}.lock`, 'utf8')).toBe(
      "The owner, or the last one. The kernel's lock ends with the process; this file stays.\n" +
        `process ${process.pid} on ${hostname()}`,
    );
    expectOpenFiles();
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
    expectOpenFiles();
    await openStore();
    await mkdir(`${path}.2.lock`);
    await expect(lockFile(`${path}.2`)).rejects.toMatchObject({ code: 'EISDIR' });
  });

  test('when many try to take it, one gets it', async () => {
    for (let round = 0; round < 12; round++) {
      const tries = [];
      for (let one = 0; one < 8; one++) {
        // Each is waited for at once: the first may be refused before the last one is made.
        tries.push(Promise.allSettled([lockFile(path)]).then(([settled]) => settled));
        // Some come while others are in the middle of it.
        for (let turn = 0; turn < round % 6; turn++) await nextTurn();
      }
      const settled = await Promise.all(tries);
      const won = settled.filter((one) => one.status === 'fulfilled');
      expect(won).toHaveLength(1);
      for (const one of settled)
        if (one.status === 'rejected') expect(one.reason).toMatchObject({ fault: 'locked' });
      await won[0]?.value.close();
    }
  });
});
