import { describe, expect, it } from 'vitest';
import { openBusyPoll } from '../../src/service/http/serve.js';

/** A poll of 100 µs on an event loop whose every turn takes 15 µs. */
function poll(microseconds = 100) {
  let micros = 0;
  let next: (() => void) | null = null;
  const busyPoll = openBusyPoll(
    microseconds / 1000,
    () => micros / 1000,
    (turn) => {
      expect(next).toBeNull();
      next = turn;
    },
  );
  const turn = () => {
    const due = next;
    next = null;
    micros += 15;
    due?.();
    return due !== null;
  };
  /** Turns until the loop may sleep; how many. */
  const run = (maxTurns = Infinity) => {
    let turns = 0;
    while (turns < maxTurns && turn()) turns++;
    return turns;
  };
  return { busyPoll, run };
}

describe('busy polling', () => {
  it('keeps the loop turning for its time, and lets it sleep then', () => {
    const { busyPoll, run } = poll();
    busyPoll.begin();
    expect(run()).toBe(7);
    expect(run()).toBe(0);
  });

  it('is over when a request arrives, and begins anew with its answer', () => {
    const { busyPoll, run } = poll();
    for (let request = 0; request < 5; request++) {
      busyPoll.begin();
      expect(run(3)).toBe(3);
      busyPoll.end();
      expect(run()).toBe(1);
    }
  });

  it('goes on where the answer is given in the same turn', () => {
    const { busyPoll, run } = poll();
    busyPoll.begin();
    for (let request = 0; request < 5; request++) {
      expect(run(3)).toBe(3);
      busyPoll.end();
      busyPoll.begin();
    }
    expect(run()).toBe(7);
  });

  it('leaves out more and more chances while nothing comes of them', () => {
    const { busyPoll, run } = poll();
    const leftOut = () => {
      let count = 0;
      for (;;) {
        busyPoll.end();
        busyPoll.begin();
        if (run() > 0) return count;
        count++;
      }
    };
    expect(Array.from({ length: 9 }, leftOut)).toEqual([0, 16, 32, 64, 128, 256, 512, 1024, 1024]);
    // One that is of use is enough to start over.
    for (let chance = 0; chance < 1024; chance++) busyPoll.begin();
    busyPoll.begin();
    expect(run(3)).toBe(3);
    busyPoll.end();
    expect(run()).toBe(1);
    expect(Array.from({ length: 2 }, leftOut)).toEqual([0, 16]);
  });

  it('never turns the loop where it is off', () => {
    const { busyPoll, run } = poll(0);
    busyPoll.begin();
    expect(run()).toBe(0);
  });
});
