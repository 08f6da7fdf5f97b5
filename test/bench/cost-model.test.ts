import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { capacityOf, fitModel, signaturesOf } from '../../bench/report/cost-model.js';
import { describeRatio, fillDocument, fillReadme } from '../../bench/report/document.js';
import { ROOT } from '../../bench/run/paths.js';
import { Recorder } from '../../bench/run/recorder.js';
import { SAMPLE_FLOOR, sampleResults } from './sample-results.js';

const directory = mkdtempSync(path.join(tmpdir(), 'drs-bench-model-'));
const sample = sampleResults(directory);
afterAll(() => rmSync(directory, { recursive: true }));

/** Results that follow a model exactly. */
function modelled(floor = SAMPLE_FLOOR) {
  const recorder = new Recorder(() => floor);
  recorder.measureFloor();
  for (const depth of [1, 2, 4, 16]) {
    for (const [traffic, hitRatio] of [
      ['warm', 1],
      ['cold', 0],
      ['mixed', 0.9],
    ] as const) {
      const parameters = { depth, traffic, bodyBytes: 1000 * (1 + depth) };
      const cpu = 20 + 55 * signaturesOf(depth, hitRatio) + 1.5 * (1 + depth);
      const id = `closed-loop/wrk/${traffic}/d${depth}/c32`;
      recorder.record({ id: `${id}/cpu`, unit: 'µs', better: 'lower', value: cpu, parameters });
      recorder.record({
        id: `${id}/throughput`,
        unit: '1/s',
        better: 'higher',
        value: 2e6 / cpu,
        parameters,
      });
    }
  }
  return { ...sample, floorMicroseconds: floor, figures: recorder.figures() };
}

describe('the cost model', () => {
  it('finds the constants again, and says so of traffic that it was not fitted to', () => {
    const results = modelled();
    const model = fitModel(results);
    expect(model?.whole.fixed).toBeCloseTo(20, 6);
    expect(model?.whole.perSignature).toBeCloseTo(55, 6);
    expect(model?.mainThread.perSignature).toBeCloseTo(55 - SAMPLE_FLOOR, 6);
    expect(model?.whole.perKilobyte).toBeCloseTo(1.5, 6);
    const mixed = model?.checks.filter(({ traffic }) => traffic === 'mixed') ?? [];
    expect(mixed).toHaveLength(4);
    for (const { cpu, throughput } of mixed) {
      expect(cpu.modelled).toBeCloseTo(cpu.measured, 6);
      expect(throughput.modelled).toBeCloseTo(throughput.measured, 3);
    }
  });

  it('gives the main thread no negative share where the floor came out above the fit', () => {
    // Measured at different speeds of the machine, one signature can seem to cost more alone than in a request.
    const model = fitModel(modelled(95));
    expect(model?.mainThread.perSignature).toBe(0);
    for (const { throughput } of model?.checks ?? []) {
      expect(throughput.modelled).toBeCloseTo(throughput.measured, 3);
    }
  });

  it('needs warm and cold traffic at three depths', () => {
    const { figures, ...rest } = modelled();
    expect(fitModel({ ...rest, figures: figures.filter(({ id }) => !id.includes('/cold/')) })).toBeNull();
  });

  it('takes for the capacity what runs out first', () => {
    const machine = { cores: 8, workers: 7 };
    expect(capacityOf({ whole: 100, mainThread: 50, others: 0 }, machine)).toBe(20_000);
    expect(capacityOf({ whole: 800, mainThread: 50, others: 0 }, { ...machine, workers: 3 })).toBe(5_000);
    expect(capacityOf({ whole: 100, mainThread: 50, others: 900 }, machine)).toBe(8_000);
  });
});

it('has a place in docs/performance.md for each table, and leaves the rest alone', () => {
  const text = readFileSync(path.join(ROOT, 'docs/performance.md'), 'utf8');
  const measured = modelled();
  const filled = fillDocument(text, measured);
  expect(filled).toContain('| whole process | 20.0 µs | 55.0 µs');
  const outside = (document: string) =>
    document.replace(/(<!-- measured: \w+ -->\n)[^]*?(<!-- end -->)/g, '$1$2');
  expect(outside(filled)).toBe(outside(text));
  expect(fillDocument(filled, measured)).toBe(filled);
});

describe('the README', () => {
  /** Results of this service at 1.4 floors, and of a peer at the given numbers of floors. */
  function withPeer(peerFloors: readonly number[]) {
    const recorder = new Recorder(() => SAMPLE_FLOOR);
    recorder.measureFloor();
    for (const floors of peerFloors) {
      for (const [peer, value] of [
        ['drs-verify', 1.4],
        ['fastify-sodium-memo', floors],
      ] as const)
        recorder.record({
          ...{ id: `peers/${peer}/d4/cpu`, unit: 'µs', better: 'lower', value: value * SAMPLE_FLOOR },
        });
    }
    return {
      ...sample,
      figures: [...sample.figures.filter(({ suite }) => suite !== 'peers'), ...recorder.figures()],
    };
  }

  it('gets the ratio to the best alternative with its interval, and the picture', () => {
    const text =
      'before\n<!-- measured: latency-picture -->\n<!-- end -->\n<!-- measured: ratio -->\nstale text\n<!-- end -->\n';
    const filled = fillReadme(text, [withPeer([2.8, 2.9, 2.7, 2.8])]);
    expect(filled).toContain('in one process 2.00 times at depth 4 (1.93 … 2.07)');
    expect(filled).toContain('docs/latency-by-depth.svg');
    expect(filled).not.toContain('stale text');
    expect(fillReadme(filled, [withPeer([2.8, 2.9, 2.7, 2.8])])).toBe(filled);
    expect(fillReadme('nothing', [sample])).toBe('nothing');
  });

  it('calls nothing faster where the interval holds 1, and says nothing after one run', () => {
    expect(describeRatio(withPeer([1.3, 1.4, 1.6]))).toContain('so no difference can be told');
    expect(describeRatio(withPeer([2.8]))).toBe('');
  });
});
