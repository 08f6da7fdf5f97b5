import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { exitCodeOf, renderOutcome } from '../../bench/compare/outcome.js';
import type { Case, PairPlan, Restart } from '../../bench/compare/pair.js';
import { comparePairs } from '../../bench/compare/run.js';
import { ServerProcess } from '../../bench/service/start.js';
import { eventually } from '../support/eventually.js';

const CASES: readonly Case[] = [
  { traffic: 'warm', depth: 4 },
  { traffic: 'cold', depth: 4 },
];
const SLOWER = { effect: Math.log(1.5), means: [100, 150] } as const;
const PAIR: Restart = {
  measured: { cpu: SLOWER, 'latency p50': SLOWER, 'latency p99': SLOWER },
  others: 0,
};

/** A comparison whose time is over in the middle of a pair. @param whole how many pairs were measured before */
async function cut(whole: number, cases = CASES) {
  const time = new AbortController();
  let begun = 0;
  const measure = async () => {
    if (begun++ < whole) return PAIR;
    time.abort();
    return Promise.reject(new Error('its processes have ended'));
  };
  const options = { cases, detect: 0.05, gates: ['cpu'] as const };
  const outcome = await comparePairs(['a', 'b'], measure, options, time.signal, () => undefined);
  return { pairs: begun, code: exitCodeOf(outcome.findings), text: renderOutcome(outcome) };
}

describe('a comparison whose time is over', () => {
  it('in the middle of a restart has the table of what there is, and cannot tell', async () => {
    const { code, text } = await cut(5);
    expect(code).toBe(2);
    expect(text).toMatch(
      /warm, depth 4: CPU per request \* +100.0 µs +150.0 µs .* cannot tell from fewer than 8 restarts/,
    );
    expect(text).toContain('cold, depth 4: CPU per request *');
    expect(text).toContain('5 pairs of processes');
  });

  it.each([
    [0, CASES],
    [1, CASES.slice(1)],
  ])('after %i pairs says what was not measured', async (pairs, left) => {
    const { code, text } = await cut(pairs);
    expect(code).toBe(2);
    for (const { traffic } of left)
      expect(text).toContain(`${traffic}, depth 4: not measured, the time was over`);
    expect(text.includes('pairs of processes')).toBe(pairs > 0);
  });

  it('goes no further once the result is clear', async () => {
    expect(await cut(100, CASES.slice(0, 1))).toMatchObject({ pairs: 8, code: 1 });
  });
});

it.each([
  [['cpu'], true],
  [['cpu', 'latency p50'], false],
] as const)('gates %j leave out what latency needs: %s', async (gates, isOnlyCpu) => {
  const plans: unknown[] = [];
  const { cpu } = PAIR.measured;
  const measure = (_: Case, plan: PairPlan) => {
    plans.push(plan.isOnlyCpu);
    return Promise.resolve(isOnlyCpu ? { measured: { cpu }, others: 0 } : PAIR);
  };
  const options = { cases: CASES.slice(0, 1), detect: 0.05, gates };
  const { signal } = new AbortController();
  const outcome = await comparePairs(['a', 'b'], measure, options, signal, () => undefined);
  expect(plans).toEqual(Array(8).fill(isOnlyCpu));
  expect(renderOutcome(outcome).includes('latency')).toBe(!isOnlyCpu);
});

it('does not take another error for the end of the time', async () => {
  const wrong = () => Promise.reject(new Error('3 wrong answers'));
  const options = { cases: CASES, detect: 0.05, gates: ['cpu'] as const };
  const { signal } = new AbortController();
  await expect(comparePairs(['a', 'b'], wrong, options, signal, () => undefined)).rejects.toThrow('3 wrong');
});

it('ends a service that is still starting', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'drs-bench-'));
  const [program, pid] = [path.join(folder, 'program.mjs'), path.join(folder, 'pid')];
  // It answers no signal that can be answered, and never listens.
  const lines = [
    'import { writeFileSync } from "node:fs";',
    'process.on("SIGTERM", () => undefined); setInterval(() => undefined, 1e6);',
    `writeFileSync(${JSON.stringify(pid)}, String(process.pid));`,
  ];
  writeFileSync(program, lines.join('\n'));
  const time = new AbortController();
  const starting = ServerProcess.start(program, { time: time.signal });
  const refused = expect(starting).rejects.toThrow('abort');
  await eventually(() => expect(existsSync(pid) && readFileSync(pid, 'utf8')).toMatch(/\d/));
  time.abort();
  await refused;
  await eventually(() => expect(() => process.kill(Number(readFileSync(pid, 'utf8')), 0)).toThrow('ESRCH'));
  rmSync(folder, { recursive: true });
});
