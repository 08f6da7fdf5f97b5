import { describe, expect, it } from 'vitest';
import { selfTimes, trimProfile, type CpuProfile } from '../../bench/load/cpu-profile.js';

const frame = (functionName: string) => ({ functionName, url: 'node:internal/x', lineNumber: 4 });

const profile: CpuProfile = {
  nodes: [
    { id: 1, callFrame: frame('(root)') },
    { id: 2, callFrame: frame('outer') },
    { id: 3, callFrame: frame('inner') },
    { id: 4, callFrame: frame('inner') },
  ],
  startTime: 1000,
  endTime: 1270,
  samples: [2, 3, 3, 4, 2],
  timeDeltas: [100, 10, 20, 40, 100],
};

describe('a profile', () => {
  it('keeps only the time of the load', () => {
    expect(trimProfile(profile, 1105, 1175)).toEqual({
      ...{ nodes: profile.nodes, startTime: 1105, endTime: 1175 },
      ...{ samples: [3, 3, 4], timeDeltas: [10, 20, 40] },
    });
  });

  it('adds up what a function takes wherever it is called', () => {
    expect(selfTimes(trimProfile(profile, 1000, 1175))).toEqual([
      ['outer  node:internal/x:5', 100],
      ['inner  node:internal/x:5', 70],
    ]);
  });
});
