import { describe, expect, it } from 'vitest';
import { callTree, hottest, trimProfile, type CpuProfile } from '../../bench/report/flame-graph.js';

const frame = (functionName: string) => ({ functionName, url: 'node:internal/x', lineNumber: 4 });

const profile: CpuProfile = {
  nodes: [
    { id: 1, callFrame: frame('(root)'), children: [2, 4] },
    { id: 2, callFrame: frame('outer'), children: [3] },
    { id: 3, callFrame: frame('inner') },
    { id: 4, callFrame: frame('inner') },
  ],
  startTime: 1000,
  endTime: 1270,
  samples: [2, 3, 3, 4, 2],
  timeDeltas: [100, 10, 20, 40, 100],
};

describe('a profile', () => {
  it('holds what fell into the time of the load, and nothing before or after', () => {
    const tree = callTree(profile, 1105, 1175);
    expect(tree).toMatchObject({ name: '(root)', total: 70, self: 0 });
    expect(tree.calls.map(({ name, total, self }) => [name, total, self])).toEqual([
      ['inner', 40, 40],
      ['outer', 30, 0],
    ]);
  });

  it('adds up what a function takes wherever it is called', () => {
    const [first] = hottest(callTree(profile, 1105, 1175), 1);
    expect(first).toEqual({ name: 'inner', where: 'node:internal/x:5', self: 70 });
  });

  it('keeps of a profile only the time of the load, and its whole tree', () => {
    expect(trimProfile(profile, 1105, 1175)).toEqual({
      ...{ nodes: profile.nodes, startTime: 1105, endTime: 1175 },
      ...{ samples: [3, 3, 4], timeDeltas: [10, 20, 40] },
    });
  });
});
