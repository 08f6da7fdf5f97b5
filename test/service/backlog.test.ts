import { describe, expect, it } from 'vitest';
import { Backlog, type BacklogLimits } from '../../src/service/load/backlog.js';
import type { Place } from '../../src/service/load/lanes.js';

// `overload.test.ts` simulates a service with it, in `npm run test:long`.
const LIMITS: BacklogLimits = { requestTimeoutSecs: 1, maxPending: 10_000 };

/** A backlog in an event loop whose time and turns the test decides. */
function backlog(limits = LIMITS) {
  const signatures = { waitMs: 0 };
  const turns: (() => void)[] = [];
  const pauses: (() => void)[] = [];
  const time = { now: 1000 };
  const backlog = new Backlog(limits, signatures, {
    now: () => time.now,
    defer: (turn) => turns.push(turn),
    pause: (turn) => pauses.push(turn),
  });
  const served: string[] = [];
  const refused: string[] = [];
  const counts: Record<string, number> = {};
  const places: Place[] = [];
  return {
    ...{ backlog, signatures, time, served, refused, turns, pauses, places },
    endTurn: () => turns.splice(0).forEach((turn) => turn()),
    /** Lets requests of a client wait that take so long each: `a0`, `a1` and so on. @returns how many may wait */
    add: (count: number, milliseconds = 1, client = 'a') => {
      let waiting = 0;
      for (let n = 0; n < count; n++) {
        const name = `${client}${(counts[client] = (counts[client] ?? -1) + 1)}`;
        const place = backlog.add(client, (isRefused) => {
          (isRefused ? refused : served).push(name);
          time.now += milliseconds;
        });
        if (place !== null) places.push(place);
        if (place !== null) waiting++;
      }
      return waiting;
    },
    addLarge: (name: string, milliseconds: number, client = 'a') =>
      backlog.addLarge(client, (isLate) => {
        (isLate ? refused : served).push(name);
        time.now += milliseconds;
      }),
  };
}

