import type * as timers from 'node:timers/promises';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type * as breakers from '../../src/usage/breaker.js';
import { Breaker } from '../../src/usage/breaker.js';

// The real timers, of which the tests see each one.
vi.mock('node:timers/promises', async (importOriginal) => {
  const real = await importOriginal<typeof timers>();
  return { ...real, setTimeout: vi.fn(real.setTimeout) };
});

const events: string[] = [];
let outageMs: number | undefined;
let isWell: boolean;
let probes: number;
let breaker: Breaker;
let ended: AbortController;

beforeEach(() => {
  events.length = 0;
  isWell = true;
  probes = 0;
  ended = new AbortController();
  breaker = new Breaker({
    probe: async () => {
      probes++;
      await fail('not yet');
    },
    onOpen: ({ message }) => events.push(`open: ${message}`),
    onClose: (milliseconds) => {
      outageMs = milliseconds;
      events.push('closed');
    },
    ended: ended.signal,
  });
});

afterEach(() => ended.abort());

const fail = (message: string) => (isWell ? Promise.resolve() : Promise.reject(new Error(message)));
const attempt = vi.fn(() => fail('no answer'));
const run = () =>
  breaker.run(attempt).then(
    () => 'done',
    (error: unknown) => (error as Error).message,
  );

describe('a breaker', () => {
  it('fails at once after three failures in a row, says so once, and closes by itself', async () => {
    const start = performance.now();
    isWell = false;
    expect(breaker.reason).toBeNull();
    for (let call = 0; call < 3; call++) expect(await run()).toBe('no answer');
    attempt.mockClear();
    for (let call = 0; call < 100; call++) expect(await run()).toMatch(/^no(t yet| answer)$/);
    expect(attempt).not.toHaveBeenCalled();
    await vi.waitFor(() => expect(probes).toBeGreaterThan(1), { timeout: 20_000 });
    expect(events).toEqual(['open: no answer']);
    // The newest one: it may fail for another reason by now.
    expect(breaker.reason?.message).toBe('not yet');
    isWell = true;
    await vi.waitFor(() => expect(events).toEqual(['open: no answer', 'closed']), { timeout: 20_000 });
    expect(breaker.reason).toBeNull();
    expect(outageMs).toBeGreaterThan(0);
    expect(outageMs).toBeLessThan(performance.now() - start);
    expect(await run()).toBe('done');
  });

  it('stays closed over failures with successes in between', async () => {
    for (let round = 0; round < 5; round++) {
      isWell = false;
      expect([await run(), await run()]).toEqual(['no answer', 'no answer']);
      isWell = true;
      expect(await run()).toBe('done');
    }
    expect(events).toEqual([]);
  });

  it('opens at once when it is told', async () => {
    breaker.open(new Error('connection lost'));
    breaker.open(new Error('connection lost'));
    expect(await run()).toBe('connection lost');
    expect(events).toEqual(['open: connection lost']);
  });

  it('leaves each instance another pause between two probes, which keeps no process alive', async () => {
    // Loaded once more: another file of this process may have loaded it with the real timers.
    const fresh = '../../src/usage/breaker.js?fresh';
    const { Breaker } = (await import(fresh)) as typeof breakers;
    vi.mocked(pause).mockClear();
    const random = vi.spyOn(Math, 'random').mockReturnValueOnce(0).mockReturnValueOnce(1);
    onTestFinished(() => random.mockRestore());
    for (let instance = 0; instance < 2; instance++) {
      const one = new Breaker({
        ...{ probe: () => Promise.resolve(), onOpen: () => undefined, onClose: () => undefined },
        ended: ended.signal,
      });
      one.open(new Error('connection lost'));
    }
    const options = { signal: expect.any(AbortSignal) as AbortSignal, ref: false };
    expect(vi.mocked(pause).mock.calls).toEqual([
      [187.5, undefined, options],
      [312.5, undefined, options],
    ]);
  });

  it('that was ended probes no more, and does not open', async () => {
    isWell = false;
    breaker.open(new Error('connection lost'));
    await vi.waitFor(() => expect(probes).toBe(1), { timeout: 20_000 });
    ended.abort();
    isWell = true;
    const seen = probes;
    // It makes its last pause, and what would follow it follows at once.
    await Promise.allSettled(vi.mocked(pause).mock.results.map(({ value }) => value as Promise<unknown>));
    await nextTurn();
    expect(probes).toBe(seen);
    expect(events).toEqual(['open: connection lost']);
  });
});
