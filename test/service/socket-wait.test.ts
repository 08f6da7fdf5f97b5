import { describe, expect, it } from 'vitest';
import { overflowsIn } from '../../src/service/load/accept-overflows.js';
import { SocketWait } from '../../src/service/load/socket-wait.js';

/** An event loop whose time and turns the test decides. */
function loop() {
  const state = { now: 0, idle: 0, lookedAt: 0 };
  let end = () => {};
  const clock = { now: () => state.now, idleMs: () => state.idle, defer: (turn: () => void) => (end = turn) };
  const wait = new SocketWait(() => state.lookedAt, clock);
  return {
    state,
    /** Requests that one turn of the loop finds, each handled for so long. */
    turn: (...handled: number[]) => {
      const waits = handled.map((milliseconds) => {
        const waited = wait.waitOf(state.now);
        state.now += milliseconds;
        return waited;
      });
      end();
      return waits;
    },
    sleep: (milliseconds: number) => {
      state.now += milliseconds;
      state.idle += milliseconds;
    },
    work: (milliseconds: number) => (state.now += milliseconds),
  };
}

describe('the time in the socket', () => {
  it('is none for what wakes the loop, and that of those before it in the same turn', () => {
    const { turn, sleep } = loop();
    sleep(100);
    expect(turn(5, 5, 5)).toEqual([0, 5, 10]);
  });

  it('goes back to the turn before, where the loop had no rest since', () => {
    const { turn, sleep } = loop();
    sleep(100);
    turn(5, 5, 5);
    expect(turn(1)).toEqual([15]);
    expect(turn(1)).toEqual([1]);
  });

  it('counts what else the loop did since it was woken', () => {
    const { turn, sleep, work } = loop();
    turn(5);
    sleep(100);
    work(30);
    expect(turn(1, 1)).toEqual([30, 31]);
  });

  it('is none where a turn without requests has looked just before', () => {
    const { state, turn, work } = loop();
    turn(5);
    work(200);
    state.lookedAt = state.now;
    expect(turn(1, 1)).toEqual([0, 1]);
  });
});

it('reads the overflows of the accept queue as the kernel writes them', () => {
  const text =
    'TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 3 41 42\nIpExt: InNoRoutes\nIpExt: 7\n';
  expect(overflowsIn(text)).toBe(41);
  expect(overflowsIn('')).toBe(0);
});
