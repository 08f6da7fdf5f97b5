import { mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { readEntry, toJson, type Entry, type Target } from '../../src/revocation/entry.js';
import { lineOf } from '../../src/revocation/store/entry-file.js';
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
    ...['', ' ', '7', '7 # leaked', '# ours', '{}', '[]'],
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
  ])('that is no entry keeps the store closed, and the file as it is: %s', async (text) => {
    expect(typeof readEntry(text)).toBe('string');
    await writeFile(path, `{"status_list_index":1}\n${text}\n`);
    await expect(openStore()).rejects.toMatchObject({
      fault: 'unreadable',
      message: expect.stringContaining(`${path}:2 is no entry: `) as string,
    });
    expect(await readFile(path, 'utf8')).toBe(`{"status_list_index":1}\n${text}\n`);
  });
});

test('entries of every kind are there after a restart, with when and why', async () => {
  const store = await openStore();
  for (const entry of ENTRIES.slice(0, 2)) await store.record(entry);
  expect(await readFile(path, 'utf8')).toBe(
    '{"status_list_index":7}\n{"status_list_index":8,"at":"2026-11-25T03:00:00.000Z","reason":"laptop \\"stolen\\"\\n # twice 🔥"}\n',
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

test('two names of a file share one lock', async () => {
  await openStore();
  await symlink('revoked.txt', join(folder, 'alias.txt'));
  for (const name of [path, join(folder, 'alias.txt')])
    await expect(
      LocalStore.open(name, { log: recorder.log, observer: {}, maxEntries: 1, lockWaitMs: 0 }),
    ).rejects.toThrow(`${path} is in use by process ${process.pid}`);
});

describe('an entry that runs out', () => {
  const at = (days: number) => NOW / 1000 + days * DAY;

  test('goes two days after its exp, and does not come back with the file', async () => {
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
    expect(targetsOf(await openStore({ now: () => now }))).toEqual([digest('b'), 1, 2]);
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
