import { describe, expect, it, vi } from 'vitest';
import { createMemoryReplayStore, ReplayStoreError, useInvocation } from '../../src/usage/index.js';
import { NEW, REPLAYED } from '../../src/usage/usage-store.js';

describe('the memory replay store', () => {
  it('knows a key until its time is over', async () => {
    const store = createMemoryReplayStore();
    expect(await store.use('a', 1000, 60, null)).toBe(NEW);
    expect(await store.use('a', 1000, 60, null)).toBe(REPLAYED);
    expect(await store.use('a', 1059, 60, null)).toBe(REPLAYED);
    expect(await store.use('a', 1060, 60, null)).toBe(NEW);
    // Also after all that it had was forgotten.
    expect(await store.use('a', 1120, 60, null)).toBe(NEW);
  });

  it('refuses when it is full of live entries, and forgets none of them', async () => {
    const store = createMemoryReplayStore({ maxEntries: 2 });
    await store.use('a', 1000, 60, null);
    await store.use('b', 1000, 60, null);
    await expect(store.use('c', 1030, 60, null)).rejects.toThrow(ReplayStoreError);
    await expect(store.use('c', 1030, 60, null)).rejects.toThrow('it is full: 2 invocations are on record');
    expect(await store.use('a', 1030, 60, null)).toBe(REPLAYED);
    expect(await store.use('b', 1030, 60, null)).toBe(REPLAYED);
    expect(await store.use('c', 1060, 60, null)).toBe(NEW);
    expect(store.size).toBe(1);
  });

  it('says that it is full, until the first of its entries is over, also if no call comes', async () => {
    const now = Math.floor(Date.now() / 1000);
    const store = createMemoryReplayStore({ maxEntries: 2 });
    await store.use('over', now - 100, 60, null);
    expect(store.unreadyReason).toBeNull();
    await store.use('live', now - 100, 3_600, null);
    expect(store.unreadyReason).toBeNull();
    expect(await store.use('new', now, 3_600, null)).toBe(NEW);
    expect(store.unreadyReason).toBe('replay_store_full');
    const roomy = createMemoryReplayStore({ maxEntries: 2 });
    await roomy.use('live', now, 3_600, null);
    expect(roomy.unreadyReason).toBeNull();
    await expect(store.use('one more', now, 3_600, null)).rejects.toThrow(ReplayStoreError);
  });

  it('keeps as many places free for others as the calls of one principal hold', async () => {
    const store = createMemoryReplayStore({ maxEntries: 8 });
    const use = (root: string, at: number, now = 1000) => store.use(`${root} ${at}`, now, 60, null, root);
    for (let at = 0; at < 4; at++) expect(await use('greedy', at)).toBe(NEW);
    await expect(use('greedy', 4)).rejects.toThrow(
      'calls of this principal hold 4 of 8 records, and 4 are left for others',
    );
    // What it has used is still known to be used.
    expect(await use('greedy', 0)).toBe(REPLAYED);
    for (let at = 0; at < 2; at++) expect(await use('other', at)).toBe(NEW);
    await expect(use('other', 2)).rejects.toThrow('hold 2 of 8 records, and 2 are left');
    expect(await use('third', 0)).toBe(NEW);
    // Whoever has nothing on record any more begins anew.
    for (let at = 0; at < 4; at++) expect(await use('greedy', at, 1060)).toBe(NEW);
    await expect(use('greedy', 4, 1060)).rejects.toThrow('hold 4 of 8');
  });

  it('remembers that it has forgotten, where the clock jumps ahead and back', async () => {
    const store = createMemoryReplayStore();
    const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 30 };
    const use = (jti: string, iat: number, now: number) =>
      useInvocation({ iss: 'did:key:z1', sub: 'did:key:z1', jti, iat, args: {} }, [], store, now, rules);
    const now = 1_800_000_000;
    // Signed by a clock that is ahead.
    expect(await use('inv:1', now + 30, now)).toBeNull();
    expect(await use('inv:2', now + 86_400, now + 86_400)).toBeNull();
    expect(store.size).toBe(1);
    expect(await use('inv:1', now + 30, now)).toMatchObject({ code: 'REPLAY_STORE_UNAVAILABLE' });
    expect(await use('inv:3', now + 31, now + 1)).toBeNull();
  });

  it('refuses nobody for what has run out in its time', async () => {
    const store = createMemoryReplayStore();
    const rules = { scope: 'verify', windowSecs: 900, clockSkewSecs: 30 };
    for (let now = 1_800_000_000; now < 1_800_004_000; now += 50)
      for (const iat of [now - 900, now, now + 30]) {
        const claims = { iss: 'did:key:z1', sub: 'did:key:z1', jti: `inv:${now} ${iat}`, iat, args: {} };
        expect(await useInvocation(claims, [], store, now, rules)).toBeNull();
      }
    expect(store.lostAt).toBeGreaterThan(0);
  });

  it('forgets a bounded number at a time, and faster than keys come in', async () => {
    const store = createMemoryReplayStore({ maxEntries: 100 });
    for (let at = 0; at < 100; at++) await store.use(`old ${at}`, 1000, 60, null);
    await store.use('new', 2000, 60, null);
    expect(store.size).toBe(97);
    for (let at = 0; at < 40; at++) await store.use(`new ${at}`, 2000, 60, null);
    expect(store.size).toBe(41);
  });

  it('warns once when it is nearly full, and again only after it was emptier', async () => {
    const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
    const store = createMemoryReplayStore({ maxEntries: 10, log });
    const fill = async (from: number, to: number, now: number) => {
      for (let at = from; at < to; at++) await store.use(`${now} ${at}`, now, 60, null);
    };
    await fill(0, 7, 1000);
    expect(log.warn).not.toHaveBeenCalled();
    await fill(7, 10, 1000);
    await expect(fill(10, 11, 1000)).rejects.toThrow(ReplayStoreError);
    expect(log.warn.mock.calls).toEqual([
      [{ entries: 8, capacity: 10 }, expect.stringContaining('nearly full')],
    ]);
    // When the old ones have expired, four are dropped for each new one.
    await fill(0, 10, 2000);
    expect([store.size, store.capacity]).toEqual([10, 10]);
    expect(log.warn).toHaveBeenCalledTimes(2);
  });

  it.each([0, -1, 1.5, Number.NaN])('is not made for %s entries', (maxEntries) => {
    expect(() => createMemoryReplayStore({ maxEntries })).toThrow(
      new TypeError(`maxEntries is ${maxEntries}: expected a whole number, at least 1`),
    );
  });
});
