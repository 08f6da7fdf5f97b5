import { describe, expect, it, vi } from 'vitest';
import { createMemoryReplayStore, ReplayStoreError } from '../../src/replay/index.js';

describe('the memory replay store', () => {
  it('answers at once, and knows a key until its time is over', () => {
    const store = createMemoryReplayStore();
    expect(store.record('a', 1000, 60)).toBe(true);
    expect(store.record('a', 1000, 60)).toBe(false);
    expect(store.record('a', 1059, 60)).toBe(false);
    expect(store.record('a', 1060, 60)).toBe(true);
  });

  it('refuses when it is full of live entries, and forgets none of them', () => {
    const store = createMemoryReplayStore({ maxEntries: 2 });
    store.record('a', 1000, 60);
    store.record('b', 1000, 60);
    expect(() => store.record('c', 1030, 60)).toThrow(ReplayStoreError);
    expect(() => store.record('c', 1030, 60)).toThrow('it is full: 2 invocations are on record');
    expect(store.record('a', 1030, 60)).toBe(false);
    expect(store.record('b', 1030, 60)).toBe(false);
    expect(store.record('c', 1060, 60)).toBe(true);
    expect(store.size).toBe(1);
  });

  it('says that it is full, until the first of its entries is over, also if no call comes', () => {
    const now = Math.floor(Date.now() / 1000);
    const store = createMemoryReplayStore({ maxEntries: 2 });
    store.record('over', now - 100, 60);
    expect(store.unreadyReason).toBeNull();
    store.record('live', now - 100, 3_600);
    expect(store.unreadyReason).toBeNull();
    expect(store.record('new', now, 3_600)).toBe(true);
    expect(store.unreadyReason).toBe('replay_store_full');
    expect(() => store.record('one more', now, 3_600)).toThrow(ReplayStoreError);
  });

  it('forgets a bounded number at a time, and faster than keys come in', () => {
    const store = createMemoryReplayStore({ maxEntries: 100 });
    for (let at = 0; at < 100; at++) store.record(`old ${at}`, 1000, 60);
    store.record('new', 2000, 60);
    expect(store.size).toBe(97);
    for (let at = 0; at < 40; at++) store.record(`new ${at}`, 2000, 60);
    expect(store.size).toBe(41);
  });

  it('works on after it was emptied by time', () => {
    const store = createMemoryReplayStore({ maxEntries: 1 });
    expect(store.record('a', 1000, 1)).toBe(true);
    expect(store.record('b', 2000, 1)).toBe(true);
    expect(store.record('c', 3000, 1)).toBe(true);
    expect(store.record('c', 3000, 1)).toBe(false);
  });

  it('forgets all when it is closed', async () => {
    const store = createMemoryReplayStore({ maxEntries: 1 });
    store.record('a', 1000, 60);
    await store.close();
    expect(store.size).toBe(0);
    expect(store.record('b', 1000, 60)).toBe(true);
    expect(() => store.record('c', 1000, 60)).toThrow(ReplayStoreError);
    expect(store.record('c', 2000, 60)).toBe(true);
  });

  it('warns once when it is nearly full, and again only after it was emptier', () => {
    const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
    const store = createMemoryReplayStore({ maxEntries: 10, log });
    const fill = (from: number, to: number, now: number) => {
      for (let at = from; at < to; at++) store.record(`${now} ${at}`, now, 60);
    };
    fill(0, 7, 1000);
    expect(log.warn).not.toHaveBeenCalled();
    fill(7, 10, 1000);
    expect(() => fill(10, 11, 1000)).toThrow(ReplayStoreError);
    expect(log.warn.mock.calls).toEqual([
      [{ entries: 8, capacity: 10 }, expect.stringContaining('nearly full')],
    ]);
    // When the old ones have expired, four are dropped for each new one.
    fill(0, 10, 2000);
    expect([store.size, store.capacity]).toEqual([10, 10]);
    expect(log.warn).toHaveBeenCalledTimes(2);
  });

  it('warns where the first entry nearly fills it', () => {
    const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
    createMemoryReplayStore({ maxEntries: 1, log }).record('a', 1000, 60);
    expect(log.warn).toHaveBeenCalledTimes(1);
  });

  it.each([0, -1, 1.5, Number.NaN])('is not made for %s entries', (maxEntries) => {
    expect(() => createMemoryReplayStore({ maxEntries })).toThrow(
      new RangeError(`maxEntries is ${maxEntries}, expected an integer of at least 1`),
    );
  });
});
