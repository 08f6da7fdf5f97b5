import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';

const run = promisify(execFile);
const child = fileURLToPath(new URL('cache-memory-child.mjs', import.meta.url));

const shapes = [
  ...['ordinary', 'limits of every kind of number', 'empty', 'many tools', 'empty tools'],
  ...['many small nodes', 'objects of names of their own', 'members of names of their own'],
  ...['texts beyond Latin-1', 'all that was agreed'],
];

let measured: readonly { shape: string; kind: string; counted: number; held: number }[];
beforeAll(async () => {
  // One thread: what V8 compiles and collects on other threads moves the figure by 500 kB from run to run.
  const { stdout } = await run(process.execPath, ['--expose-gc', '--single-threaded', child]);
  measured = JSON.parse(stdout) as typeof measured;
});

it.each(shapes.flatMap((shape) => [[shape, 'receipt'] as const, [shape, 'chain'] as const]))(
  'a cache of entries with %s (%s) counts at least what the heap holds of it',
  (shape, kind) => {
    const found = measured.find((one) => one.shape === shape && one.kind === kind);
    if (found === undefined) throw new Error('not measured');
    const { counted, held } = found;
    expect(counted).toBeGreaterThan(5_000_000);
    // A little memory does not belong to the cache: code that V8 compiled meanwhile.
    expect(held).toBeLessThan(counted + 200_000);
    // The cache must not count far more than it holds either, except for texts that share their memory.
    if (shape !== 'empty tools') expect(held).toBeGreaterThan(counted / 3);
  },
);
