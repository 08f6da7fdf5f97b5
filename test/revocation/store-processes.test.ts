import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Target } from '../../src/revocation/entry.js';
import { LocalStore } from '../../src/revocation/store/local-store.js';
import { eventually } from '../support/eventually.js';
import { entryOf } from './entries.js';
import { Recorder } from './recorder.js';

const CHILD = fileURLToPath(new URL('store-child.mjs', import.meta.url));

let folder: string;
let path: string;
let recorder: Recorder;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drs-store-'));
  path = join(folder, 'revoked.txt');
  recorder = new Recorder();
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(folder, { recursive: true });
});

const openStore = () =>
  LocalStore.open(path, { log: recorder.log, observer: recorder, maxEntries: 1e6, lockWaitMs: 0 });

/** A process that holds the store, and revokes `count` indices if it is given any. */
function startChild(first = 0, step = 1, count = 0, ...mixed: string[]) {
  const child = spawn(process.execPath, [CHILD, path, String(first), String(step), String(count), ...mixed]);
  children.push(child);
  let said = '';
  child.stderr.on('data', (chunk) => (said += String(chunk)));
  const exited = once(child, 'exit').then(([code, signal]: unknown[]) => ({ code, signal, said }));
  return { child, exited };
}

test('kill -9 in a stream of revocations, four times: every acknowledged one is there, and none that was not asked for', async () => {
  const acknowledged: Target[] = [];
  const asked: { first: number; step: number }[] = [];
  for (let round = 0; round < 4; round++) {
    // Long indices, whose prefixes are other indices.
    const first = 10 ** (12 + round);
    const step = 7919 + round;
    asked.push({ first, step });
    // The lines move when the third begins.
    const { child, exited } = startChild(first, step, 1e6, ...(round < 2 ? [] : ['mixed']));
    let seen = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      if (line !== 'open') acknowledged.push(/^\d/.test(line) ? Number(line) : line);
      // Lines that were written before the end are still read: each of them was acknowledged.
      if (++seen === 150 + 100 * round) child.kill('SIGKILL');
    }
    expect(await exited).toEqual({ code: null, signal: 'SIGKILL', said: '' });
  }
  expect(acknowledged.length).toBeGreaterThan(1000);

  const store = await openStore();
  expect(acknowledged.filter((target) => !store.entries.has(target))).toEqual([]);
  const found = Array.from(store.entries.values(), ({ target }) =>
    Number(String(target).replace(/^\D+(256:)?/, '')),
  );
  await store.close();
  const wasAsked = (index: number) =>
    asked.some(
      ({ first, step }) => index >= first && index < first + 1e6 * step && (index - first) % step === 0,
    );
  expect(found.filter((number) => !wasAsked(number))).toEqual([]);
});

test('kill -9 while it compacts, three times: nothing is lost', async () => {
  const lines = Array.from({ length: 60_000 }, (_, at) => ` {"did":"did:key:z${at % 50_000}"}\n`);
  const repeated = lines.slice(50_000).join('');
  await symlink('.', path);
  await writeFile(`${path}.entries`, lines.slice(0, 50_000).join(''));
  for (let round = 0; round < 3; round++) {
    // The child before may have come to the end of it.
    await writeFile(`${path}.entries`, repeated, { flag: 'a' });
    const watcher = watch(folder);
    const { child, exited } = startChild();
    // Each time a little later: while it writes the new file, or when that has taken the place of the old one. Events that
    // nobody has read yet may come as one, so it may be open before there were as many.
    const opened = once(child.stdout, 'data');
    let seen = 0;
    const writes = new Promise<void>((resolve) => {
      watcher.on('change', (_, filename) => {
        if (filename === 'revoked.txt.entries.new' && ++seen > 2 * round) resolve();
      });
    });
    await Promise.race([writes, opened, exited]);
    child.kill('SIGKILL');
    expect(await exited).toMatchObject({ signal: 'SIGKILL' });
    await eventually(() => expect(seen).toBeGreaterThan(0));
    watcher.close();
  }
  const store = await openStore();
  expect(store.entries.size).toBe(50_000);
  await store.close();
  expect((await readFile(`${path}.entries`, 'utf8')).length).toBeLessThan(lines.join('').length);
});

describe('two processes', () => {
  test('the second is refused with the name of the file and its owner, until the first ends', async () => {
    const owner = startChild();
    const opened = once(owner.child.stdout, 'data').then(([chunk]: unknown[]) => String(chunk));
    expect(await Promise.race([opened, owner.exited])).toBe('open\n');
    const { pid } = owner.child;
    await expect(openStore()).rejects.toMatchObject({
      fault: 'locked',
      message: expect.stringMatching(
        new RegExp(`revoked\\.txt is in use by process ${pid} on .*\\.lock`),
      ) as string,
    });

    owner.child.kill('SIGKILL');
    await owner.exited;
    const store = await openStore();

    const { code, said } = await startChild().exited;
    expect(said).toContain(`is in use by process ${process.pid}`);
    expect(code).toBe(1);
    await store.close();
  });
});

/** Whether this process may mount file systems: as root, outside most containers. */
const canMount = (() => {
  try {
    execFileSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', tmpdir()], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

describe('a full disk', () => {
  test.skipIf(!canMount)('refuses, pretends nothing, and records again when there is room', async () => {
    const PAGE = 4096;
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
    try {
      // The store ends 6 bytes before the end of a page, so only a part of the next line fits.
      const header = `# ${'-'.repeat(PAGE - 6 - 3)}\n`;
      await writeFile(path, header);
      const store = await openStore();
      const filler = join(folder, 'filler');
      await expect(writeFile(filler, Buffer.alloc(64 * 1024))).rejects.toThrow('ENOSPC');

      const outcomes = await Promise.allSettled(
        [1234567890, 1234567891, 1234567892].map((i) => store.record(entryOf(i))),
      );
      for (const outcome of outcomes) {
        expect(outcome).toMatchObject({ status: 'rejected', reason: { fault: 'not_recorded' } });
      }
      expect(outcomes[0]).toMatchObject({ reason: { message: expect.stringContaining('ENOSPC') as string } });
      expect(store.entries.size).toBe(0);
      expect(await readFile(path, 'utf8')).toBe(header);
      // A short line still fits.
      await store.record(entryOf(42));

      await rm(filler);
      await store.record(entryOf(1234567891));
      await store.close();
      expect(await readFile(path, 'utf8')).toBe(`${header} 42\n 1234567891\n`);
      const again = await openStore();
      expect([again.entries.size, again.entries.has(42), again.entries.has(1234567891)]).toEqual([
        2,
        true,
        true,
      ]);
      await again.close();
    } finally {
      execFileSync('umount', [folder]);
    }
  });
});
