import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { availableEngines, checkEngine, type Engine, type Vector } from '../../bench/measure/engines.js';
import { ROOT } from '../../bench/run/paths.js';

const vectors = ['ed25519.jsonl', 'ed25519-edge.jsonl'].flatMap((file): Vector[] =>
  readFileSync(path.join(ROOT, 'test/vectors', file), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => {
      const vector = JSON.parse(line) as { key: string; message: string; signature: string; valid: boolean };
      const bytes = (name: 'key' | 'message' | 'signature') => Buffer.from(vector[name], 'base64url');
      return {
        key: bytes('key'),
        message: bytes('message'),
        signature: bytes('signature'),
        valid: vector.valid,
      };
    }),
);

describe('the engines of this platform', () => {
  const named = async (name: string): Promise<Engine> => {
    const found = (await availableEngines(() => undefined)).find((engine) => engine.name === name);
    if (found === undefined) throw new Error(`there is no ${name}`);
    return found;
  };

  it('verifies with the product every published vector rightly', async () => {
    expect(vectors.length).toBe(151 + 914);
    expect(await checkEngine(await named('sodium-native'), vectors)).toEqual({
      acceptedWrongly: 0,
      refusedWrongly: 0,
    });
  });

  it('sees that node:crypto accepts keys and signatures of low order', async () => {
    const { acceptedWrongly, refusedWrongly } = await checkEngine(await named('node-crypto'), vectors);
    expect(acceptedWrongly).toBeGreaterThan(100);
    expect(refusedWrongly).toBe(0);
  });

  it('counts what is accepted and what is refused wrongly, and takes an error for a refusal', async () => {
    const all: Engine = { name: 'all', under: () => () => true };
    const none: Engine = {
      name: 'none',
      under: () => {
        throw new Error('bad key');
      },
    };
    const valid = vectors.filter((vector) => vector.valid).length;
    expect(await checkEngine(all, vectors)).toEqual({
      acceptedWrongly: vectors.length - valid,
      refusedWrongly: 0,
    });
    expect(await checkEngine(none, vectors)).toEqual({ acceptedWrongly: 0, refusedWrongly: valid });
  });
});
