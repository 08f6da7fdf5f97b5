import { newLatencies, recordLatency } from '../measure/statistics.js';

/**
 * A closed loop in this process: each caller asks again when it has its answer.
 *
 * @param ask returns what is wrong about an answer, or an empty text; `null`: there is nothing left to ask
 */
export async function runCallers(callers: number, seconds: number, ask: () => Promise<string | null>) {
  const fared = { latencies: newLatencies(), answered: 0, wrong: 0, firstWrong: '' };
  const startedAt = performance.now();
  const end = startedAt + 1000 * seconds;
  const loop = async () => {
    for (let now = startedAt; now < end; now = performance.now()) {
      const wrong = await ask();
      if (wrong === null) return;
      recordLatency(fared.latencies, 1000 * (performance.now() - now));
      fared.answered++;
      if (wrong !== '') fared.wrong++;
      fared.firstWrong ||= wrong;
    }
  };
  await Promise.all(Array.from({ length: callers }, loop));
  return { ...fared, seconds: (performance.now() - startedAt) / 1000 };
}

/** How an answer differs from the right one; an empty text if it does not. */
export const differenceOf = (found: string, expected: string): string =>
  found === expected ? '' : `${found.slice(0, 300)}, expected ${expected.slice(0, 300)}`;
