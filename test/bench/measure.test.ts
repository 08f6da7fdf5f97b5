import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { newLatencies } from '../../bench/measure/statistics.js';
import { measure, runsOf } from '../../bench/run/measure.js';
import { readOptions } from '../../bench/run/options.js';
import { finderOf } from '../../bench/run/results.js';
import { Recorder, type Suite } from '../../bench/run/suite.js';

const folder = mkdtempSync(path.join(tmpdir(), 'drs-bench-measure-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Takes a step during which others have these shares of the cores, one after the other. */
async function take(shares: readonly number[], mayRepeat = () => true) {
  const recorder = new Recorder();
  recorder.record('a/cpu', 1);
  let at = 0;
  await recorder.undisturbed(async () => {
    recorder.surround('a', { floor: 50, others: shares[at] ?? 0 });
    recorder.blame('a', at, 'a wrong answer');
    recorder.record('a/cpu', 10 + at++);
    await Promise.resolve();
  }, mayRepeat);
  const { recordings, thrownAway, interference, wrongVerdicts } = recorder.recorded;
  return { samples: recordings['a/cpu']?.samples, thrownAway, noise: interference.length, wrongVerdicts };
}

it('takes a noisy step again, twice at most, and keeps the last one', async () => {
  expect(await take([0.02])).toMatchObject({ samples: [1, 10], thrownAway: 0, noise: 1 });
  expect(await take([0.5, 0.02])).toMatchObject({ samples: [1, 11], thrownAway: 1, noise: 1 });
  expect(await take([0.5, 0.5, 0.5, 0.5])).toMatchObject({ samples: [1, 12], thrownAway: 2, noise: 1 });
  expect(await take([0.5, 0.5], () => false)).toMatchObject({ samples: [1, 10], thrownAway: 0 });
});

it('does not throw away wrong answers', async () => {
  const { wrongVerdicts } = await take([0.5, 0.5, 0.02]);
  expect(wrongVerdicts.map(({ count }) => count)).toEqual([1, 2]);
});

it('takes the runs of all suites in turn, of some fewer', () => {
  const suite = (name: string, maxRuns?: number) => ({ name, ...(maxRuns && { maxRuns }) }) as Suite;
  const runs = runsOf([suite('a'), suite('b', 1)], 3).map(({ suite: { name }, run }) => `${name}${run}`);
  expect(runs).toEqual(['a1', 'b1', 'a2', 'a3']);
});

const latencies = newLatencies();
for (let at = 1; at <= 3000; at++) latencies.recordValue(at);

it('goes on with what is missing, and says how long it takes', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const measured: string[] = [];
  const suite: Suite = {
    ...{ name: 'fake', about: '', isAboutLatency: true },
    run: async ({ recorder, plan, run, watch }) => {
      measured.push(`run ${run} of ${plan.runs}`);
      await watch('fake', 0, () => Promise.resolve());
      recorder.record('fake/cpu', 100 * run);
      recorder.keepLatencies('fake', latencies);
      if (run === 2 && measured.length < 3) throw new Error('interrupted');
    },
  };
  const options = readOptions(['--all', '--runs', '2']);
  const commit = { startedAt: '2026-01-15T08:00:00.000Z', commit: 'c0ffee', isDirty: false };
  try {
    const first = await measure(options, [suite], folder, commit);
    expect(first.skipped).toEqual([{ what: 'fake', reason: 'it stopped: interrupted' }]);
    const { figures, startedAt, skipped } = await measure(options, [suite], folder, {
      ...{ ...commit, startedAt: 'later' },
    });
    expect(measured).toEqual(['run 1 of 1', 'run 2 of 1', 'run 2 of 1']);
    expect([startedAt, skipped]).toEqual([commit.startedAt, []]);
    const find = finderOf({ figures });
    expect(find('fake/cpu')?.samples).toEqual([100, 200]);
    // Each run alone has too few for this one.
    expect(find('fake/all/p99.9')?.median).toBeGreaterThan(2990);
    // A histogram has three significant digits.
    expect(find('fake/all/max')?.median).toBe(3001);
    expect(readdirSync(folder).sort()).toEqual(['begun.json', 'fake-1.json', 'fake-2.json', 'fake.hgrm']);
    expect(readFileSync(path.join(folder, 'fake.hgrm'), 'utf8')).toContain('TotalCount');
    const lines = said.mock.calls.map(([line]) => String(line)).join('');
    expect(lines).toMatch(/1 of 2, about 1 minutes left: fake, run 1\n/);
    expect(lines).toMatch(/2 of 2, about 1 minutes left: fake, run 2\n/);
    await expect(measure(options, [suite], folder, { ...commit, commit: 'beef' })).rejects.toThrow(
      /has runs of another commit, Node, machine or options/,
    );
    await expect(measure(readOptions(['--all']), [suite], folder, commit)).rejects.toThrow(/another commit/);
    await expect(measure(options, [suite], folder, { ...commit, isDirty: true })).rejects.toThrow(/changes/);
  } finally {
    said.mockRestore();
    process.exitCode = 0;
  }
});
