import type { Loop } from '../../src/service/load/backlog.js';

/**
 * The event loop, in which no time passes: how long a request waits on this machine decides nothing. What does decide is in
 * `backlog.test.ts`.
 */
export const STILL_LOOP: Loop = {
  now: () => 0,
  defer: setImmediate,
  pause: (turn) => setTimeout(turn, 1),
};
