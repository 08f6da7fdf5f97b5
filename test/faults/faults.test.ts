import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FAULTS } from './all.js';
import { runFault } from './run-fault.js';
import { Traffic } from './traffic.js';
import { trendOf, type Point } from '../soak/trend.js';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { compare } from '../timing/welch.js';

it('docs/faults.md says what happens at each fault', () => {
  const text = readFileSync(new URL('../../docs/faults.md', import.meta.url), 'utf8');
  for (const { name, stated } of FAULTS) expect(text).toContain(`\n| ${name} | ${stated} |\n`);
});

// The others take longer: `npm run faults`.
describe('under a fault nothing wrong is valid, and no acknowledged revocation is lost', () => {
  const quick = FAULTS.filter(({ isQuick = false, missing }) => isQuick && (missing?.() ?? null) === null);
  it.each(quick)('$name', async (fault) => {
    const { problems, answers } = await runFault(fault, { rate: 40, lastMs: 500 });
    expect(problems).toEqual([]);
    expect(answers['valid']).toBeGreaterThan(0);
  });
});

it('the checker notices a service that says yes to everything', async () => {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end('{"valid":true}'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const traffic = new Traffic({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    rate: 1,
    isReplayRefused: true,
  });
  const [delegation] = traffic.delegations;
  await traffic.send('good');
  if (delegation !== undefined) delegation.revokedAt = 0;
  for (const kind of ['forged', 'policy', 'expired', 'revoked', 'replayed'] as const)
    await traffic.send(kind);
  await traffic.stop();
  server.close();
  expect(traffic.violations.map(({ kind }) => kind)).toEqual([
    'forged',
    'policy',
    'expired',
    'revoked',
    'replayed',
  ]);
});

describe('a trend', () => {
  const points = (value: (at: number) => number) =>
    Array.from({ length: 120 }, (_, at) => [at / 120, value(at)] as const);
  const noise = (at: number) => ((at * 7919) % 13) - 6;
  it.each([
    ['no growth', (at: number) => 100 + noise(at)],
    ['no growth', (at: number) => 100 - at],
    ['grows', (at: number) => 100 + at + noise(at)],
    ['cannot tell', (at: number) => 100 + (Math.floor(at / 10) % 2) * 60],
  ] as const)('is called "%s"', (verdict, value) => {
    expect(trendOf(points(value), 10).verdict).toBe(verdict);
  });

  it('leaves out what follows from something else, and only that', () => {
    const rate = (at: number) => 1000 + (Math.floor(at / 20) % 3) * 100 + at;
    const beside = (grows: number) =>
      Array.from({ length: 120 }, (_, at): Point => [
        at / 120,
        100 + rate(at) / 10 + grows * at + noise(at),
        rate(at),
      ]);
    const withoutRate = beside(0).map(([hours, value]): Point => [hours, value]);
    expect(trendOf(withoutRate, 0).perHour).toBeGreaterThan(10);
    expect(trendOf(beside(0), 10)).toMatchObject({ verdict: 'no growth' });
    expect(trendOf(beside(1), 10)).toMatchObject({ verdict: 'grows' });
    expect(trendOf(beside(1), 10).perHour).toBeCloseTo(120, -1);
  });
});

describe('two classes of times', () => {
  const times = (mean: number) => Array.from({ length: 5000 }, (_, at) => mean + ((at * 7919) % 101));
  it('are told apart where one is slower, and not where neither is', () => {
    expect(compare(times(100), times(100)).verdict).toBe('no difference seen');
    expect(compare(times(100), times(103.5)).verdict).toBe('cannot tell');
    expect(compare(times(100), times(110))).toMatchObject({ verdict: 'they differ', nanoseconds: 10 });
  });
});
