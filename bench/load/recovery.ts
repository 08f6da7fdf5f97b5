import { quantile } from 'simple-statistics';
import type { Recovered } from './open-loop-core.js';

const WINDOW_MICROS = 100_000;

/**
 * How long the service took to be back to normal after the overload: the start of the first window of 100 ms after
 * which no request was refused or timed out, and p99 stayed within a limit.
 *
 * @param normalMicros the limit of p99
 * @param seconds how long the recovery was watched; also the result if the service was not back to normal by then
 * @returns µs
 */
export function backToNormalAfter(
  recovery: readonly Recovered[],
  normalMicros: number,
  seconds: number,
): number {
  const windows = Math.ceil((seconds * 1e6) / WINDOW_MICROS);
  for (let window = windows - 1; window >= 0; window--) {
    const from = window * WINDOW_MICROS;
    const { failed, p99 } = summaryOf(recovery.filter(([at]) => at >= from && at < from + WINDOW_MICROS));
    if (failed > 0 || (p99 !== null && p99 > normalMicros)) return (window + 1) * WINDOW_MICROS;
  }
  return 0;
}

/** The outcomes of the requests that were due a given time (µs) after the overload, or later. */
export const recoveryAfter = (recovery: readonly Recovered[], from: number): Summary =>
  summaryOf(recovery.filter(([at]) => at >= from));

interface Summary {
  /** Number of requests that were refused or timed out. */
  readonly failed: number;
  /** In µs; `null` if nothing was answered. */
  readonly p99: number | null;
}

function summaryOf(recovered: readonly Recovered[]): Summary {
  const micros = recovered.flatMap(([, took]) => (took === null ? [] : [took]));
  return {
    failed: recovered.length - micros.length,
    p99: micros.length === 0 ? null : quantile(micros, 0.99),
  };
}
