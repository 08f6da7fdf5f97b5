import { describe, expect, it } from 'vitest';
import { checkEngine, ENGINES, readVectors, type Engine } from '../../bench/suites/engines.js';

const vectors = readVectors();

describe('the engines of this platform', () => {
  it('verifies with the product every published vector rightly', async () => {
    expect(vectors.length).toBe(151 + 914);
    expect(await checkEngine(ENGINES['sodium-native'], vectors)).toEqual({
      acceptedWrongly: 0,
      refusedWrongly: 0,
    });
  });

  it('sees that node:crypto accepts keys and signatures of low order before Node 24', async () => {
    expect(await checkEngine(ENGINES['node-crypto'], vectors)).toEqual({
      acceptedWrongly: Number(process.versions.node.split('.')[0]) < 24 ? 165 : 0,
      refusedWrongly: 0,
    });
  });

  it('counts what is accepted and what is refused wrongly, and takes an error for a refusal', async () => {
    const all: Engine = () => () => true;
    const none: Engine = () => {
      throw new Error('bad key');
    };
    const valid = vectors.filter((vector) => vector.valid).length;
    expect(await checkEngine(all, vectors)).toEqual({
      acceptedWrongly: vectors.length - valid,
      refusedWrongly: 0,
    });
    expect(await checkEngine(none, vectors)).toEqual({ acceptedWrongly: 0, refusedWrongly: valid });
  });
});
