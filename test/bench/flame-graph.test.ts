import { describe, expect, it } from 'vitest';
import { callTree, hottest, renderFlameGraphs, type CpuProfile } from '../../bench/report/flame-graph.js';

const frame = (functionName: string) => ({ functionName, url: 'node:internal/x', lineNumber: 4 });

const profile: CpuProfile = {
  nodes: [
    { id: 1, callFrame: frame('(root)'), children: [2, 4] },
    { id: 2, callFrame: frame('outer'), children: [3] },
    { id: 3, callFrame: frame('inner') },
    { id: 4, callFrame: frame('inner') },
  ],
  startTime: 1000,
  samples: [2, 3, 3, 4, 2],
  timeDeltas: [100, 10, 20, 40, 100],
};

describe('a flame graph', () => {
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

  it('is one page that a name cannot break out of', () => {
    const tree = { ...callTree(profile, 0, 9999), name: '</script><script>$& $1' };
    const page = renderFlameGraphs([{ name: 'main thread', tree }], 'about');
    expect(page).toContain('\\u003c/script>\\u003cscript>$& $1');
    expect(page).not.toContain('{{');
  });
});
