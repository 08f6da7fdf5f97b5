import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Target } from '../../src/revocation/entry.js';
import { lineOf } from '../../src/revocation/store/entry-file.js';
import { LocalStore } from '../../src/revocation/store/local-store.js';
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
  LocalStore.open(path, { log: recorder.log, observer: recorder, maxEntries: 1e7, now: Date.now }, 0);

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
    // Receipts and keys as well in the last two.
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
    const ROOM = lineOf(entryOf(42)).length;
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
    try {
      // Before the end of its page, the store has room for a short line, and for a part of a longer one.
      const one = JSON.stringify({ did: 'did:key:z1' });
      const header = `${one.padEnd(PAGE - ROOM - 1)}\n`;
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
      expect(store.entries.size).toBe(1);
      expect(await readFile(path, 'utf8')).toBe(header);
      // A short line still fits.
      await store.record(entryOf(42));

      await rm(filler);
      await store.record(entryOf(1234567891));
      await store.close();
      expect(await readFile(path, 'utf8')).toBe(header + lineOf(entryOf(42)) + lineOf(entryOf(1234567891)));
      const again = await openStore();
      expect(Array.from(again.entries.values(), ({ target }) => target)).toEqual([
        'did:key:z1',
        42,
        1234567891,
      ]);
      await again.close();
    } finally {
      execFileSync('umount', [folder]);
    }
  });
});
