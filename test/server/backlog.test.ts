import { describe, expect, it } from 'vitest';
import { Admission } from '../../src/server/admission.js';
import { Backlog } from '../../src/server/backlog.js';

/** A backlog in an event loop whose time and turns the test decides. */
function backlog() {
  const signatures = { waitMs: 0 };
  const turns: (() => void)[] = [];
  const pauses: (() => void)[] = [];
  const time = { now: 1000 };
  const backlog = new Backlog(signatures, {
    now: () => time.now,
    defer: (turn) => turns.push(turn),
    pause: (turn) => pauses.push(turn),
  });
  const served: number[] = [];
  return {
    ...{ backlog, signatures, time, served, turns, pauses },
    endTurn: () => turns.splice(0).forEach((turn) => turn()),
    /** Lets requests wait that take so long each. */
    add: (count: number, milliseconds = 1) => {
      for (let n = 0; n < count; n++) {
        const number = served.length + backlog.length;
        backlog.add(() => {
          served.push(number);
          time.now += milliseconds;
        });
      }
    },
  };
}

const SENDER = { clientAddress: '192.0.2.1' };

describe('the backlog', () => {
  it('leaves to the next turns what comes after a turn has worked for long', () => {
    const { backlog: one, time, endTurn } = backlog();
    expect(one.hasTime()).toBe(true);
    time.now += 14;
    expect(one.hasTime()).toBe(true);
    time.now += 1;
    expect(one.hasTime()).toBe(false);
    endTurn();
    expect(one.hasTime()).toBe(true);
  });

  it('serves a slice in each turn, oldest first, and nothing that has just come before what waits', () => {
    const { backlog: one, served, add, endTurn, turns } = backlog();
    add(7);
    expect([one.length, turns.length]).toEqual([7, 1]);
    endTurn();
    expect([served, one.hasTime()]).toEqual([[0, 1, 2], false]);
    add(1);
    endTurn();
    expect(served).toEqual([0, 1, 2, 3, 4, 5]);
    endTurn();
    expect([served.length, one.length, turns.length]).toEqual([8, 0, 0]);
    expect(one.hasTime()).toBe(true);
  });

  it('serves one in a turn that takes longer than a slice', () => {
    const { served, add, endTurn } = backlog();
    add(2, 50);
    endTurn();
    expect(served).toEqual([0]);
    endTurn();
    expect(served).toEqual([0, 1]);
  });

  it('expects of what waits what requests took lately, with all that came between', () => {
    const { backlog: one, time, add, endTurn } = backlog();
    add(1000);
    for (let turn = 0; turn < 200; turn++) {
      endTurn();
      // Refusals.
      time.now += 3;
    }
    expect(one.length).toBe(400);
    // And a slice, for as long as it may have lain in its socket.
    expect((one.waitMs - 3) / 400).toBeCloseTo(2, 1);
  });

  it('takes a moment in which the process stood still for no overload', () => {
    const { backlog: one, time, add, endTurn } = backlog();
    add(300);
    for (let turn = 0; turn < 80; turn++) endTurn();
    const before = one.waitMs;
    expect((before - 3) / 60).toBeCloseTo(1, 1);
    time.now += 500;
    expect(one.waitMs).toBe(before);
    endTurn();
    expect(one.waitMs).toBeLessThan(before + 10);
  });

  it('hands the threads no more than they can do within a few turns, and leaves them the cores meanwhile', () => {
    const { backlog: one, signatures, served, add, endTurn, turns, pauses } = backlog();
    signatures.waitMs = 5;
    add(2);
    expect(one.waitMs).toBeGreaterThan(5);
    endTurn();
    expect([served.length, turns.length, pauses.length]).toEqual([0, 0, 1]);
    add(1);
    expect([turns.length, pauses.length]).toEqual([0, 1]);
    signatures.waitMs = 4;
    pauses.splice(0).forEach((turn) => turn());
    expect(served).toEqual([0, 1, 2]);
  });
});

describe('what would wait for longer than the target', () => {
  const limits = { maxPending: 4, maxBodyMemory: 1_000_000, queueTargetMs: 20 };

  it('is not let in, whatever its size', () => {
    const { backlog: one, signatures } = backlog();
    const admission = new Admission(limits, one);
    signatures.waitMs = 20;
    expect([admission.isLate, admission.hasRoomFor(20_000, SENDER)]).toEqual([false, true]);
    signatures.waitMs = 21;
    expect([admission.isLate, admission.hasRoomFor(20_000, SENDER), admission.hasRoomFor(1, SENDER)]).toEqual(
      [true, false, false],
    );
  });

  it('counts as pending and with its memory while it waits for the main thread', () => {
    const { backlog: one, endTurn } = backlog();
    const admission = new Admission(limits, one);
    let runs = 0;
    const wait = () => admission.wait(100, () => runs++);
    expect([wait(), wait(), wait()]).toEqual([true, true, true]);
    const ticket = admission.enter(10);
    expect([admission.pending, admission.memory.bytes, wait(), admission.enter(10)]).toEqual([
      4,
      300 + 160,
      false,
      null,
    ]);
    ticket?.release();
    endTurn();
    expect([runs, admission.pending, admission.memory.bytes]).toEqual([3, 0, 0]);
    expect(admission.wait(limits.maxBodyMemory, () => runs++)).toBe(false);
    expect([admission.pending, admission.memory.bytes]).toEqual([0, 0]);
  });
});