describe('the backlog', () => {
  it('serves a slice in each turn, oldest first, and nothing that has just come before what waits', () => {
    const { backlog: one, served, add, endTurn, turns } = backlog();
    add(7);
    expect([one.length, turns.length]).toEqual([7, 1]);
    endTurn();
    expect([served, one.hasTime({ client: 'a' })]).toEqual([['a0', 'a1', 'a2'], false]);
    add(1);
    endTurn();
    expect(served).toEqual(['a0', 'a1', 'a2', 'a3', 'a4', 'a5']);
    endTurn();
    expect([served.length, one.length, turns.length]).toEqual([8, 0, 0]);
    expect(one.hasTime({ client: 'a' })).toBe(true);
  });

  it('refuses what has waited too long, in its turn and for a bounded time', () => {
    const { served, refused, time, add, endTurn } = backlog({ ...LIMITS, requestTimeoutSecs: 0.1 });
    add(12);
    time.now += 100;
    endTurn();
    // What came in a long turn is served in the next.
    expect([served, refused]).toEqual([[], []]);
    endTurn();
    expect([served, refused]).toEqual([['a0'], ['a1', 'a2', 'a3', 'a4', 'a5']]);
    add(1);
    endTurn();
    expect(refused).toHaveLength(10);
    endTurn();
    expect([served, refused.length]).toEqual([['a0', 'a12'], 11]);
  });

  it('gives the clients turns, so that one who asks often delays only itself', () => {
    const { served, refused, time, add, endTurn } = backlog({ ...LIMITS, requestTimeoutSecs: 0.1 });
    add(500, 1, 'flood');
    add(2, 1, 'b');
    add(1, 1, 'c');
    endTurn();
    expect(served).toEqual(['flood0', 'b0', 'c0']);
    time.now += 97.5;
    add(1, 1, 'c');
    endTurn();
    // `b` waited as long as the flood, `c` did not; who is refused takes no time from who is served.
    expect(refused).toContain('b1');
    expect(refused).toHaveLength(5);
    endTurn();
    expect(served.slice(3)).toEqual(['c1']);
  });

  it('lets a client have half of the places', () => {
    const { add, endTurn, backlog: one } = backlog({ ...LIMITS, maxPending: 8 });
    expect([add(6), add(2, 1, 'b'), one.length]).toEqual([4, 2, 6]);
    endTurn();
    expect(add(6)).toBe(2);
  });

  it('has the large bodies of clients take turns, so that those of one wait for each other', () => {
    const { served, refused, addLarge, endTurn } = backlog();
    for (let n = 0; n < 12; n++) addLarge(`a${n}`, 300);
    addLarge('b0', 300, 'b');
    addLarge('c0', 300, 'c');
    addLarge('b1', 300, 'b');
    for (let turn = 0; turn < 16; turn++) endTurn();
    expect(served).toEqual(['a0', 'b0', 'c0', 'a1']);
    expect(refused).toEqual(['b1', ...Array.from({ length: 10 }, (_, n) => `a${n + 2}`)]);
  });

  it('gives a large body a turn of its own, beside the others, and refuses it after a second', () => {
    const { served, refused, turns, addLarge, add, endTurn } = backlog();
    addLarge('x', 500);
    addLarge('y', 500);
    addLarge('z', 1);
    addLarge('late', 1);
    add(1, 0);
    endTurn();
    expect(served).toEqual(['x', 'a0']);
    endTurn();
    expect(served).toEqual(['x', 'a0', 'y']);
    endTurn();
    expect([served.at(-1), refused]).toEqual(['z', []]);
    endTurn();
    expect([served.length, refused, turns.length]).toEqual([4, ['late'], 0]);
  });

  it('hands the threads no more than they can do within a few turns, and leaves them the cores meanwhile', () => {
    const { backlog: one, signatures, served, add, endTurn, turns, pauses } = backlog();
    signatures.waitMs = 12;
    expect(one.hasTime({ client: 'a' })).toBe(false);
    add(2);
    endTurn();
    expect([served.length, turns.length, pauses.length]).toEqual([0, 0, 1]);
    add(1);
    expect([turns.length, pauses.length]).toEqual([0, 1]);
    signatures.waitMs = 11;
    pauses.splice(0).forEach((turn) => turn());
    expect(served).toEqual(['a0', 'a1', 'a2']);
  });

  /** Saturates a backlog for a while: more comes in each turn than it serves. */
  const saturate = ({ add, endTurn, time }: ReturnType<typeof backlog>, turns = 20) => {
    for (let turn = 0; turn < turns; turn++) {
      add(20, 1);
      time.now += 5;
      endTurn();
    }
  };

  it('refuses at once all but a few of a client whose callers give up, as long as they do', () => {
    const one = backlog();
    saturate(one);
    const { backlog: it, places, served, refused, time, endTurn, add } = one;
    const [before, waiting] = [served.length, it.length];
    const some = places.filter(({ work }) => work !== null).slice(-8);
    for (const place of some.slice(1)) it.gaveUp({ client: 'a' }, place);
    expect([it.length, refused.length, it.refuses('a')]).toEqual([waiting - 7, 7, false]);
    it.gaveUp({ client: 'a' }, some[0] as Place);
    // Of what waits, an eighth may stay.
    expect([it.isRefusing, it.refuses('a'), it.refuses('b')]).toEqual([true, true, false]);
    expect([add(1), add(1, 1, 'b')]).toEqual([0, 1]);
    while (it.length > 0) {
      time.now += 1;
      endTurn();
    }
    expect(refused.length - 8).toBeGreaterThan(waiting / 8);
    expect(served.length - before).toBeGreaterThan(waiting / 16);
    // What comes is served in the next turn: whether its caller has gone is read by then.
    expect(it.hasTime({ client: 'a' })).toBe(false);
    add(1);
    endTurn();
    const sofar = served.length;
    endTurn();
    expect([sofar, served.length]).toEqual([served.length - 1, served.length]);
    // Then there is rest.
    time.now += 300;
    it.hasTime({ client: 'b' });
    endTurn();
    expect([it.isRefusing, it.hasTime({ client: 'a' })]).toEqual([false, true]);
  });

  it('is not moved by callers who give up while there is rest, or behind a process that stood still', () => {
    const calm = backlog();
    for (let turn = 0; turn < 40; turn++) {
      calm.add(10, 1);
      calm.endTurn();
      for (const place of calm.places.splice(0)) calm.backlog.gaveUp({ client: 'a' }, place);
      calm.endTurn();
      calm.time.now += 50;
    }
    expect(calm.backlog.isRefusing).toBe(false);
    const still = backlog();
    still.add(100, 1);
    still.endTurn();
    still.time.now += 400;
    for (const place of still.places) still.backlog.gaveUp({ client: 'a' }, place);
    still.endTurn();
    expect([still.backlog.isRefusing, still.backlog.length]).toEqual([false, 0]);
  });

  // What comes may be told at once that it is refused. So it comes before it is read whether its caller has gone, and nothing else tells.
  it('serves a client in the next turn only, from its first caller on who gives up', () => {
    const one = backlog();
    saturate(one);
    const { backlog: it, places, served, endTurn, add, time } = one;
    while (it.length > 0) endTurn();
    // It waited for the threads.
    it.gaveUp({ client: 'a' }, null);
    expect([it.isRefusing, it.hasTime({ client: 'b' }), it.hasTime({ client: 'a' })]).toEqual([
      true,
      true,
      false,
    ]);
    const before = served.length;
    add(1);
    it.gaveUp({ client: 'a' }, places.at(-1) as Place);
    add(1, 1, 'b');
    endTurn();
    endTurn();
    expect(served.slice(before)).toEqual(['b0']);
    // Where a window of long turns tells nothing, it stays so. And what comes in a turn is served by what held when the turn began.
    for (const long of [1, 1, 1, 1, 1, 1, 100, 50]) {
      add(1, long, 'b');
      endTurn();
    }
    it.gaveUp({ client: 'a' }, null);
    add(1, 60, 'b');
    endTurn();
    expect(it.hasTime({ client: 'a' })).toBe(false);
    time.now += 300;
    expect([it.isRefusing, it.hasTime({ client: 'a' })]).toEqual([true, false]);
    endTurn();
    time.now += 300;
    expect([it.isRefusing, it.hasTime({ client: 'a' })]).toEqual([false, true]);
  });

  // Who goes as soon as he has asked leaves his place to the next who does so: nobody would be refused before he goes.
  it('does not give the place of a caller who has gone to the next one at once', () => {
    const one = backlog();
    saturate(one);
    const { backlog: it, places, add, time, endTurn } = one;
    const giveUp = () => it.gaveUp({ client: 'a' }, places.pop() as Place);
    for (let round = 0; round < 10; round++) {
      for (let n = 0; n < 8; n++) giveUp();
      time.now += 21;
      endTurn();
      endTurn();
      add(4);
    }
    while (it.length > 0) giveUp();
    expect([it.isRefusing, it.refuses('a')]).toEqual([true, true]);
    time.now += 10;
    expect(add(1)).toBe(1);
    giveUp();
    expect([it.length, add(1)]).toEqual([0, 0]);
    time.now += 10;
    expect(add(1)).toBe(1);
  });

  it('keeps no places of callers who have gone', () => {
    const { backlog: one, places, add } = backlog();
    add(1);
    const first = places.pop() as Place;
    for (let round = 0; round < 49; round++) {
      add(100);
      for (const place of places.splice(0).slice(1)) one.gaveUp({ client: 'a' }, place);
    }
    expect(one.length).toBe(50);
    // Those who stay, and at most as many empty ones and some more.
    expect(first.lane.places.length).toBeLessThanOrEqual(2 * 50 + 33);
  });

  it('refuses what waits too long for threads that do not come to it', () => {
    const { signatures, refused, time, add, endTurn, pauses } = backlog();
    signatures.waitMs = 12;
    add(2);
    endTurn();
    time.now += 1001;
    pauses.splice(0).forEach((turn) => turn());
    expect(refused).toEqual(['a0', 'a1']);
  });
});
