import {
  appendFile,
  chmod,
  mkdir,
  mkdtemp,
  open,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { lockFile } from '../../src/files/file-lock.js';
import { ENTRY_FILE } from '../../src/revocation/store/entry-file.js';
import { FileReplayStore } from '../../src/usage/file-store.js';
import { ReplayStoreError } from '../../src/usage/usage-store.js';
import { useInvocation } from '../../src/usage/use-invocation.js';
import { eventually } from '../support/eventually.js';
import { openFilesIn } from '../support/open-files.js';
import { chargeOf, limitOf, NOW } from './limits.js';

const LIMIT = limitOf('a', { maxCalls: 2, maxTotalMicroUsd: 100 });
const ONCE = limitOf('b', { level: 1, maxCalls: 9, exp: null });
const charge = chargeOf([LIMIT, ONCE], 30);
const END = NOW + 961;
const [COUNTER_END, ONCE_END] = [NOW + 3_600 + 7_200, NOW + 400 * 86_400];
const counterRow = (receipt: string, calls: number, micro_usd: number, end: number) => ({
  receipt,
  calls,
  micro_usd,
  end,
});
const back = {
  calls: 1,
  parts: [
    { receipt: LIMIT.receipt, microUsd: 30 },
    { receipt: ONCE.receipt, microUsd: 0 },
  ],
} as const;

type Note = (facts: object, message: string) => void;
let around: string;
let folder: string;
let file: string;
const log = { info: vi.fn<Note>(), warn: vi.fn<Note>(), error: vi.fn<Note>() };
const opened: FileReplayStore[] = [];

async function openStore(maxEntries = 1_000): Promise<FileReplayStore> {
  for (const store of opened.splice(0)) await store.close();
  const store = await FileReplayStore.open(folder, { maxEntries, log }, 0);
  opened.push(store);
  return store;
}

/** As another process opens it, beside the others. */
async function another(maxEntries = 1_000): Promise<FileReplayStore> {
  const store = await FileReplayStore.open(folder, { maxEntries, log }, 1_000);
  opened.push(store);
  return store;
}

beforeEach(async () => {
  around = await realpath(await mkdtemp(path.join(tmpdir(), 'drs-usage-')));
  folder = path.join(around, 'state');
  file = path.join(folder, 'usage.jsonl');
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.clearAllMocks();
  for (const store of opened.splice(0)) await store.close();
  await rm(around, { recursive: true });
});

const use = (store: FileReplayStore, key: string, charged: typeof charge | null = charge) =>
  store.use(key, NOW, 961, charged);
const lines = (...rows: readonly (readonly object[])[]) =>
  rows.map((line) => `${JSON.stringify(line)}\n`).join('');
const text = () => readFile(file, 'utf8');
const rowsOf = async () =>
  (await text())
    .trimEnd()
    .split('\n')
    .flatMap((line) => JSON.parse(line) as object[]);
const write = async (content: string) => {
  await mkdir(folder, { recursive: true });
  await writeFile(file, content);
};

test('a folder to which others can write is refused', async () => {
  await mkdir(folder);
  for (const mode of [0o777, 0o702, 0o770]) {
    await chmod(folder, mode);
    await expect(openStore()).rejects.toThrow(/others can write to .*state: its permissions are 07\d\d/);
  }
  await chmod(folder, 0o755);
  await expect(openStore()).resolves.toBeInstanceOf(FileReplayStore);
});

test('a counter of a receipt with the last end that there is can be read again', async () => {
  const last = limitOf('a', { maxCalls: 2, exp: Number.MAX_SAFE_INTEGER });
  await use(await openStore(), 'key', chargeOf([last]));
  expect(await (await openStore()).usageOf(last.receipt)).toEqual({ calls: 1, microUsd: 0 });
});

/** The prototype of Node's file handles, which Node does not export. */
async function fileHandles(): Promise<Awaited<ReturnType<typeof open>>> {
  const handle = await open(around, 'r');
  await handle.close();
  return Object.getPrototypeOf(handle) as typeof handle;
}
const full = () => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });

