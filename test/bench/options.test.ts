import { expect, it } from 'vitest';
import { LOADS } from '../../bench/report/charts.js';
import { readOptions } from '../../bench/run/options.js';

it('reads how the benchmark is to run', () => {
  const args = '--quick --runs 2 --seconds 3 --depths 2,4 --only gate,latency';
  const { plan, only } = readOptions(args.split(' '));
  expect(plan).toMatchObject({ mode: 'quick', runs: 2, seconds: 3, latencySeconds: 3, overloadSeconds: 3 });
  expect([plan.depths, plan.coreDepths, only]).toEqual([
    [2, 4],
    [2, 4],
    ['gate', 'latency'],
  ]);
});

it('measures everything six times for the documents, at the loads that they show', () => {
  const { plan } = readOptions(['--all', '--seconds', '60']);
  expect(plan).toMatchObject({ mode: 'all', runs: 6, latencySeconds: 60, loads: LOADS });
});

it.each([
  [['--quick', '--smoke'], 'both --quick and --smoke are given, expected one'],
  [['--all', '--quick'], 'both --all and --quick are given, expected one'],
  [['--runs', '1,2'], '--runs has "1,2", expected a whole number above 0'],
  [['--seconds', ''], '--seconds has "", expected a whole number above 0'],
  [['--depths', '1,x'], '--depths has "x", expected a whole number above 0'],
  [['--fast'], "Unknown option '--fast'"],
])('refuses %j', (args, problem) => {
  expect(() => readOptions(args)).toThrow(problem);
});
