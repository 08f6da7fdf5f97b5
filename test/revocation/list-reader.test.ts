import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createHash, randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_KEYS } from '../../src/protocol/key-resolver.js';
import { bufferOver, readList, readOnThread, transferable } from '../../src/revocation/lists/list-reader.js';
import {
  readStatusList,
  resolveIssuer,
  type StatusList,
} from '../../src/revocation/lists/read-status-list.js';
import type { StatusListError } from '../../src/revocation/lists/status-list-error.js';
import { credentialWith, encode, newIssuer, toJwt, withProof } from './lists.js';

const NOW = Date.parse('2026-06-01T12:00:00Z');
const never = new AbortController().signal;
const issuer = newIssuer();

// Bits that GZIP cannot shorten: as many bytes on the wire, and a third more in base64url.
const bits = randomBytes(300_000);
const long = credentialWith([], { issuer: issuer.did, credentialSubject: { encodedList: encode(bits) } });
const text = (credential: object) => Buffer.from(JSON.stringify(credential));

let threads = 0;
const countThread = () => threads++;

beforeEach(() => {
  threads = 0;
  process.on('worker', countThread);
});

afterEach(async () => {
  // A thread is told of a moment after it was started.
  await new Promise((resolve) => setImmediate(resolve));
  process.off('worker', countThread);
  vi.restoreAllMocks();
});

/** What a promise gives, its bits as a digest; or the parts of its error. */
const outcomeOf = (promise: Promise<StatusList>): Promise<unknown> =>
  promise.then(
    (list) => ({ ...list, bits: createHash('sha256').update(list.bits).digest('hex') }),
    (error: unknown) => {
      const { fault, message } = error as StatusListError;
      return { fault, message };
    },
  );

describe('a long list', () => {
  test('is read on another thread, and parsed on no other', async () => {
    const parse = vi.spyOn(JSON, 'parse');
    const list = await readList(text(long), 'application/vc', { nowMs: NOW, signal: never });
    expect(list.bits.equals(bits)).toBe(true);
    expect(threads).toBe(1);
    expect(parse.mock.calls.filter(([json]) => json.length > 1000)).toEqual([]);
  });

  test('that is short on the wire is unpacked on another thread', async () => {
    const packed = gzipSync(Buffer.alloc(2_000_000));
    const encodedList = `u${packed.toString('base64url')}`;
    const body = text(credentialWith([], { credentialSubject: { encodedList } }));
    expect(body.length).toBeLessThan(10_000);
    const list = await readList(body, 'application/vc', { nowMs: NOW, signal: never });
    expect([list.bits.length, threads]).toEqual([2_000_000, 1]);
  });

  test.each<[string, string, () => Promise<Buffer> | Buffer, string | undefined]>([
    ['a credential', 'application/vc', () => text(long), undefined],
    ['a credential with a proof', 'application/vc', () => text(withProof(long, issuer)), issuer.did],
    [
      'a JWT, in the middle of other bytes',
      'application/vc+jwt',
      async () =>
        Buffer.from(` ${await toJwt({ ...long, validFrom: '2026-01-01T00:00:00Z' }, issuer)}\n`).subarray(1),
      issuer.did,
    ],
    ['a proof by another', 'application/vc', () => text(withProof(long, newIssuer())), issuer.did],
    ['no proof', 'application/vc', () => text(long), issuer.did],
    ['broken JSON', 'application/vc', () => text(long).subarray(0, -1), undefined],
    [
      'bytes that are not UTF-8',
      'application/vc',
      () => Buffer.concat([text(long), Buffer.from([0xff])]),
      undefined,
    ],
    [
      'no gzip',
      'application/vc',
      () =>
        text({
          ...long,
          credentialSubject: {
            ...(long['credentialSubject'] as object),
            encodedList: `u${'A'.repeat(400_000)}`,
          },
        }),
      undefined,
    ],
    [
      'a list of tomorrow',
      'application/vc',
      () => text({ ...long, validFrom: '2026-06-02T00:00:00Z' }),
      undefined,
    ],
    ['another type', 'text/html', () => text(long), undefined],
  ])('%s gives what it gives when it is read in place', async (_, contentType, make, pinned) => {
    const issuer = pinned === undefined ? undefined : resolveIssuer(pinned, DEFAULT_KEYS);
    const options = { issuer, nowMs: NOW };
    const body = await make();
    const here = await outcomeOf(readStatusList(Buffer.from(body), contentType, options));
    const there = await outcomeOf(readList(body, contentType, { ...options, signal: never }));
    expect(there).toEqual(here);
    expect(threads).toBe(1);
  });
});

