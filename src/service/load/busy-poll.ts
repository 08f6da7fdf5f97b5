/** Keeps the event loop turning while no request is open. */
export type BusyPoll = ReturnType<typeof openBusyPoll>;

/**
 * Keeps the event loop turning for some time after the last answer, since a wake-up takes as long as a verification. If
 * more than one spin in five sees no request, the next 16 are skipped, doubling up to 1,024.
 *
 * @param ms maximum time of one spin; 0 for none
 */
export function openBusyPoll(ms: number, now = () => performance.now(), defer: Defer = setImmediate) {
  let isTurning = false;
  let [until, credit, skips, left] = [0, 0, 16, 0];
  const turn = (): void => {
    if (now() < until) return void defer(turn);
    isTurning = false;
    if (until === 0) return;
    until = 0;
    credit -= 4;
    if (credit < 0) [credit, left, skips] = [0, skips, Math.min(1024, 2 * skips)];
  };
  return {
    /** No request is open any more. */
    begin(): void {
      if (ms === 0 || left-- > 0) return;
      until = now() + ms;
      if (!isTurning) defer(turn);
      isTurning = true;
    },
    /** A request has arrived. */
    end(): void {
      if (until === 0) return;
      until = 0;
      credit = Math.min(16, credit + 1);
      skips = 16;
    },
  };
}

type Defer = (turn: () => void) => unknown;
