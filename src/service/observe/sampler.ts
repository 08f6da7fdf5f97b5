const WINDOW_MS = 1000;
/** For lines that a caller can cause as often as it likes. */
const PER_SECOND = 10;

/**
 * Admits a limited number of log lines per second, and reports how many it left out.
 *
 * @param onLeftOut called at the end of each second in which lines were left out, with their number
 * @param perSecond maximum number of lines per second; Infinity for all
 */
export function openSampler(onLeftOut: (count: number) => void, perSecond = PER_SECOND) {
  let timer: NodeJS.Timeout | undefined;
  let [passed, leftOut] = [0, 0];
  /** Ends the current second, also early, so that what it left out is reported. */
  const close = (): void => {
    clearTimeout(timer);
    const count = leftOut;
    timer = undefined;
    passed = leftOut = 0;
    if (count > 0) onLeftOut(count);
  };
  /** Counts a line. @returns whether it is within the limit */
  const admits = (): boolean => {
    if (perSecond === Infinity) return true;
    timer ??= setTimeout(close, WINDOW_MS).unref();
    if (passed === perSecond) leftOut++;
    else passed++;
    return leftOut === 0;
  };
  return { admits, close };
}