describe('the replay store in a file', () => {
  test('knows after a restart what was used, charged and given back', async () => {
    const store = await openStore();
    expect(await use(store, 'free', null)).toEqual({ kind: 'new', usage: [] });
    await use(store, 'first');
    await use(store, 'given back');
    expect(await store.refund('given back', back)).toBe('refunded');
    await use(store, 'again');
    const again = await openStore();
    for (const key of ['free', 'first', 'given back', 'again'])
      expect(await use(again, key, null)).toEqual({ kind: 'replayed' });
    expect(await again.usageOf(LIMIT.receipt)).toEqual({ calls: 2, microUsd: 60 });
    expect(await again.usageOf(ONCE.receipt)).toEqual({ calls: 2, microUsd: 0 });
    expect(await again.refund('given back', back)).toBe('repeated');
    expect(await use(again, 'third')).toMatchObject({ kind: 'reached', limit: { used: 2 } });
    expect(await again.refund('again', back)).toBe('refunded');
    expect((await use(await openStore(), 'third')).kind).toBe('new');
  });

  test('is a line for each change, written and flushed before it is answered, and for nobody else to read', async () => {
    const store = await openStore();
    const sync = vi.spyOn(await fileHandles(), 'datasync');
    await use(store, 'one\u009b\u202e');
    expect(sync).toHaveBeenCalledOnce();
    const after = (calls: number, usd: number) => [
      counterRow(LIMIT.receipt, calls, usd, COUNTER_END),
      counterRow(ONCE.receipt, calls, 0, ONCE_END),
    ];
    expect(await text()).toMatch(/^[ -~]+\n$/);
    expect(await rowsOf()).toEqual([
      { used: 'one\u009b\u202e', root: '', at: NOW, end: END },
      ...after(1, 30),
    ]);
    await store.refund('one\u009b\u202e', back);
    expect(sync).toHaveBeenCalledTimes(2);
    expect((await rowsOf()).slice(3)).toEqual([
      { refunded: 'one\u009b\u202e', root: '', at: NOW, end: END },
      ...after(0, 0),
    ]);
    // Refused calls and replays write nothing.
    const before = await text();
    await use(store, 'one\u009b\u202e');
    await store.refund('one\u009b\u202e', back);
    await store.use('dear', NOW, 961, chargeOf([LIMIT], 101));
    expect(await text()).toBe(before);
    const modes = await Promise.all(
      [folder, file, `${file}.lock`].map(async (at) => (await stat(at)).mode & 0o777),
    );
    expect(modes).toEqual([0o700, 0o600, 0o600]);
    if (process.platform === 'linux') expect(openFilesIn(around).toSorted()).toEqual([file, `${file}.lock`]);
  });

  test('flushes calls that come at the same time together, and allows no more than the limit', async () => {
    const store = await openStore();
    const sync = vi.spyOn(await fileHandles(), 'datasync');
    const uses = await Promise.all(Array.from({ length: 50 }, (_, at) => use(store, `at once ${at}`)));
    expect(uses.filter(({ kind }) => kind === 'new')).toHaveLength(2);
    expect(sync).toHaveBeenCalledOnce();
    await Promise.all([use(store, 'x', null), use(store, 'y', null)]);
    expect(sync).toHaveBeenCalledTimes(2);
  });

  test('leaves out what has run out, at the start, in a new file', async () => {
    const [live, ended] = ['live', 'ended'].map((name) => limitOf(name).receipt);
    await write(
      lines(
        [{ used: 'old', root: '', at: NOW - 971, end: NOW - 10 }, counterRow(ended ?? '', 7, 0, NOW - 9)],
        [{ used: 'live', root: '', at: NOW, end: NOW + 500 }, counterRow(live ?? '', 1, 5, NOW + 500)],
        [{ refunded: 'live', root: '', at: NOW, end: NOW + 500 }, counterRow(live ?? '', 0, 0, NOW + 400)],
        [{ forgotten_until: NOW - 5 }],
      ),
    );
    // What a killed process has left.
    await writeFile(`${file}.new`, 'half');
    const store = await openStore();
    const kept = lines(
      [{ forgotten_until: NOW - 5 }],
      [{ lost_at: NOW - 971 }],
      [{ refunded: 'live', root: '', at: NOW, end: NOW + 500 }],
      [counterRow(live ?? '', 0, 0, NOW + 400)],
    );
    expect(await text()).toBe(kept);
    await expect(stat(`${file}.new`)).rejects.toThrow('ENOENT');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await use(store, 'next', null);
    expect(await text()).toBe(kept + lines([{ used: 'next', root: '', at: NOW, end: END }]));
    // A counter that is forgotten does not begin again where the clock goes back.
    const late = store.use(
      'late',
      NOW - 8_000,
      961,
      chargeOf([limitOf('late', { maxCalls: 1, exp: NOW - 7_300 })]),
    );
    await expect(late).rejects.toThrow('the clock has gone back');
  });

  test('cuts off a torn last line, and keeps one that lacks only its line feed', async () => {
    const whole = lines([
      { used: 'b', root: '', at: NOW, end: END },
      counterRow(LIMIT.receipt, 1, 30, COUNTER_END),
    ]);
    for (const length of [1, 20, whole.length - 2, whole.length - 1]) {
      await write(lines([{ used: 'a', root: '', at: NOW, end: END }]) + whole.slice(0, length));
      const [store, count] = [await openStore(), length === whole.length - 1 ? 1 : 0];
      expect([store.size, (await store.usageOf(LIMIT.receipt))?.calls ?? 0]).toEqual([1 + count, count]);
      await use(store, 'c', null);
      expect((await text()).endsWith(`\n${lines([{ used: 'c', root: '', at: NOW, end: END }])}`)).toBe(true);
      await store.close();
    }
    expect(log.warn.mock.calls.at(0)).toContainEqual(
      expect.stringContaining('it is no entry, and is cut off'),
    );
  });

  test.each(
    [
      'hello;{};null;[7];[[]];{"did":"did:key:z1"};[{"used":"a"}];[{"end":1,"used":"a"}];[{"used":"a","root":"","at":1,"end":-1}];[{"used":7,"root":"","at":1,"end":1}]',
      '[{"used":"a","root":"","at":1,"end":1,"more":1}];[{"refunded":null,"root":"","at":1,"end":1}];[{"forgotten_until":"x"}];[{"used":"a","root":"","at":1,"end":1},{"other":1}]',
      '[{"receipt":7,"calls":1,"micro_usd":1,"end":1}];[{"receipt":"a","calls":-1,"micro_usd":1,"end":1}];[{"receipt":"a","calls":1}]',
      '[{"receipt":"a","calls":1,"micro_usd":"1","end":1}];[{"used":"a","used":"b","root":"","at":1,"end":1}];[{"used":"a","root":1,"at":1,"end":1}];[{"used":"a","root":"","at":"1","end":1}];[{"lost_at":-1}];\0\0',
    ].flatMap((row) => row.split(';')),
  )('does not start with a line that it does not know, and changes nothing: %s', async (line) => {
    const given = `${lines([{ used: 'a', root: '', at: NOW, end: END }])}${line}\n`;
    await write(given);
    const says = `^${file}:2 is no entry: .*Nothing may be skipped: put a whole copy .*begin again\\.$`;
    await expect(openStore()).rejects.toThrow(new RegExp(says, 's'));
    expect(await text()).toBe(given);
    if (process.platform === 'linux') expect(openFilesIn(around)).toEqual([]);
  });

  test('says why its folder or its file cannot be used', async () => {
    folder = path.join(around, 'no', 'such');
    await expect(openStore()).rejects.toThrow('the folder of used calls cannot be created: ENOENT');
    await writeFile((folder = path.join(around, 'file')), '');
    await expect(openStore()).rejects.toThrow('the record of used calls');
  });

  test('that cannot be written refuses, charges nothing, and tries again with the next call', async () => {
    const store = await openStore();
    await use(store, 'one');
    const before = await text();
    const handles = await fileHandles();
    vi.spyOn(handles, 'appendFile').mockRejectedValueOnce(full());
    vi.spyOn(handles, 'datasync').mockRejectedValueOnce(full());
    for (let times = 0; times < 2; times++) {
      const outcomes = await Promise.allSettled([
        use(store, 'two'),
        use(store, 'free', null),
        store.refund('one', back),
      ]);
      for (const outcome of outcomes) expect(outcome).toMatchObject({ status: 'rejected' });
      expect(await text()).toBe(before);
      expect(await store.usageOf(LIMIT.receipt)).toEqual({ calls: 1, microUsd: 30 });
    }
    expect(log.error).toHaveBeenCalledTimes(2);
    expect(log.error).toHaveBeenCalledWith(
      expect.objectContaining({ file, count: 3 }),
      `the record of used calls ${file} could not record: ENOSPC: no space left on device`,
    );
    expect((await use(store, 'two')).kind).toBe('new');
    expect(await use(store, 'free', null)).toEqual({ kind: 'new', usage: [] });
    expect(await use(store, 'three')).toMatchObject({ kind: 'reached' });
    expect(await store.refund('one', back)).toBe('refunded');
    const again = await openStore();
    expect(again.size).toBe(3);
    expect(await again.usageOf(LIMIT.receipt)).toEqual({ calls: 1, microUsd: 30 });
  });

  test('keeps the old file where the new one cannot be written, at the start too', async () => {
    const given = lines(
      [{ used: 'a', root: '', at: NOW, end: END }],
      [{ used: 'b', root: '', at: NOW, end: NOW - 1 }],
    );
    await write(given);
    vi.spyOn(await fileHandles(), 'sync')
      .mockResolvedValueOnce()
      .mockResolvedValueOnce()
      .mockRejectedValueOnce(full());
    await expect(openStore()).rejects.toThrow('its file cannot be used: ENOSPC');
    expect(await text()).toBe(given);
    await expect(stat(`${file}.new`)).rejects.toThrow('ENOENT');
    expect(openFilesIn(around)).toEqual([]);
    expect((await openStore()).size).toBe(1);
  });

  test('decides nothing on what is being written, and may yet be undone', async () => {
    const store = await openStore();
    const last = chargeOf([limitOf('last', { maxCalls: 1 })]);
    let fail: (error: Error) => void = () => undefined;
    const failing = new Promise<void>((_, reject) => (fail = reject));
    const sync = vi.spyOn(await fileHandles(), 'datasync').mockImplementationOnce(() => failing);
    const first = use(store, 'first', last);
    await eventually(() => expect(sync).toHaveBeenCalledOnce(), 1);
    const second = use(store, 'second', last);
    fail(full());
    await expect(first).rejects.toThrow('ENOSPC');
    expect((await second).kind).toBe('new');
    expect((await use(store, 'first', last)).kind).toBe('reached');
  });

  test('writes the file anew, and again where nobody knows whether its name is on the disk', async () => {
    const store = await openStore(9_000);
    const handles = await fileHandles();
    vi.spyOn(handles, 'datasync').mockRejectedValueOnce(full());
    await expect(use(store, 'undone', null)).rejects.toThrow('ENOSPC');
    const levels = Array.from({ length: 16 }, (_, level) => limitOf(`${level}`, { level, maxCalls: 9_999 }));
    const wave = (count: number, name: string, limits: typeof levels) =>
      Promise.all(
        Array.from({ length: count }, (_, at) =>
          use(store, `${name} ${at}`, limits.length === 0 ? null : chargeOf(limits)),
        ),
      );
    await wave(1_000, 'charged', levels);
    expect(await rowsOf()).toHaveLength(17_000);
    const sync = vi.spyOn(handles, 'sync').mockResolvedValueOnce().mockRejectedValueOnce(full());
    await expect(use(store, 'anew', null)).rejects.toThrow('ENOSPC');
    expect(sync).toHaveBeenCalledTimes(2);
    // So much is kept with these that the rows of the old file would not be too many.
    await wave(3_000, 'free', []);
    expect(sync).toHaveBeenCalledTimes(4);
    expect(await rowsOf()).toHaveLength(1_000 + 3_000 + 16);
    expect(await text()).not.toMatch(/undone|anew/);
    expect((await use(store, 'undone', null)).kind).toBe('new');
    expect(sync).toHaveBeenCalledTimes(4);
  });

  test('has as many places as it is given, and reads more than these', async () => {
    const store = await openStore(2);
    for (const key of ['a', 'b']) await use(store, key, null);
    await expect(use(store, 'c', null)).rejects.toThrow('it is full: 2 invocations are on record');
    const small = await openStore(1);
    expect(small.size).toBe(2);
    expect(await use(small, 'a', null)).toEqual({ kind: 'replayed' });
    expect(small.unreadyReason).toBe('replay_store_full');
  });

  test('is shared: each decides on what all have used, charged and given back', async () => {
    const [one, two] = [await openStore(), await another()];
    expect((await use(one, 'a')).kind).toBe('new');
    expect(await use(two, 'a', null)).toEqual({ kind: 'replayed' });
    const uses = await Promise.all(
      [one, two].flatMap((store, at) => [use(store, `b${at}`), use(store, `c${at}`)]),
    );
    expect(uses.map(({ kind }) => kind).toSorted()).toEqual(['new', 'reached', 'reached', 'reached']);
    expect(await two.refund('a', back)).toBe('refunded');
    expect(await one.refund('a', back)).toBe('repeated');
    for (const store of [one, two])
      expect(await store.usageOf(LIMIT.receipt)).toEqual({ calls: 1, microUsd: 30 });
    expect((await use(one, 'd')).kind).toBe('new');
    expect(await use(two, 'e')).toMatchObject({ kind: 'reached' });
  });

  test('is read from its beginning where another has written it anew, and nothing is forgotten', async () => {
    const [one, two] = [await openStore(), await another()];
    await use(one, 'a');
    const before = await stat(file);
    const three = await another();
    expect((await stat(file)).ino).not.toBe(before.ino);
    await use(three, 'b');
    for (const store of [one, two]) {
      for (const key of ['a', 'b']) expect(await use(store, key, null)).toEqual({ kind: 'replayed' });
      expect(await use(store, 'c')).toMatchObject({ kind: 'reached' });
    }
    await use(one, 'd', null);
    expect(await use(three, 'd', null)).toEqual({ kind: 'replayed' });
    if (process.platform === 'linux')
      expect(new Set(openFilesIn(around))).toEqual(new Set([file, `${file}.lock`]));
  });

  test('believes whole lines of a process that was killed, and cuts off half of one', async () => {
    const [one, two] = [await openStore(), await another()];
    const half = '[{"used":"half","root":"","at":1';
    await appendFile(file, lines([{ used: 'whole', root: '', at: NOW, end: END }]) + half);
    expect(await use(two, 'whole', null)).toEqual({ kind: 'replayed' });
    expect((await use(one, 'next', null)).kind).toBe('new');
    expect(await text()).not.toContain('half');
    expect(log.warn).toHaveBeenCalledTimes(1);
    await appendFile(file, 'notes of mine\n');
    for (const store of [one, two])
      await expect(use(store, 'more', null)).rejects.toThrow('its log says why');
    expect(await text()).toContain('notes of mine\n');
    expect(log.error).toHaveBeenLastCalledWith(
      expect.anything(),
      expect.stringMatching(/usage\.jsonl:\d behind byte \d+ is no entry/),
    );
  });

  test('refuses while somebody has removed its file, or made it shorter', async () => {
    const store = await openStore();
    await use(store, 'a', null);
    await rename(file, `${file}.away`);
    await expect(use(store, 'b', null)).rejects.toThrow('ENOENT');
    await rename(`${file}.away`, file);
    expect(await use(store, 'a', null)).toEqual({ kind: 'replayed' });
    await writeFile(file, '');
    for (const key of ['a', 'b']) await expect(use(store, key, null)).rejects.toThrow('its log says why');
    expect(log.error).toHaveBeenLastCalledWith(
      expect.anything(),
      expect.stringContaining('was changed while'),
    );
  });

  test('refuses where its lock file was removed, so that another process would not see its lock', async () => {
    const store = await openStore();
    await rm(`${file}.lock`);
    const other = await another();
    expect((await use(other, 'a', null)).kind).toBe('new');
    await expect(use(store, 'a', null)).rejects.toThrow(ReplayStoreError);
    expect(log.error).toHaveBeenLastCalledWith(
      expect.anything(),
      expect.stringContaining('its lock file was removed; restart'),
    );
  });

  test('refuses with the process that holds the lock, and nothing else of this machine', async () => {
    const store = await openStore();
    const lock = await lockFile(file, ENTRY_FILE);
    const refused = use(store, 'a', null);
    await expect(refused).rejects.toThrow(ReplayStoreError);
    await expect(refused).rejects.toThrow(`its file is held by process ${process.pid} on `);
    await expect(refused).rejects.not.toThrow(around);
    await lock.close();
    expect((await use(store, 'a', null)).kind).toBe('new');
  });

  test('remembers that it has forgotten, where the clock jumps ahead over a start and back', async () => {
    const rules = { scope: 'gate', windowSecs: 900, clockSkewSecs: 30 };
    const call = (store: FileReplayStore, jti: string, iat: number) =>
      useInvocation({ iss: 'did:key:z1', sub: 'did:key:z1', jti, iat, args: {} }, [], store, NOW, rules);
    expect(await call(await openStore(), 'inv:1', NOW + 30)).toBeNull();
    const clock = vi.spyOn(Date, 'now').mockReturnValue((NOW + 86_400) * 1000);
    expect((await openStore()).size).toBe(0);
    clock.mockRestore();
    for (let starts = 0; starts < 2; starts++)
      expect(await call(await openStore(), 'inv:1', NOW + 30)).toMatchObject({
        code: 'REPLAY_STORE_UNAVAILABLE',
      });
    const later = vi.spyOn(Date, 'now').mockReturnValue((NOW + 2) * 1000);
    expect(await use(await openStore(), 'other', null)).toMatchObject({ kind: 'new' });
    later.mockRestore();
  });

  test('keeps places free for others over all processes', async () => {
    const [one, two] = [await openStore(8), await another(8)];
    const useOf = (store: FileReplayStore, root: string, at: number) =>
      store.use(`${root} ${at}`, NOW, 961, null, root);
    for (let at = 0; at < 4; at++) await useOf(at % 2 === 0 ? one : two, 'greedy', at);
    for (const store of [one, two, await another(8)])
      await expect(useOf(store, 'greedy', 4)).rejects.toThrow('hold 4 of 8');
    expect((await useOf(two, 'other', 0)).kind).toBe('new');
  });

  test('records nothing when it is closed, and closes after what is being written', async () => {
    const store = await openStore();
    const used = use(store, 'a', null);
    await store.close();
    expect((await used).kind).toBe('new');
    await expect(use(store, 'b', null)).rejects.toThrow('the file is closed');
    expect((await openStore()).size).toBe(1);
  });
});
