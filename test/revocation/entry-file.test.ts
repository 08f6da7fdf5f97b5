import { constants } from 'node:fs';
import {
  chmod,
  mkdtemp,
  open,
  readFile,
  readlink,
  realpath,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { toJson, type Entry, type Target } from '../../src/revocation/entry.js';
import { lineOf, readLine } from '../../src/revocation/store/entry-lines.js';
import { lockFile } from '../../src/revocation/store/file-lock.js';
import { LocalStore, type LocalStoreOptions } from '../../src/revocation/store/local-store.js';
import { digest, entryOf } from './entries.js';
import { Recorder } from './recorder.js';

const NOW = Date.parse('2026-11-25T03:00:00Z');
const DAY = 86_400;
const [RECEIPT, KEY] = [digest('a'), 'did:key:z1'];

let folder: string;
let path: string;
let recorder: Recorder;
const opened: LocalStore[] = [];

async function openStore(options: Partial<LocalStoreOptions> = {}): Promise<LocalStore> {
  const given = { log: recorder.log, observer: recorder, maxEntries: 1000, lockWaitMs: 0, now: () => NOW };
  const store = await LocalStore.open(path, { ...given, ...options });
  opened.push(store);
  return store;
}

const closeAll = async () => {
  for (const store of opened.splice(0)) await store.close();
};
const targetsOf = ({ entries }: LocalStore) => Array.from(entries.values(), ({ target }) => target);

/** What is in the store after a restart. */
async function reopened(): Promise<Target[]> {
  await closeAll();
  return targetsOf(await openStore());
}

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'drs-entries-')));
  path = join(folder, 'revoked.txt');
  recorder = new Recorder();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await closeAll();
  await rm(folder, { recursive: true });
});

const ENTRIES: readonly Entry[] = [
  entryOf(7),
  entryOf(8, { at: NOW, reason: 'laptop "stolen"\n # twice 🔥' }),
  entryOf(RECEIPT, { at: NOW, exp: 1_800_000_000 }),
  entryOf(KEY, { at: NOW, reason: 'stolen\u009b2J\u202e' }),
];

describe('a line', () => {
  test.each(ENTRIES)('of $target says all', (entry) => {
    const line = lineOf(entry);
    expect([line[0], line.indexOf('\n')]).toEqual([' ', line.length - 1]);
    expect(readLine(line.slice(0, -1))).toEqual(entry);
    expect(toJson(entry)).not.toMatch(/[\0-\x1f\x7f-\x9f\u202e]/);
    expect(readLine(toJson(entry))).toEqual(entry);
  });

  test.each([
    ['42 # stolen', { target: 42, reason: 'stolen' }],
    ['42 # {"at":"yesterday"}', { target: 42, reason: '{"at":"yesterday"}' }],
    ['42 # {"reason":7}', { target: 42, reason: '{"reason":7}' }],
    ['42 # {', { target: 42, reason: '{' }],
    ['42 #', { target: 42, reason: null }],
    [`42 #${'x'.repeat(300)}`, { target: 42, reason: 'x'.repeat(200) }],
    ['{"status_list_index":42}', { target: 42 }],
    ['{"did":"did:key:z1","at":null,"reason":null,"exp":null}', { target: KEY }],
  ])('that somebody wrote, %s', (text, expected) => {
    expect(readLine(text)).toMatchObject(expected);
  });

  test.each([
    '{}',
    '{"did":"did:key:z1","did":"did:key:z2"}',
    '{"did":"did:key:z 1"}',
    '{"did":"key"}',
    '{"did":"did:key:z1","exp":7}',
    '{"did":"did:key:z1","at":7}',
    '{"did":"did:key:z1","at":"2026-11-25"}',
    '{"receipt":"sha256:A"}',
    `{"receipt":"sha256:${'A'.repeat(64)}"}`,
    `{"receipt":"${digest('a')}","exp":-1}`,
    `{"receipt":"${digest('a')}","did":"did:key:z1"}`,
    `{"did":"did:key:z1","reason":"${'x'.repeat(201)}"}`,
    '[]',
  ])('that is none, %s', (text) => {
    expect(readLine(text)).toBe('unknown');
  });
});

