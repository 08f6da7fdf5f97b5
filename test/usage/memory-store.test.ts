import { describe, expect, it, vi } from 'vitest';
import { createMemoryReplayStore, ReplayStoreError } from '../../src/usage/index.js';
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
