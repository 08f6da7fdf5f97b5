import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { expect, it } from 'vitest';

// Node aborts where a thread ends in the middle of require(esm): once in some hundred pools that are closed as they start.
it('gives Piscina a worker that needs no require(esm)', () => {
  const file = createRequire(import.meta.url).resolve('#signature-worker');
  // What it imports needs a worker thread, so here that fails.
  const script = `require(${JSON.stringify(file)}).catch(({ message }) => console.log(message))`;
  const output = execFileSync(process.execPath, ['--no-experimental-require-module', '-e', script], {
    encoding: 'utf8',
  });
  expect(output).toContain("reading 'map'");
});