describe('entries of every kind', () => {
  test('are there after a restart, with when and why, and a file of indices stays what it was', async () => {
    const store = await openStore();
    for (const entry of ENTRIES.slice(0, 2)) await store.record(entry);
    expect(await readFile(path, 'utf8')).toBe(
      ' 7\n 8 # {"at":"2026-11-25T03:00:00.000Z","reason":"laptop \\"stolen\\"\\n # twice 🔥"}\n',
    );
    expect(store.entries.names).toBe(null);
    for (const entry of ENTRIES.slice(2)) await store.record(entry);
    expect([store.entries.names !== null, store.entries.has(RECEIPT), store.entries.has(KEY)]).toEqual([
      true,
      true,
      true,
    ]);
    await closeAll();
    expect([...(await openStore()).entries.values()]).toEqual(ENTRIES);
    expect(recorder.messages).toEqual([]);
  });

  test('are never in a file that a version which knew only indices can open', async () => {
    await writeFile(path, '# ours\n7 # leaked\n');
    await chmod(path, 0o600);
    const store = await openStore();
    await store.record(entryOf(KEY));
    // What such a version does.
    await expect(open(await realpath(path), constants.O_RDWR | constants.O_CREAT)).rejects.toMatchObject({
      code: 'EISDIR',
    });
    expect(await readlink(path)).toBe('.');
    expect(await readFile(`${path}.entries`, 'utf8')).toBe(
      `# ours\n 7 # {"reason":"leaked"}\n {"did":"${KEY}"}\n`,
    );
    expect((await stat(`${path}.entries`)).mode & 0o777).toBe(0o600);
    // The same lock as before, also by another name.
    await symlink('revoked.txt', join(folder, 'alias.txt'));
    for (const name of [path, join(folder, 'alias.txt')])
      await expect(
        LocalStore.open(name, { log: recorder.log, observer: {}, maxEntries: 1, lockWaitMs: 0 }),
      ).rejects.toThrow(`${path} is in use by process ${process.pid}`);
    const { ino } = await stat(`${path}.entries`);
    await store.record(entryOf(RECEIPT));
    await store.record(entryOf(9));
    // They move once.
    expect((await stat(`${path}.entries`)).ino).toBe(ino);
    expect(await reopened()).toEqual([7, KEY, RECEIPT, 9]);
  });

  // The states in which a kill can leave the folder while the lines move.
  test.each([
    ['half of the new file', async () => writeFile(`${path}.entries.new`, ' {"di')],
    ['the new file, and no link', async () => writeFile(`${path}.entries`, ` 7\n {"did":"${KEY}"}\n`)],
    ['a link beside the file', async () => symlink('.', `${path}.new`)],
  ])('are not taken from %s, and move again', async (_, leave) => {
    await writeFile(path, '7\n8\n');
    await leave();
    const store = await openStore();
    expect(targetsOf(store)).toEqual([7, 8]);
    await store.record(entryOf(RECEIPT));
    expect(await reopened()).toEqual([7, 8, RECEIPT]);
  });

  test.each(['appendFile', 'sync', 'datasync'] as const)(
    'that cannot move (%s) are not acknowledged',
    async (call) => {
      const store = await openStore();
      await store.record(entryOf(7));
      const handle = await open(folder, 'r');
      await handle.close();
      vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, call).mockRejectedValueOnce(new Error('EIO'));
      await expect(store.record(entryOf(KEY))).rejects.toMatchObject({ fault: 'not_recorded' });
      expect(store.entries.has(KEY)).toBe(false);
      await store.record(entryOf(8));
      await store.record(entryOf(KEY));
      expect(await reopened()).toEqual([7, 8, KEY]);
    },
  );

  test('move also where only one of those that are written together is not an index', async () => {
    const store = await openStore();
    await Promise.all([entryOf(7), entryOf(KEY)].map((entry) => store.record(entry)));
    expect([await readlink(path), recorder.syncs]).toEqual(['.', 1]);
    expect(await reopened()).toEqual([7, KEY]);
  });

  test('are not moved over what somebody else wrote', async () => {
    const store = await openStore();
    await writeFile(path, '5\n', { flag: 'a' });
    await expect(store.record(entryOf(KEY))).rejects.toThrow('was changed');
    expect(await readFile(path, 'utf8')).toBe('5\n');
  });
});

describe('an entry that runs out', () => {
  const at = (days: number) => NOW / 1000 + days * DAY;

  test('goes two days after its exp, from memory and from the file', async () => {
    let now = NOW;
    const store = await openStore({ now: () => now });
    await store.record(entryOf(RECEIPT, { exp: at(1) }));
    await store.record(entryOf(digest('b'), { exp: at(9) }));
    now += 2.9 * DAY * 1000;
    await store.record(entryOf(1));
    expect(targetsOf(store)).toEqual([RECEIPT, digest('b'), 1]);
    now += 0.2 * DAY * 1000;
    await store.record(entryOf(2));
    expect(targetsOf(store)).toEqual([digest('b'), 1, 2]);
    await store.close();
    await openStore({ now: () => now });
    expect(recorder.messages).toEqual([expect.stringContaining('was compacted: 1 lines')]);
    expect(await readFile(`${path}.entries`, 'utf8')).not.toContain(RECEIPT);
  });

  test('stays for longer if the next one says so, and no shorter', async () => {
    const store = await openStore();
    for (const exp of [at(5), at(9), at(3)]) await store.record(entryOf(RECEIPT, { exp }));
    expect([...store.entries.values()]).toEqual([entryOf(RECEIPT, { exp: at(9) })]);
    await store.record(entryOf(RECEIPT));
    await store.record(entryOf(RECEIPT, { exp: at(5) }));
    await closeAll();
    expect([...(await openStore()).entries.values()]).toEqual([entryOf(RECEIPT)]);
  });
});