test('a short list, and a raw one of any length, are read in place', async () => {
  await readList(text(credentialWith([7])), 'application/vc', { nowMs: NOW, signal: never });
  const raw = await readList(bits, 'binary/octet-stream', { nowMs: NOW, signal: never });
  expect([raw.bits.equals(bits), threads]).toEqual([true, 0]);
});

test('a list is read in place up to 256 KiB, and one that is refused there is not read again', async () => {
  const short = JSON.stringify(credentialWith([7]));
  const readOf = async (body: string) => {
    await outcomeOf(readList(Buffer.from(body), 'application/vc', { nowMs: NOW, signal: never }));
    return threads;
  };
  expect(await readOf(short.padEnd(256 * 1024))).toBe(0);
  expect(await readOf(short.slice(1))).toBe(0);
  expect(await readOf(short.padEnd(256 * 1024 + 1))).toBe(1);
});

test('memory goes to a thread as a whole or not at all', () => {
  const whole = Buffer.from(new ArrayBuffer(10));
  expect(transferable(whole)).toEqual([whole.buffer]);
  expect(transferable(whole.subarray(1))).toEqual([]);
  expect(transferable(Buffer.from(new SharedArrayBuffer(10)))).toEqual([]);
  const part = new Uint8Array([1, 2, 3, 4]).subarray(1, 3);
  expect(bufferOver(part)).toEqual(Buffer.from([2, 3]));
});

test.each(['application/vc', 'application/vc+jwt'])(
  'a list that would take many times its length to parse is refused before: %s',
  async (contentType) => {
    const many = Buffer.from(`[${'{},'.repeat(300_000)}{}]`);
    const body = contentType.endsWith('jwt')
      ? Buffer.from(
          `${Buffer.from('{"alg":"EdDSA"}').toString('base64url')}.${many.toString('base64url')}.AA`,
        )
      : many;
    expect(await outcomeOf(readList(body, contentType, { nowMs: NOW, signal: never }))).toEqual({
      fault: 'malformed',
      message: 'it has more than 16384 values, expected a credential with one long encodedList',
    });
  },
);

describe('a thread', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-thread-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const task = () => ({ body: Buffer.alloc(10), contentType: 'application/vc', options: { nowMs: NOW } });
  const threadThat = (code: string) => {
    const file = path.join(folder, 'thread.mjs');
    writeFileSync(file, code);
    return file;
  };

  test.each([
    ['ends', 'process.exit(3)', 'the thread that read it ended with 3 and without an answer'],
    ['throws', 'throw new Error("no luck")', 'the thread that read it failed: no luck'],
  ])('that %s is a failed fetch', async (_, code, message) => {
    const { signal } = new AbortController();
    expect(await outcomeOf(readOnThread(threadThat(code), task(), signal))).toEqual({
      fault: 'internal',
      message,
    });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('that fails leaves its error as the cause', async () => {
    const reading = readOnThread(threadThat('throw new Error("no luck")'), task(), never);
    await expect(reading).rejects.toMatchObject({ cause: { message: 'no luck' } });
  });

  test('that runs out of memory is a failed fetch, and the process lives on', () => {
    const file = threadThat('const all = []; for (;;) all.push(new Array(1000).fill({}));');
    const reader = createRequire(import.meta.url)
      .resolve('#status-list-reader')
      .replace('-thread', '');
    const script = `
      const { readOnThread } = await import(${JSON.stringify(reader)});
      const task = { body: Buffer.alloc(10), contentType: 'application/vc', options: { nowMs: 0 } };
      const reading = readOnThread(${JSON.stringify(file)}, task, new AbortController().signal);
      await reading.catch(({ fault, message }) => console.log(fault, message));`;
    const output = execFileSync(
      process.execPath,
      ['--max-old-space-size=64', '--input-type=module', '-e', script],
      { encoding: 'utf8' },
    );
    expect(output).toMatch(/^internal the thread that read it failed: .*memory/);
  });

  test('is ended with the fetch it works for', async () => {
    const stop = new AbortController();
    const reading = outcomeOf(readOnThread(threadThat('for (;;);'), task(), stop.signal));
    stop.abort(Object.assign(new Error('given up'), { fault: 'timeout' }));
    expect(await reading).toEqual({ fault: 'timeout', message: 'given up' });
    expect(await outcomeOf(readOnThread(threadThat(''), task(), stop.signal))).toMatchObject({
      fault: 'timeout',
    });
  });
});
