import { mean, median } from 'simple-statistics';
import { align } from '../report/table.js';
import { NOISY } from '../run/results.js';
import { effectOf, verdictOf, type Effect, type Verdict } from './effects.js';
import { QUANTITIES, type Case, type Quantity, type Restart } from './pair.js';

/** With fewer restarts, no interval has the required confidence. */
export const MIN_RESTARTS = 8;

// A comparison looks at its result after each restart and stops when it can tell: with the usual 95 % it would stop by
// chance too often (test/bench/paired.test.ts).
export const CONFIDENCE = 0.99;

export interface Finding {
  readonly traffic: string;
  readonly depth: number;
  readonly quantity: Quantity;
  readonly isGate: boolean;
  /** Means over the restarts, in µs. */
  readonly means: readonly [a: number, b: number];
  readonly effect: Effect;
  readonly verdict: Verdict;
}

export interface Outcome {
  readonly versions: readonly [string, string];
  readonly detect: number;
  readonly seconds: number;
  readonly findings: readonly Finding[];
  /** Of which nothing was measured before the time was over. */
  readonly left: readonly Case[];
  /** Share of the cores that neither the services nor the generator had, by pair of processes. */
  readonly others: readonly number[];
}

/** The result of a case. @param restarts one or more; fewer than {@link MIN_RESTARTS} cannot tell */
export function findingsOf(
  { traffic, depth }: Case,
  restarts: readonly Restart[],
  detect: number,
  gates: readonly Quantity[],
): Finding[] {
  return QUANTITIES.flatMap((quantity): Finding[] => {
    const found = restarts.flatMap(({ measured }) => measured[quantity] ?? []);
    if (found.length === 0) return [];
    const effect = effectOf(
      found.map((one) => one.effect),
      CONFIDENCE,
    );
    const side = (at: 0 | 1) => mean(found.map(({ means }) => means[at]));
    const verdict = hasEnough(effect) ? verdictOf(effect, Math.log(1 + detect)) : 'cannot tell';
    const isGate = gates.includes(quantity);
    return [{ traffic, depth, quantity, effect, isGate, means: [side(0), side(1)], verdict }];
  });
}

const hasEnough = ({ confidence }: Effect) => confidence >= CONFIDENCE;

/** The exit code: 1 if a gate found a regression, 2 if it cannot tell or there is none, else 0. */
export function exitCodeOf(findings: readonly Finding[]): number {
  const verdicts = findings.filter(({ isGate }) => isGate).map(({ verdict }) => verdict);
  if (verdicts.includes('regression')) return 1;
  return verdicts.length === 0 || verdicts.includes('cannot tell') ? 2 : 0;
}

const percent = (logarithm: number) => {
  const value = 100 * Math.expm1(logarithm);
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(1)} %`;
};

/** What can be said from the interval, in words. */
function describeVerdict({ effect, verdict }: Finding, detect: number): string {
  const limit = `${(100 * detect).toFixed(1).replace('.0', '')} %`;
  if (verdict === 'regression') return 'REGRESSION';
  if (!hasEnough(effect)) return `cannot tell from fewer than ${MIN_RESTARTS} restarts`;
  if (verdict === 'cannot tell') return `cannot tell (${limit} is inside the interval, and so is nothing)`;
  if (effect.high < 0) return 'better';
  return effect.low > 0 ? `slower, by less than ${limit}` : `no regression of ${limit}`;
}

export function renderOutcome({ versions, detect, seconds, findings, left, others }: Outcome): string {
  const notMeasured = left.map(
    ({ traffic, depth }) => `${traffic}, depth ${depth}: not measured, the time was over`,
  );
  if (findings.length === 0) return `${notMeasured.join('\n')}\n`;
  const head = ['', 'A', 'B', 'B to A', 'interval', ''];
  const rows = findings.map((finding) => {
    const { traffic, depth, quantity, means, effect, isGate } = finding;
    return [
      `${traffic}, depth ${depth}: ${quantity === 'cpu' ? 'CPU per request' : quantity}${isGate ? ' *' : ''}`,
      ...means.map((value) => `${value.toFixed(1)} µs`),
      percent(effect.estimate),
      `${percent(effect.low)} … ${percent(effect.high)}`,
      isGate || effect.low > 0 || effect.high < 0 ? describeVerdict(finding, detect) : '',
    ];
  });
  const confidence = Math.min(...findings.map(({ effect }) => effect.confidence));
  const busy = median([...others]);
  return [
    `A: ${versions[0]}   B: ${versions[1]}`,
    '',
    ...align([head, ...rows]),
    ...notMeasured,
    '',
    `${others.length} pairs of processes in ${Math.round(seconds)} s. Hodges-Lehmann estimates over the restarts; exact`,
    `signed-rank intervals of ${(100 * confidence).toFixed(1)} %. * decides about the exit code. A and B columns are plain means:`,
    'what the machine does moves both; the ratio is taken slice by slice.',
    `Others had ${(100 * busy).toFixed(0)} % of the cores${busy > NOISY ? ': NOISY, so intervals are wide' : ''}.`,
    '',
  ].join('\n');
}