describe('compaction', () => {
  test('drops repeated lines, and nothing else', async () => {
    await writeFile(path, '# ours\n7 # leaked\n\n \r\n 7\n 8\n7\n');
    await openStore();
    expect(await readFile(path, 'utf8')).toBe('# ours\n 7 # {"reason":"leaked"}\n 8\n');
    expect(recorder.messages).toEqual([
      `info ${path} was compacted: 2 lines were repeated or no longer needed`,
    ]);
    expect(recorder.details).toEqual([{ file: path, dropped: 2, entries: 2 }]);
    await opened[0]?.record(entryOf(9));
    expect(await reopened()).toEqual([7, 8, 9]);
    await expect(stat(`${path}.new`)).rejects.toThrow('ENOENT');
  });

  test('keeps every entry of a file that is longer than what is written at a time', async () => {
    const lines = Array.from({ length: 2_500 }, (_, at) => ` {"did":"did:key:z${at}"}\n`);
    await symlink('.', path);
    await writeFile(`${path}.entries`, [...lines, lines[0]].join(''));
    await openStore();
    expect((await readFile(`${path}.entries`, 'utf8')) === lines.join('')).toBe(true);
  });

  test('that fails leaves everything as it is', async () => {
    await writeFile(path, ' 7\n 7\n');
    const handle = await open(folder, 'r');
    await handle.close();
    vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'appendFile').mockRejectedValueOnce(
      new Error('ENOSPC'),
    );
    const store = await openStore();
    expect(recorder.messages).toEqual([`warn ${path} could not be compacted: ENOSPC`]);
    expect(recorder.details).toEqual([{ file: path, dropped: 1, entries: 1, err: new Error('ENOSPC') }]);
    await store.record(entryOf(8));
    expect(await readFile(path, 'utf8')).toBe(' 7\n 7\n 8\n');
    await expect(stat(`${path}.new`)).rejects.toThrow('ENOENT');
  });
});

test('a store without a file is always current, and forgets', async () => {
  const store = await LocalStore.open(undefined, { log: recorder.log, observer: {}, maxEntries: 1 });
  await store.record(entryOf(KEY));
  expect([store.isCurrent, targetsOf(store)]).toEqual([true, [KEY]]);
  await expect(store.record(entryOf(1))).rejects.toMatchObject({ fault: 'full' });
  await store.close();
  await expect(store.record(entryOf(1))).rejects.toMatchObject({ fault: 'closed' });
});

test('a store is not the fuller for what is said of one thing at a time', async () => {
  const store = await openStore({ maxEntries: 2 });
  const exps = [1, 2, 3, null].map((days) => (days === null ? days : NOW / 1000 + days * DAY));
  await Promise.all(exps.map((exp) => store.record(entryOf(RECEIPT, { exp }))));
  expect([...store.entries.values()]).toEqual([entryOf(RECEIPT)]);
  await store.record(entryOf(1));
  await expect(store.record(entryOf(2))).rejects.toMatchObject({ fault: 'full' });
  expect(await reopened()).toEqual([RECEIPT, 1]);
});

test('a full store refuses what is new, and takes what it has and what replaces a thing that has run out', async () => {
  let now = NOW;
  const store = await openStore({ maxEntries: 3, now: () => now });
  const outcomes = await Promise.allSettled([1, 2, 3, 4].map((target) => store.record(entryOf(target))));
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
  await expect(store.record(entryOf(4))).rejects.toMatchObject({
    fault: 'full',
    message:
      'the revocation store has 3 entries, as many as REVOCATION_MAX_ENTRIES allows; raise it, or revoke in the status list',
  });
  await store.record(entryOf(3));
  await closeAll();
  // One that has more than are allowed is read whole.
  const small = await openStore({ maxEntries: 2, now: () => now });
  expect(targetsOf(small)).toEqual([1, 2, 3]);
  await expect(small.record(entryOf(4))).rejects.toMatchObject({ fault: 'full' });
  await closeAll();
  const other = await openStore({ maxEntries: 4, now: () => now });
  await other.record(entryOf(RECEIPT, { exp: NOW / 1000 }));
  now += 3 * DAY * 1000;
  await other.record(entryOf(4));
  expect(targetsOf(other)).toEqual([1, 2, 3, 4]);
});

test('the next process waits for one that is just ending', async () => {
  const lock = await lockFile(path);
  const next = openStore({ lockWaitMs: 5000 });
  setTimeout(() => void lock.release(), 120);
  await next;
  await expect(openStore({ lockWaitMs: 60 })).rejects.toMatchObject({ fault: 'locked' });
});
